package dsse_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
)

const inToto = "application/vnd.in-toto+json"

// TestPAE has the check value of the specification's encoding.
func TestPAE(t *testing.T) {
	t.Parallel()
	got := dsse.PAE(inToto, []byte("{}"))
	sum := sha256.Sum256(got)
	if string(got) != "DSSEv1 28 application/vnd.in-toto+json 2 {}" ||
		hex.EncodeToString(sum[:]) != "4842cb1ba6fed6e460d8a0d56f6b64ccf1f1e11f7714a7f282080d5780251b63" {
		t.Errorf("got %q", got)
	}
	if got := string(dsse.PAE("é", []byte("ü"))); got != "DSSEv1 2 é 2 ü" { // lengths are in bytes
		t.Errorf("got %q", got)
	}
}

func newKey(t *testing.T) (dsse.PrivateKey, dsse.PublicKey) {
	t.Helper()
	key, err := dsse.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return key, key.Public()
}

// TestSign verifies with nothing but the standard library.
func TestSign(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	envelope, err := key.Sign(inToto, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode([]byte(public.PEM))
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		t.Fatalf("public key %q", public.PEM)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(block.Bytes)
	if id := hex.EncodeToString(sum[:]); id != public.ID || id != envelope.Signatures[0].KeyID {
		t.Errorf("key id %s, %s, want %s", public.ID, envelope.Signatures[0].KeyID, id)
	}
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 28 %s %d %s", inToto, len(payload), payload))
	if !ecdsa.VerifyASN1(parsed.(*ecdsa.PublicKey), digest[:], sig) {
		t.Error("the signature does not verify")
	}
	again, err := key.Sign(inToto, []byte(`{"a":1}`))
	if err != nil || again.Signatures[0] != envelope.Signatures[0] {
		t.Errorf("signed twice: %v and %v; %v", envelope, again, err)
	}
	der, err := key.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := dsse.ParsePrivateKey(der)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = restored.Sign(inToto, []byte(`{"a":1}`)); err != nil || again.Signatures[0] != envelope.Signatures[0] {
		t.Errorf("the restored key signs %v; %v", again, err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	_, other := newKey(t)
	good, err := key.Sign(inToto, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	swapped, err := key.Sign(inToto, []byte(`{"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Sign("text/plain", []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(e *dsse.Envelope)) dsse.Envelope {
		e := good
		e.Signatures = append([]dsse.Signature{}, good.Signatures...)
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		envelope dsse.Envelope
		keys     []dsse.PublicKey
		want     error
	}{
		"good":           {good, []dsse.PublicKey{other, public}, nil},
		"no keys":        {good, nil, dsse.ErrKey},
		"another key":    {good, []dsse.PublicKey{other}, dsse.ErrKey},
		"a false key id": {changed(func(e *dsse.Envelope) { e.Signatures[0].KeyID = other.ID }), []dsse.PublicKey{other}, dsse.ErrSignature},
		"no key id":      {changed(func(e *dsse.Envelope) { e.Signatures[0].KeyID = "" }), []dsse.PublicKey{public}, dsse.ErrKey},
		"payload":        {changed(func(e *dsse.Envelope) { e.Payload = swapped.Payload }), []dsse.PublicKey{public}, dsse.ErrSignature},
		"type":           {text, []dsse.PublicKey{public}, dsse.ErrType},
		"type replaced":  {changed(func(e *dsse.Envelope) { e.PayloadType = "text/plain" }), []dsse.PublicKey{public}, dsse.ErrType},
		"type forged":    {changed(func(e *dsse.Envelope) { *e = text; e.PayloadType = inToto }), []dsse.PublicKey{public}, dsse.ErrSignature},
		"two signatures": {changed(func(e *dsse.Envelope) { e.Signatures = append(e.Signatures, e.Signatures[0]) }), []dsse.PublicKey{public}, dsse.ErrForm},
		"no signature":   {changed(func(e *dsse.Envelope) { e.Signatures = nil }), []dsse.PublicKey{public}, dsse.ErrForm},
		"base64":         {changed(func(e *dsse.Envelope) { e.Payload = "!" }), []dsse.PublicKey{public}, dsse.ErrForm},
		"base64 of sig":  {changed(func(e *dsse.Envelope) { e.Signatures[0].Sig = "!" }), []dsse.PublicKey{public}, dsse.ErrForm},
		"empty sig":      {changed(func(e *dsse.Envelope) { e.Signatures[0].Sig = "" }), []dsse.PublicKey{public}, dsse.ErrSignature},
		"nothing at all": {dsse.Envelope{}, []dsse.PublicKey{public}, dsse.ErrType},
	} {
		payload, by, err := c.envelope.Verify(inToto, c.keys)
		if !errors.Is(err, c.want) || err == nil && (string(payload) != `{"a":1}` || by.ID != public.ID) {
			t.Errorf("%s: %s by %s, %v; want %v", name, payload, by.ID, err, c.want)
		}
		if err != nil && payload != nil {
			t.Errorf("%s: a payload that was not verified is returned", name)
		}
	}
}

func TestParsePublicKeys(t *testing.T) {
	t.Parallel()
	_, one := newKey(t)
	_, two := newKey(t)
	keys, err := dsse.ParsePublicKeys([]byte("# ours\n" + one.PEM + two.PEM))
	if err != nil || len(keys) != 2 || keys[0].ID != one.ID || keys[1].ID != two.ID {
		t.Errorf("got %v, %v", keys, err)
	}
	const ed25519 = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
	for _, bad := range []string{"", "x", ed25519, strings.Replace(one.PEM, "M", "A", 1)} {
		if keys, err := dsse.ParsePublicKeys([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, keys)
		}
	}
	jwk, err := one.JWK()
	if err != nil || len(jwk.X) != 43 || len(jwk.Y) != 43 || jwk.KeyID != one.ID {
		t.Errorf("JWK %v, %v", jwk, err)
	}
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	for _, good := range []string{`{}`, `{"a":{"b":1},"b":[{"b":1},{"b":2}],"c":"a"}`, `[]`, `"x"`, `{"a":"b","b":"a"}`} {
		var into any
		if err := dsse.Unmarshal([]byte(good), &into); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"x":[{"a":1,"b":2,"a":3}]}`, `{"a":{"b":1},"a":1}`, `{} {}`, `{}x`, `{`, ``,
		`{"a":1,"\u0061":2}`, strings.Repeat("[", 100_000),
	} {
		var into any
		if err := dsse.Unmarshal([]byte(bad), &into); err == nil {
			t.Errorf("%.40s is accepted as %v", bad, into)
		}
	}
}
