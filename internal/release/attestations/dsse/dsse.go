// Package dsse signs and verifies payloads in DSSE envelopes with ECDSA P-256, as
// cosign does with its own keys. It owns no tables.
package dsse

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Algorithm is that of every key.
const Algorithm = "ecdsa-p256-sha256"

// An Envelope is a signed payload.
type Envelope struct {
	PayloadType string      `json:"payloadType" example:"application/vnd.in-toto+json"`
	Payload     string      `json:"payload" doc:"Base64"`
	Signatures  []Signature `json:"signatures" nullable:"false"`
}

// A Signature is one of an envelope.
type Signature struct {
	KeyID string `json:"keyid" doc:"SHA-256 of the public key (DER, SubjectPublicKeyInfo) in hex"`
	Sig   string `json:"sig" doc:"Base64 of the signature (ASN.1)"`
}

// PAE is the pre-authentication encoding: the bytes that are signed. See the DSSE protocol, v1.
// The lengths keep a type and a payload from being split elsewhere.
func PAE(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// A PrivateKey signs. It must come from Generate or ParsePrivateKey.
type PrivateKey struct {
	key    *ecdsa.PrivateKey
	public PublicKey
}

// Generate makes a key.
func Generate() (PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return PrivateKey{}, err
	}
	return newPrivateKey(key)
}

func newPrivateKey(key *ecdsa.PrivateKey) (PrivateKey, error) {
	public, err := newPublicKey(&key.PublicKey)
	return PrivateKey{key, public}, err
}

// ParsePrivateKey reads what Marshal returned.
func ParsePrivateKey(der []byte) (PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return PrivateKey{}, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return PrivateKey{}, fmt.Errorf("the key is a %T, not ECDSA", parsed)
	}
	return newPrivateKey(key)
}

// Marshal returns the key as PKCS #8.
func (k PrivateKey) Marshal() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(k.key) }

// Public returns the public half.
func (k PrivateKey) Public() PublicKey { return k.public }

// Sign puts a payload into an envelope. The same payload gives the same bytes
// (RFC 6979). A broken random generator can then not leak the key.
func (k PrivateKey) Sign(payloadType string, payload []byte) (Envelope, error) {
	sum := sha256.Sum256(PAE(payloadType, payload))
	sig, err := k.key.Sign(nil, sum[:], crypto.SHA256)
	return Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []Signature{{KeyID: k.public.ID, Sig: base64.StdEncoding.EncodeToString(sig)}},
	}, err
}

// A PublicKey verifies.
type PublicKey struct {
	ID  string // SHA-256 of its DER form, in hex
	PEM string
	key *ecdsa.PublicKey
}

func newPublicKey(key *ecdsa.PublicKey) (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	sum := sha256.Sum256(der)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return PublicKey{ID: hex.EncodeToString(sum[:]), PEM: string(text), key: key}, err
}

// ParsePublicKeys reads all keys of a PEM file; there must be one. A key of another kind is an
// error rather than skipped: it would look as if it were in use.
func ParsePublicKeys(text []byte) (keys []PublicKey, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("not a public key: %w", err)
		}
		key, ok := parsed.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() {
			return nil, errors.New("not an ECDSA P-256 key")
		}
		public, err := newPublicKey(key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, public)
	}
	if len(keys) == 0 {
		return nil, errors.New("no public key in PEM form")
	}
	return keys, nil
}

// A JWK is a public key in the form of RFC 7517.
type JWK struct {
	KeyType string `json:"kty" enum:"EC"`
	Curve   string `json:"crv" enum:"P-256"`
	X       string `json:"x"`
	Y       string `json:"y"`
	KeyID   string `json:"kid"`
	Use     string `json:"use" enum:"sig"`
	Alg     string `json:"alg" enum:"ES256"`
}

// JWK returns the key as a JWK.
func (k PublicKey) JWK() (JWK, error) {
	// The uncompressed form of SEC 1, with 32 bytes for each coordinate.
	point, err := k.key.Bytes() // 4, x, y
	if err != nil {
		return JWK{}, err
	}
	x, y := point[1:33], point[33:]
	return JWK{
		KeyType: "EC", Curve: "P-256", X: base64.RawURLEncoding.EncodeToString(x), Y: base64.RawURLEncoding.EncodeToString(y),
		KeyID: k.ID, Use: "sig", Alg: "ES256",
	}, nil
}

// The reasons why an envelope does not verify.
var (
	ErrType      = errors.New("the envelope has another payload type")
	ErrKey       = errors.New("the envelope is signed with an unknown key")
	ErrSignature = errors.New("the signature does not fit the payload")
	ErrForm      = errors.New("the envelope is malformed")
)

// Verify returns the payload of an envelope that one of the keys signed, and that
// key. It must have exactly one signature: with several, programs that look at
// different ones would disagree. Whether the key is revoked is the caller's business.
func (e Envelope) Verify(payloadType string, keys []PublicKey) (payload []byte, by PublicKey, err error) {
	if e.PayloadType != payloadType {
		return nil, by, fmt.Errorf("%w: %q", ErrType, e.PayloadType)
	}
	if len(e.Signatures) != 1 {
		return nil, by, fmt.Errorf("%w: it has %d signatures", ErrForm, len(e.Signatures))
	}
	payload, err = base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return nil, by, fmt.Errorf("%w: its payload is no base64", ErrForm)
	}
	s := e.Signatures[0]
	// Strict, so that one signature has one encoding.
	sig, err := base64.StdEncoding.Strict().DecodeString(s.Sig)
	if err != nil {
		return nil, by, fmt.Errorf("%w: its signature is no base64", ErrForm)
	}
	for _, key := range keys {
		if key.ID != s.KeyID {
			continue
		}
		sum := sha256.Sum256(PAE(e.PayloadType, payload))
		if !ecdsa.VerifyASN1(key.key, sum[:], sig) {
			return nil, key, ErrSignature
		}
		return payload, key, nil
	}
	return nil, by, fmt.Errorf("%w (%.16s)", ErrKey, s.KeyID)
}

// Unmarshal is json.Unmarshal for signed payloads: an object with the same key
// twice, which two parsers would read differently, is an error, and so is anything
// after the value.
func Unmarshal(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	if err := uniqueKeys(d); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}
	return json.Unmarshal(payload, into)
}

// uniqueKeys reads one value, iteratively: the depth is the sender's. Recursion would let a
// sender exhaust the stack.
func uniqueKeys(d *json.Decoder) error {
	type scope struct {
		seen  map[string]bool // nil in an array
		inKey bool
	}
	var open []scope
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		top := len(open) - 1
		if key, ok := token.(string); ok && top >= 0 && open[top].inKey {
			folded := strings.ToLower(key) // encoding/json ignores case, too
			if open[top].seen[folded] {
				return fmt.Errorf("the key %q is there twice", key)
			}
			open[top].seen[folded], open[top].inKey = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, scope{map[string]bool{}, true})
			continue
		case json.Delim('['):
			open = append(open, scope{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if len(open) == 0 {
			return nil
		}
		open[len(open)-1].inKey = open[len(open)-1].seen != nil
	}
}
