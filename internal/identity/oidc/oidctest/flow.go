package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The application that the provider knows.
const (
	ClientID     = "whetstone"
	ClientSecret = "client-secret"
)

// flow is the authorization code flow of a provider.
type flow struct {
	redirect string // the only one that is allowed; "" before the first is set
	person   Claims
	info     Claims
	codes    map[string]code
	tokens   map[string]bool // access tokens
	idToken  func(Claims) string
	answer   func(url.Values)
	exchange http.HandlerFunc
}

// A code is what an authorization code stands for.
type code struct {
	challenge, redirect, nonce string
	person                     Claims
}

// Discovery is the discovery document.
func (p *Provider) Discovery() map[string]any {
	return map[string]any{
		"issuer": p.URL, "jwks_uri": p.URL + "/jwks", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/logout",
		"authorization_response_iss_parameter_supported": true,
		"token_endpoint_auth_methods_supported":          []string{"client_secret_basic", "client_secret_post"},
	}
}

// SetPerson sets who is signed in at the provider, as the claims of their ID tokens.
func (p *Provider) SetPerson(c Claims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.person = c
}

// SetRedirect sets the only address that browsers are sent back to.
func (p *Provider) SetRedirect(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.redirect = address
}

// SetUserInfo sets what the userinfo endpoint tells beside the subject.
func (p *Provider) SetUserInfo(c Claims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.info = c
}

// SetIDToken lets a function make the ID token of the claims that belong into it; nil
// restores a right one.
func (p *Provider) SetIDToken(f func(Claims) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.idToken = f
}

// SetAnswer lets a function change what browsers bring back; nil restores it.
func (p *Provider) SetAnswer(f func(url.Values)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.answer = f
}

// SetToken replaces the handler of the token endpoint; nil restores it.
func (p *Provider) SetToken(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow.exchange = h
}

func (p *Provider) mountFlow(t T, mux *http.ServeMux) {
	p.flow.codes, p.flow.tokens = map[string]code{}, map[string]bool{}
	p.flow.person = Claims{"sub": "248289", "email": "ada@example.org", "email_verified": true, "name": "Ada"}
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		p.handler(&p.flow.exchange, func(w http.ResponseWriter, r *http.Request) { p.token(t, w, r) })(w, r)
	})
	mux.HandleFunc("GET /userinfo", p.userInfo)
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("post_logout_redirect_uri"), http.StatusFound)
	})
}

// authorize sends the browser back with a code for the person, who is signed in.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	scopes := strings.Fields(q.Get("scope"))
	bad := q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("state") == "" || q.Get("nonce") == "" ||
		q.Get("code_challenge_method") != "S256" || len(scopes) == 0 || scopes[0] != "openid" ||
		p.flow.redirect != "" && q.Get("redirect_uri") != p.flow.redirect
	if bad {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	id := rand.Text()
	p.flow.codes[id] = code{
		challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), nonce: q.Get("nonce"), person: p.flow.person,
	}
	back := url.Values{"code": {id}, "state": {q.Get("state")}, "iss": {p.URL}}
	if p.flow.answer != nil {
		p.flow.answer(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code once.
func (p *Provider) token(t T, w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"` + code + `","error_description":"<script>alert(1)</script>"}`))
	}
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if id != ClientID || secret != ClientSecret {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	p.mu.Lock()
	given, ok := p.flow.codes[r.FormValue("code")]
	delete(p.flow.codes, r.FormValue("code"))
	custom := p.flow.idToken
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || given.redirect != r.FormValue("redirect_uri") || given.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	now := time.Now()
	claims := Claims{
		"iss": p.URL, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "nonce": given.nonce,
	}.With(given.person)
	var raw string
	if custom != nil {
		raw = custom(claims)
	} else {
		raw = p.Sign(t, claims)
	}
	access := rand.Text()
	p.mu.Lock()
	p.flow.tokens[access] = true
	p.mu.Unlock()
	Write(w, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": raw})
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !p.flow.tokens[access] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	Write(w, Claims{"sub": p.flow.person["sub"]}.With(p.flow.info))
}
