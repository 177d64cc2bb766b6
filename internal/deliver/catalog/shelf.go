package catalog

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Bases are the paths that every protocol is served under: the host's own has the
// public skills of all organisations, that of an organisation its public ones, and
// that with a catalog token also those that only the organisation may see, or what the
// token's sets have. The last has what one set has. The token is in the path because
// installers send no headers.
func Bases() []string {
	return []string{"", "/o/{org}", "/o/{org}/{token}", "/o/{org}/{token}/sets/{set}"}
}

// Limit is that of a route. A fleet behind one address may install a whole catalog
// at once.
func Limit() *httpapi.Limit {
	return &httpapi.Limit{Requests: 12_000, Per: time.Minute, By: httpapi.ByAddress, Local: true}
}

// A Shelf is what one request may see.
type Shelf struct {
	registry.Shelf
	// Base is the path of the request before that of the protocol, escaped as in an
	// address: "", "/o/acme" or "/o/acme/TOKEN".
	Base string

	// Set is the name of the set in the path, if there is one.
	Set string

	keyID string // of the API key in the path, if there is one
}

// CacheControl keeps private skills out of shared caches. These ask before they serve what
// they have: what was withdrawn must not stay in a proxy.
func (sh Shelf) CacheControl() string {
	if sh.Private {
		return "private, no-cache"
	}
	return "public, no-cache"
}

// Shelf finds the shelf of a request under one of the Bases. A token that does not
// open it is fault.Unauthorized or fault.Denied.
func (s *Service) Shelf(r *http.Request) (Shelf, error) {
	org, token := r.PathValue("org"), r.PathValue("token")
	sh := Shelf{Shelf: registry.Shelf{OrgName: org}}
	if !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) { // PostgreSQL refuses such parameters
		return sh, fault.New(fault.NotFound, "No such file")
	}
	if org == "" {
		return sh, nil
	}
	sh.Base = "/o/" + url.PathEscape(org)
	if token == "" {
		return sh, s.openByHeader(r, &sh)
	}
	sh.Base += "/" + url.PathEscape(token)
	o, err := s.opens(r.Context(), token)
	switch {
	case err != nil:
		return sh, err
	case o.orgName != org:
		return sh, fault.New(fault.Denied, "This token does not open %s", org)
	case o.keyID != "" && !time.Now().Before(s.keysEnd()):
		return sh, fault.New(fault.Denied, "API keys no longer open catalogs; use a catalog token")
	}
	sh.Private, sh.keyID, sh.Sets = true, o.keyID, strings.Join(o.sets, ",")
	if sh.Set = r.PathValue("set"); sh.Set == "" {
		return sh, nil
	}
	sh.Base += "/sets/" + url.PathEscape(sh.Set)
	id, err := s.Sets.Named(r.Context(), org, sh.Set)
	if err == nil && len(o.sets) > 0 && !slices.Contains(o.sets, id) {
		err = fault.New(fault.Denied, "This token does not open the set %s", sh.Set)
	}
	sh.Sets = id
	return sh, err
}

// openByHeader adds what only the organisation may see for a client that can send
// a header. A key or token of another organisation adds nothing.
func (s *Service) openByHeader(r *http.Request, sh *Shelf) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	o, err := s.opens(r.Context(), strings.TrimSpace(token))
	if err == nil && o.orgName == sh.OrgName {
		sh.Private, sh.Sets = true, strings.Join(o.sets, ",")
	}
	return err
}

// An opened token is a catalog token or an API key.
type opened struct {
	orgName string   // whose catalogs it opens
	keyID   string   // of an API key
	sets    []string // that it is bound to; none for all that the organisation has
}

func (s *Service) opens(ctx context.Context, token string) (o opened, err error) {
	if strings.HasPrefix(token, auth.CatalogPrefix) {
		t, orgName, err := s.Tokens.Open(ctx, token)
		return opened{orgName: orgName, sets: t.Sets}, err
	}
	caller, err := s.Keys.Authenticate(ctx, token)
	if err == nil && !caller.May(access.Read) {
		err = fault.New(fault.Denied, "This key may not read")
	}
	return opened{orgName: caller.OrgName, keyID: caller.KeyID}, err
}

// Handler finds the shelf that a request is about, and turns errors into plain
// answers.
func (s *Service) Handler(serve func(http.ResponseWriter, *http.Request, Shelf) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Vary", "Authorization") // see openByHeader
		shelf, err := s.Shelf(r)
		if err == nil {
			s.WarnOfKey(w, shelf)
			err = serve(w, r, shelf)
		}
		switch {
		case err == nil:
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unauthorized), fault.Is(err, fault.Denied):
			// An invalid token must not show that the organisation exists.
			http.Error(w, "not found", http.StatusNotFound)
		case fault.Is(err, fault.Malformed):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case fault.Is(err, fault.TooLarge):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		case fault.Is(err, fault.Unavailable):
			// Mostly overload; an archive that cannot be read needs the operator.
			s.Log.Warn("catalog unavailable", "route", r.Pattern, "error", err)
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "busy; try again", http.StatusServiceUnavailable)
		default:
			s.Log.Error("catalog failed", "route", r.Pattern, "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	})
}

// retryAfter is how many seconds a client waits after a 503.
const retryAfter = "5"
