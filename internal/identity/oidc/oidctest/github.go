package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// GitHub is a GitHub Enterprise Server on loopback with one OAuth app, as far as people
// sign in with it. It misbehaves on demand.
type GitHub struct {
	URL string

	mu       sync.Mutex
	redirect string
	account  Account
	codes    map[string]grant
	tokens   map[string]grant
	handlers map[string]http.HandlerFunc
}

// An Account is somebody, or something, at GitHub.
type Account struct {
	ID     int64
	Login  string
	Name   string
	Type   string // User when empty
	Emails []Email
	Orgs   []Org
}

// An Email is an address of an account.
type Email struct {
	Email    string `json:"email"`
	Primary  bool   `json:"primary"`
	Verified bool   `json:"verified"`
}

// An Org is the membership of an account in an organisation.
type Org struct {
	ID     int64
	Login  string
	State  string // active when empty; pending for an invitation
	UserID int64  // that of the account when 0
	Teams  []string
}

// grant is what a code or an access token stands for.
type grant struct {
	challenge, redirect string
	scopes              []string
	account             Account
}

// NewGitHub starts a GitHub, which ends with the test.
func NewGitHub(t T) *GitHub {
	t.Helper()
	g := &GitHub{codes: map[string]grant{}, tokens: map[string]grant{}}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /login/oauth/authorize":        g.authorize,
		"POST /login/oauth/access_token":    g.token,
		"GET /api/v3/{$}":                   func(w http.ResponseWriter, _ *http.Request) { Write(w, map[string]string{"user_url": g.URL}) },
		"GET /api/v3/user":                  g.as("", func(a Account) []any { return []any{a.profile()} }),
		"GET /api/v3/user/emails":           g.as("user:email", func(a Account) []any { return anys(a.Emails) }),
		"GET /api/v3/user/memberships/orgs": g.as("read:org", Account.memberships),
		"GET /api/v3/user/teams":            g.as("read:org", Account.teams),
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			custom := g.handlers[r.URL.Path]
			g.mu.Unlock()
			if custom != nil {
				custom(w, r)
				return
			}
			handle(w, r)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	g.URL = server.URL
	return g
}

// SetAccount sets who is signed in at GitHub.
func (g *GitHub) SetAccount(a Account) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account = a
}

// SetRedirect sets the callback URL of the OAuth app.
func (g *GitHub) SetRedirect(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.redirect = address
}

// SetHandlers replaces handlers by their path; nil restores all.
func (g *GitHub) SetHandlers(by map[string]http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handlers = by
}

// authorize sends the browser back with a code, as for somebody who authorized the app
// before.
func (g *GitHub) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.Get("client_id") != ClientID || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
		http.Error(w, "Not Found", http.StatusNotFound)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if g.redirect != "" && q.Get("redirect_uri") != g.redirect {
		back.Set("error", "redirect_uri_mismatch")
		http.Redirect(w, r, g.redirect+"?"+back.Encode(), http.StatusFound)
		return
	}
	code := strings.ToLower(rand.Text())
	g.codes[code] = grant{
		challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), account: g.account,
		scopes: strings.FieldsFunc(q.Get("scope"), func(r rune) bool { return r == ' ' || r == ',' }),
	}
	back.Set("code", code)
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code once. As at GitHub, errors have status 200, and answers are forms
// unless JSON is asked for.
func (g *GitHub) token(w http.ResponseWriter, r *http.Request) {
	answer := func(pairs ...string) {
		if strings.Contains(r.Header.Get("Accept"), "json") {
			object := map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				object[pairs[i]] = pairs[i+1]
			}
			Write(w, object)
			return
		}
		form := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		_, _ = w.Write([]byte(form.Encode()))
	}
	refuse := func(code string) { answer("error", code, "error_description", "<script>alert(1)</script>") }
	g.mu.Lock()
	defer g.mu.Unlock()
	code := r.PostFormValue("code")
	given, ok := g.codes[code]
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case r.PostFormValue("client_id") != ClientID || r.PostFormValue("client_secret") != ClientSecret:
		refuse("incorrect_client_credentials")
		return
	case !ok || given.challenge != base64.RawURLEncoding.EncodeToString(sum[:]):
		refuse("bad_verification_code")
		return
	case given.redirect != r.PostFormValue("redirect_uri"):
		refuse("redirect_uri_mismatch")
		return
	}
	delete(g.codes, code)
	access := "gho_" + rand.Text()
	g.tokens[access] = given
	answer("access_token", access, "scope", strings.Join(given.scopes, ","), "token_type", "bearer")
}

// as serves what the holder of a token with the scope may read: one object, or a page of
// a list.
func (g *GitHub) as(scope string, read func(Account) []any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.mu.Lock()
		given, ok := g.tokens[access]
		g.mu.Unlock()
		switch {
		case !ok:
			http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
			return
		case scope != "" && !slices.Contains(given.scopes, scope):
			http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
			return
		}
		all := read(given.account)
		if scope == "" {
			Write(w, all[0])
			return
		}
		size, page := number(r, "per_page", 30), number(r, "page", 1)
		from := min((page-1)*size, len(all))
		Write(w, append([]any{}, all[from:min(from+size, len(all))]...))
	}
}

func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 || n > 100 {
		return otherwise
	}
	return n
}

func anys[V any](all []V) (list []any) {
	for _, v := range all {
		list = append(list, v)
	}
	return list
}

func (a Account) profile() map[string]any {
	kind := a.Type
	if kind == "" {
		kind = "User"
	}
	// The address of a profile is what its owner typed.
	return map[string]any{"id": a.ID, "login": a.Login, "name": a.Name, "type": kind, "email": "victim@example.org"}
}

func (o Org) json() map[string]any {
	return map[string]any{"id": o.ID, "login": o.Login}
}

func (a Account) memberships() (list []any) {
	for _, o := range a.Orgs {
		state, of := o.State, o.UserID
		if state == "" {
			state = "active"
		}
		if of == 0 {
			of = a.ID
		}
		list = append(list, map[string]any{
			"state": state, "role": "member", "organization": o.json(), "user": map[string]any{"id": of, "login": a.Login},
		})
	}
	return list
}

func (a Account) teams() (list []any) {
	for _, o := range a.Orgs {
		for _, slug := range o.Teams {
			list = append(list, map[string]any{"id": len(list) + 1, "name": slug, "slug": slug, "organization": o.json()})
		}
	}
	return list
}
