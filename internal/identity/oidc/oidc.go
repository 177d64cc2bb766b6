// Package oidc verifies ID tokens of OpenID providers that somebody configured: code
// hosts that vouch for a workflow run, and identity providers that vouch for a person,
// whose authorization code flow it speaks, too. It fetches an issuer's keys by
// discovery, through internal/platform/outbound, and caches them. It owns no tables.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

const (
	// MaxToken is the largest token of a workflow run in bytes: anybody may send one, and
	// those of code hosts have 1 to 3 KiB.
	MaxToken = 16 << 10
	// MaxSignInToken is the same for a person's: a group is 10 to 40 bytes, and large
	// companies have thousands.
	MaxSignInToken = 128 << 10
	// MaxLifetime is how long a token may still be valid: its replay must be refused
	// for as long.
	MaxLifetime = 24 * time.Hour
)

// algorithms are the accepted signatures: asymmetric ones only. With "none" anybody
// could sign, and with HS256 anybody who knows the public key. That rules out the two classic
// attacks on JWT libraries.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// A Token is what an ID token claims. The claims are those of the payload whose signature was
// verified, or of an unverified one after Peek.
type Token struct {
	Issuer   string
	Subject  string
	Audience []string
	Expiry   time.Time
	// Fingerprint identifies the token, to refuse its replay: a hash of its issuer and
	// its id or, without one, of all that is signed.
	Fingerprint string

	claims []byte
}

// Claims decodes the token's claims into v.
func (t Token) Claims(v any) error {
	if err := json.Unmarshal(t.claims, v); err != nil {
		return fault.New(fault.Unauthorized, "The token's claims are not as its issuer should write them").Because(err)
	}
	return nil
}

// Peek returns what a token claims without verifying its signature: who should be
// asked for the key. It refuses, as fault.Unauthorized, what would be refused with any
// key: another audience, a token that has expired, an algorithm that proves nothing. It costs no
// request, so garbage never leads to one.
func Peek(raw, audience string) (Token, error) {
	if len(raw) > MaxToken {
		return Token{}, fault.New(fault.Unauthorized, "The token is larger than %d KiB", MaxToken>>10)
	}
	return peek(raw, audience)
}

// peek is Peek without the limit of size, which differs between callers.
func peek(raw, audience string) (Token, error) {
	signed, err := jose.ParseSignedCompact(raw, algorithms())
	if _, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		var all []string
		for _, a := range algorithms() {
			all = append(all, string(a))
		}
		return Token{}, fault.New(fault.Unauthorized, "The token is not signed with one of %s", strings.Join(all, ", "))
	}
	if err != nil {
		return Token{}, fault.New(fault.Unauthorized, "This is not an ID token: a JWT of three parts is expected")
	}
	t, err := newToken(raw, signed.UnsafePayloadWithoutVerification())
	if err != nil {
		return t, err
	}
	return t, t.check(audience)
}

// newToken reads the registered claims (RFC 7519, section 4.1). The fingerprint leaves the
// signature out: some schemes allow a second valid one for the same content.
func newToken(raw string, payload []byte) (Token, error) {
	var c struct {
		Issuer   string   `json:"iss"`
		Subject  string   `json:"sub"`
		ID       string   `json:"jti"`
		Audience audience `json:"aud"`
		Expiry   float64  `json:"exp"`
	}
	t := Token{claims: payload}
	if err := t.Claims(&c); err != nil {
		return t, err
	}
	t.Issuer, t.Subject, t.Audience, t.Expiry = c.Issuer, c.Subject, c.Audience, time.Unix(int64(c.Expiry), 0)
	id := "jti\x00" + c.ID
	if c.ID == "" {
		id = "jws\x00" + raw[:strings.LastIndexByte(raw, '.')]
	}
	sum := sha256.Sum256([]byte(c.Issuer + "\x00" + id))
	t.Fingerprint = hex.EncodeToString(sum[:])
	return t, nil
}

// check refuses, in the order in which a person can do something about it. An expiry far ahead is
// refused, as its fingerprint would have to be kept that long.
func (t Token) check(audience string) error {
	now := time.Now()
	switch {
	case t.Issuer == "":
		return fault.New(fault.Unauthorized, "The token names no issuer")
	case !slices.Contains(t.Audience, audience):
		return fault.New(fault.Unauthorized, "The token is for the audience %q; ask for one with the audience %q",
			strings.Join(t.Audience, " "), audience)
	case !t.Expiry.After(now):
		return fault.New(fault.Unauthorized, "The token has expired; ask for a new one")
	case t.Expiry.After(now.Add(MaxLifetime)):
		return fault.New(fault.Unauthorized, "The token is valid for more than %d hours; ask for a shorter one",
			int(MaxLifetime.Hours()))
	}
	return nil
}

// audience is a text or a list of texts. RFC 7519, section 4.1.3.
type audience []string

// UnmarshalJSON reads both forms.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// Verify returns what a token claims, if the issuer has signed it for the audience.
// The issuer is one that somebody configured, never what the token says: its keys are
// fetched. A token that is not valid is fault.Unauthorized; if the keys cannot be
// fetched, the error is fault.BadGateway.
func (k *Keys) Verify(ctx context.Context, raw, issuer, audience string) (Token, error) {
	if _, err := Peek(raw, audience); err != nil {
		return Token{}, err
	}
	return k.verify(ctx, raw, issuer, audience)
}

// verify checks the signature with the library and then once more everything that Peek has checked,
// on the payload that was verified.
func (k *Keys) verify(ctx context.Context, raw, issuer, audience string) (Token, error) {
	var supported []string
	for _, a := range algorithms() {
		supported = append(supported, string(a))
	}
	set := &keySet{keys: k, issuer: issuer}
	v := oidc.NewVerifier(issuer, set, &oidc.Config{ClientID: audience, SupportedSigningAlgs: supported})
	if _, err := v.Verify(ctx, raw); err != nil {
		if set.err != nil {
			return Token{}, set.err
		}
		// The library's words name what is expected, e.g. the issuer: they are logged only.
		return Token{}, errNotValid().Because(err)
	}
	t, err := newToken(raw, set.payload)
	if err != nil {
		return t, err
	}
	return t, t.check(audience)
}

func errNotValid() *fault.Error {
	return fault.New(fault.Unauthorized, "The token is not valid: its issuer is not known here, or has not signed it")
}

// ErrNotValid is the error of a token whose issuer nobody configured. It is the one of
// a wrong signature: which issuers are configured is nobody else's business.
func ErrNotValid() error { return errNotValid() }

// keySet verifies signatures with the keys of one issuer. It keeps why keys are missing, which the
// library would turn into a text.
type keySet struct {
	keys    *Keys
	issuer  string
	payload []byte
	err     error // why the keys are not there, for the caller
}

// VerifySignature implements oidc.KeySet.
func (s *keySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(raw, algorithms())
	if err != nil {
		return nil, err
	}
	header := signed.Signatures[0].Protected
	found, err := s.keys.find(ctx, s.issuer, header.KeyID)
	if err != nil {
		s.err = err
		return nil, err
	}
	// The algorithm of the key, if it says one, must be that of the token.
	for _, key := range found {
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			s.payload = payload
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer has signed the token")
}
