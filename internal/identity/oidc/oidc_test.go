package oidc_test

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

const audience = "https://whetstone.example"

func newKeys(t *testing.T, o outbound.Options) *oidc.Keys {
	t.Helper()
	client, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return oidc.NewKeys(client)
}

func loopback(t *testing.T) *oidc.Keys {
	t.Helper()
	return newKeys(t, outbound.Options{AllowPrivate: true})
}

func TestVerify(t *testing.T) {
	p := oidctest.New(t)
	keys := loopback(t)
	token, err := keys.Verify(t.Context(), p.Sign(t, p.GitHub(audience)), p.URL, audience)
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Repository string }
	if err := token.Claims(&c); err != nil || c.Repository != "acme/skills" {
		t.Errorf("claims: %v, %v", c, err)
	}
	for range 20 {
		if _, err := keys.Verify(t.Context(), p.Sign(t, p.GitHub(audience)), p.URL, audience); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := p.Discoveries.Load(), p.Fetches.Load(); n != 1 || m != 1 {
		t.Errorf("21 tokens made %d requests for discovery and %d for keys, want 1 of each", n, m)
	}
}

func TestVerifyRefuses(t *testing.T) {
	p, other := oidctest.New(t), oidctest.New(t)
	now := time.Now()
	good := p.GitHub(audience)
	unsigned := func(header string) string {
		parts := strings.Split(p.Sign(t, good), ".")
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + parts[1] + "."
	}
	public, err := x509.MarshalPKIXPublicKey(p.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	swapped := oidctest.NewKey(t, "key-1")
	tampered := func() string {
		parts := strings.Split(p.Sign(t, good), ".")
		payload := strings.Split(p.Sign(t, good.With(oidctest.Claims{"repository": "evil/skills"})), ".")[1]
		return parts[0] + "." + payload + "." + parts[2]
	}
	for name, raw := range map[string]string{
		"empty":                        "",
		"not a token":                  "hello",
		"five parts":                   "a.b.c.d.e",
		"too large":                    p.Sign(t, good.With(oidctest.Claims{"more": strings.Repeat("x", oidc.MaxToken)})),
		"wrong audience":               p.Sign(t, good.With(oidctest.Claims{"aud": "https://other.example"})),
		"no audience":                  p.Sign(t, good.With(oidctest.Claims{"aud": nil})),
		"audience with a slash":        p.Sign(t, good.With(oidctest.Claims{"aud": audience + "/"})),
		"another issuer in the token":  p.Sign(t, good.With(oidctest.Claims{"iss": other.URL})),
		"no issuer":                    p.Sign(t, good.With(oidctest.Claims{"iss": nil})),
		"expired":                      p.Sign(t, good.With(oidctest.Claims{"exp": now.Add(-time.Minute).Unix()})),
		"no expiry":                    p.Sign(t, good.With(oidctest.Claims{"exp": nil})),
		"expires in a year":            p.Sign(t, good.With(oidctest.Claims{"exp": now.Add(365 * 24 * time.Hour).Unix()})),
		"not yet valid":                p.Sign(t, good.With(oidctest.Claims{"nbf": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()})),
		"alg none":                     unsigned(`{"alg":"none","typ":"JWT"}`),
		"alg None":                     unsigned(`{"alg":"None","kid":"key-1"}`),
		"HS256 with the public key":    oidctest.Sign(t, secret, jose.HS256, good),
		"another key with the same id": oidctest.Sign(t, swapped, jose.RS256, good),
		"key of another issuer":        oidctest.Sign(t, other.Key(), jose.RS256, good),
		"other algorithm than the key": oidctest.Sign(t, jose.JSONWebKey{Key: p.Key().Key, KeyID: "key-1"}, jose.RS512, good),
		"tampered payload":             tampered(),
		"no signature":                 strings.TrimRight(p.Sign(t, good), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
	} {
		t.Run(name, func(t *testing.T) {
			token, err := loopback(t).Verify(t.Context(), raw, p.URL, audience)
			if !fault.Is(err, fault.Unauthorized) {
				t.Errorf("got %v, %v, want Unauthorized", token, err)
			}
		})
	}
	if n := other.Discoveries.Load(); n != 0 {
		t.Errorf("the issuer that only a token names was asked %d times", n)
	}
}

func TestVerifyRotatedKeys(t *testing.T) {
	p := oidctest.New(t)
	keys, now := loopback(t), time.Now()
	keys.SetNow(func() time.Time { return now })
	verify := func(raw string) error {
		_, err := keys.Verify(t.Context(), raw, p.URL, audience)
		return err
	}
	old := p.Sign(t, p.GitHub(audience))
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	p.Rotate(t, "key-2")
	if err := verify(p.Sign(t, p.GitHub(audience))); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("right after another fetch: %v, want Unauthorized", err)
	}
	now = now.Add(31 * time.Second)
	if err := verify(p.Sign(t, p.GitHub(audience))); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	if err := verify(old); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("with the key that is gone: %v, want Unauthorized", err)
	}
	now = now.Add(2 * time.Hour)
	p.SetDiscovery(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if err := verify(p.Sign(t, p.GitHub(audience))); err != nil {
		t.Errorf("while the issuer is down: %v", err)
	}
	now = now.Add(25 * time.Hour)
	if err := verify(p.Sign(t, p.GitHub(audience))); !fault.Is(err, fault.BadGateway) {
		t.Errorf("down for a day: %v, want BadGateway", err)
	}
}

// TestUnknownKeys floods the verifier with keys that nobody has.
func TestUnknownKeys(t *testing.T) {
	p := oidctest.New(t)
	keys := loopback(t)
	stranger := oidctest.NewKey(t, "x")
	var all sync.WaitGroup
	for i := range 200 {
		stranger.KeyID = fmt.Sprint("unknown-", i)
		raw := oidctest.Sign(t, stranger, jose.RS256, p.GitHub(audience))
		all.Go(func() {
			if _, err := keys.Verify(t.Context(), raw, p.URL, audience); !fault.Is(err, fault.Unauthorized) {
				t.Errorf("got %v, want Unauthorized", err)
			}
		})
	}
	all.Wait()
	if _, err := keys.Verify(t.Context(), p.Sign(t, p.GitHub(audience)), p.URL, audience); err != nil {
		t.Errorf("a known key afterwards: %v", err)
	}
	if n := p.Fetches.Load(); n != 1 {
		t.Errorf("200 unknown keys made %d requests for keys, want 1", n)
	}
}

func TestBadProviders(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { oidctest.Write(w, v) }
	}
	redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }
	huge := func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			fmt.Fprint(w, `{"keys":[`+strings.Repeat(" ", 1<<10))
		}
	}
	weak := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537}
	for name, misbehave := range map[string]func(p *oidctest.Provider){
		"discovery names another issuer": func(p *oidctest.Provider) {
			p.SetDiscovery(answer(map[string]any{"issuer": "https://other.example", "jwks_uri": p.URL + "/jwks"}))
		},
		"discovery redirects":  func(p *oidctest.Provider) { p.SetDiscovery(redirect) },
		"keys redirect":        func(p *oidctest.Provider) { p.SetKeys(redirect) },
		"discovery is missing": func(p *oidctest.Provider) { p.SetDiscovery(http.NotFound) },
		"discovery is not JSON": func(p *oidctest.Provider) {
			p.SetDiscovery(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
		},
		"huge keys": func(p *oidctest.Provider) { p.SetKeys(huge) },
		"no keys":   func(p *oidctest.Provider) { p.SetKeys(answer(map[string]any{"keys": []any{}})) },
		"weak keys": func(p *oidctest.Provider) {
			p.SetKeys(answer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: weak, KeyID: "key-1"}}}))
		},
		"a shared secret as a key": func(p *oidctest.Provider) {
			p.SetKeys(answer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("secret"), KeyID: "key-1"}}}))
		},
		"keys at a file": func(p *oidctest.Provider) {
			p.SetDiscovery(answer(map[string]any{"issuer": p.URL, "jwks_uri": "file:///etc/passwd"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.New(t)
			misbehave(p)
			keys := loopback(t)
			for range 3 {
				if _, err := keys.Verify(t.Context(), p.Sign(t, p.GitHub(audience)), p.URL, audience); !fault.Is(err, fault.BadGateway) {
					t.Errorf("got %v, want BadGateway", err)
				}
			}
			if n := p.Discoveries.Load(); n != 1 {
				t.Errorf("the issuer was asked %d times in a row, want 1", n)
			}
		})
	}
}

// TestSlowProvider leaves before the issuer answers.
func TestSlowProvider(t *testing.T) {
	p := oidctest.New(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.SetDiscovery(func(http.ResponseWriter, *http.Request) { close(asked); <-answer })
	defer close(answer)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := loopback(t).Verify(ctx, p.Sign(t, p.GitHub(audience)), p.URL, audience); err == nil {
		t.Error("got no error")
	}
}

// TestPrivateKeysAddress has a public issuer whose keys are at a private address.
func TestPrivateKeysAddress(t *testing.T) {
	p := oidctest.New(t)
	if _, err := newKeys(t, outbound.Options{}).Verify(t.Context(), p.Sign(t, p.GitHub(audience)), p.URL, audience); !fault.Is(err, fault.BadGateway) ||
		!strings.Contains(err.Error(), "--allow-private-targets") {
		t.Errorf("an issuer at a private address: %v", err)
	}
	if n := p.Discoveries.Load(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the private address was reached")
	}))
	defer inner.Close()
	// Only the issuer's own host is allowed; the keys' host resolves to the same address.
	issuer := strings.Replace(p.URL, "127.0.0.1", "issuer.example", 1)
	private := strings.Replace(inner.URL, "127.0.0.1", "inner.example", 1)
	p.SetDiscovery(func(w http.ResponseWriter, _ *http.Request) {
		oidctest.Write(w, map[string]any{"issuer": issuer, "jwks_uri": private})
	})
	keys := newKeys(t, outbound.Options{AllowList: []string{"issuer.example"}, Resolver: everywhere{}})
	raw := p.Sign(t, p.GitHub(audience).With(oidctest.Claims{"iss": issuer}))
	if _, err := keys.Verify(t.Context(), raw, issuer, audience); !fault.Is(err, fault.BadGateway) ||
		!strings.Contains(err.Error(), "inner.example") {
		t.Errorf("keys at a private address: %v", err)
	}
	if n := p.Discoveries.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times, want 1", n)
	}
}

// everywhere resolves every name to loopback.
type everywhere struct{}

func (everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestFingerprint(t *testing.T) {
	p := oidctest.New(t)
	of := func(c oidctest.Claims) string {
		token, err := oidc.Peek(p.Sign(t, c), audience)
		if err != nil {
			t.Fatal(err)
		}
		return token.Fingerprint
	}
	c := p.GitHub(audience)
	if of(c) != of(c.With(oidctest.Claims{"run_id": "2"})) {
		t.Error("two tokens with one id must have one fingerprint")
	}
	if of(c) == of(c.With(oidctest.Claims{"jti": "other"})) || of(c) == of(c.With(oidctest.Claims{"iss": "https://other.example"})) {
		t.Error("another id or issuer must have another fingerprint")
	}
	c = c.With(oidctest.Claims{"jti": nil})
	if one, again := of(c), of(c); one != again || one == of(c.With(oidctest.Claims{"run_id": "2"})) {
		t.Error("without an id, the fingerprint must be that of what is signed")
	}
}
