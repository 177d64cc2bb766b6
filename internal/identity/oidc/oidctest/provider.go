// Package oidctest has an OpenID provider on loopback that signs what a test wants,
// and misbehaves on demand.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// T is what the provider needs of a test.
type T interface {
	Helper()
	Fatal(args ...any)
	Cleanup(end func())
}

// Claims are the payload of a token.
type Claims map[string]any

// With returns the claims with some replaced. One that is nil is left out of tokens.
func (c Claims) With(others Claims) Claims {
	all := maps.Clone(c)
	maps.Copy(all, others)
	return all
}

// A Provider is an issuer with one key, whose id is "key-1" until it is rotated.
type Provider struct {
	URL string
	// Discoveries and Fetches count the requests for the discovery document and the
	// keys.
	Discoveries, Fetches atomic.Int64

	mu        sync.Mutex
	keys      []jose.JSONWebKey // private ones
	run       Claims
	discovery http.HandlerFunc
	jwks      http.HandlerFunc
	flow      flow
}

// New starts a provider, which ends with the test.
func New(t T) *Provider {
	t.Helper()
	p := &Provider{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		p.Discoveries.Add(1)
		p.handler(&p.discovery, p.serveDiscovery)(w, r)
	})
	mux.HandleFunc("GET /jwks", func(w http.ResponseWriter, r *http.Request) {
		p.Fetches.Add(1)
		p.handler(&p.jwks, p.serveKeys)(w, r)
	})
	mux.HandleFunc("GET /runner", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+RunnerToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p.mu.Lock()
		run := p.run
		p.mu.Unlock()
		Write(w, map[string]any{"value": p.Sign(t, p.GitHub(r.URL.Query().Get("audience")).With(run))})
	})
	p.mountFlow(t, mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	p.Rotate(t, "key-1")
	return p
}

func (p *Provider) handler(set *http.HandlerFunc, otherwise http.HandlerFunc) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *set != nil {
		return *set
	}
	return otherwise
}

// SetDiscovery replaces the handler of the discovery document; nil restores it.
func (p *Provider) SetDiscovery(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovery = h
}

// SetKeys replaces the handler of the keys; nil restores it.
func (p *Provider) SetKeys(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jwks = h
}

func (p *Provider) serveDiscovery(w http.ResponseWriter, _ *http.Request) {
	Write(w, p.Discovery())
}

func (p *Provider) serveKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range p.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	Write(w, set)
}

// Write answers with JSON.
func Write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// RunnerToken is what a job sends to get an ID token at /runner, as GitHub's runner
// gives one: ACTIONS_ID_TOKEN_REQUEST_TOKEN.
const RunnerToken = "runner-token"

// SetRun sets the claims in which the tokens of the runner differ from those of GitHub.
func (p *Provider) SetRun(c Claims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = c
}

// NewKey makes a private key.
func NewKey(t T, id string) jose.JSONWebKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.RS256), Use: "sig"}
}

// Rotate replaces all keys by a new one.
func (p *Provider) Rotate(t T, id string) {
	t.Helper()
	key := NewKey(t, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []jose.JSONWebKey{key}
}

// Key returns the private key that signs now.
func (p *Provider) Key() jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

// Public returns the public key that signs now.
func (p *Provider) Public() crypto.PublicKey {
	key := p.Key()
	return key.Public().Key
}

// Sign signs claims with the provider's key.
func (p *Provider) Sign(t T, c Claims) string {
	t.Helper()
	return Sign(t, p.Key(), jose.RS256, c)
}

// Sign signs claims with any key.
func Sign(t T, key any, alg jose.SignatureAlgorithm, c Claims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	set := maps.Clone(c)
	maps.DeleteFunc(set, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Base are the claims that every token has: valid for five minutes, with an id of its
// own.
func (p *Provider) Base(audience string) Claims {
	now := time.Now()
	return Claims{
		"iss": p.URL, "aud": audience, "sub": "repo:acme/skills:ref:refs/heads/main", "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
}

// GitHub are the claims of a workflow run of GitHub Actions: a push to the main branch
// of acme/skills.
func (p *Provider) GitHub(audience string) Claims {
	return p.Base(audience).With(Claims{
		"repository": "acme/skills", "repository_id": "4711", "repository_owner": "acme", "repository_owner_id": "815",
		"repository_visibility": "private", "ref": "refs/heads/main", "ref_type": "branch", "sha": sha,
		"workflow": "release", "workflow_ref": "acme/skills/.github/workflows/release.yml@refs/heads/main", "workflow_sha": sha,
		"job_workflow_ref": "acme/skills/.github/workflows/release.yml@refs/heads/main", "event_name": "push",
		"run_id": "9001", "run_number": "17", "run_attempt": "1", "actor": "ada", "actor_id": "7",
		"runner_environment": "github-hosted",
	})
}

// GitLab are the claims of a job of GitLab CI: a push to the main branch of
// acme/tools/skills.
func (p *Provider) GitLab(audience string) Claims {
	return p.Base(audience).With(Claims{
		"project_path": "acme/tools/skills", "project_id": "42", "namespace_path": "acme/tools", "namespace_id": "9",
		"ref": "main", "ref_type": "branch", "ref_path": "refs/heads/main", "ref_protected": "true", "sha": sha,
		"pipeline_id": "600", "pipeline_source": "push", "job_id": "601", "user_login": "ada",
		"ci_config_ref_uri": "gitlab.example/acme/tools/skills//.gitlab-ci.yml@refs/heads/main", "runner_id": 1,
	})
}

const sha = "0123456789abcdef0123456789abcdef01234567"
