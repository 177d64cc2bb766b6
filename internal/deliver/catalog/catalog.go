// Package catalog lets clients that do not know Whetstone find and fetch the
// skills of the registry. It tells which current versions a request may see, for
// every protocol in the packages below it, and serves the well-known index of the
// Agent Skills discovery draft, versions 0.2.0 and 0.1.0. It owns no tables.
package catalog

import (
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// Service answers for shelves. Its parts for single protocols are packages below it,
// which share shelves and limits.
type Service struct {
	Registry *registry.Service
	Tokens   *tokens.Service
	Sets     Sets
	// Keys with the permission read are accepted like tokens: in a header, and until
	// KeysEnd in paths.
	Keys    httpapi.Authenticator
	KeysEnd time.Time // that of the function when zero
	// Memory bounds what building indexes takes together with other large
	// answers.
	Memory *httpapi.Budget
	Log    *slog.Logger
	// PublicURL is the address that clients use.
	PublicURL string

	once     sync.Once
	listings *Cache[Listing]
	indexes  *Cache[*Document]
	chosen   *Cache[registry.Selection]
	warned   *lru.Cache[string, time.Time] // of keys in paths, by their ids
}

func (s *Service) init() {
	s.listings = &Cache[Listing]{Registry: s.Registry, Limit: maxListings}
	s.indexes = &Cache[*Document]{Registry: s.Registry, Limit: maxIndexes}
	s.chosen = &Cache[registry.Selection]{Registry: s.Registry, Limit: maxChosen}
	s.warned = lru.New[string, time.Time](maxWarned)
}

// Mount adds the indexes. They speak another protocol than the API: no key in a
// header, and plain errors.
func (s *Service) Mount(a *httpapi.API) {
	for _, base := range Bases() {
		a.Handle("GET "+base+"/.well-known/agent-skills/index.json", Limit(), s.oneOrAll())
		a.Handle("GET "+base+"/.well-known/agent-skills/{name}/{file}", Limit(), s.Handler(s.handleArchive))
		a.Handle("GET "+base+"/.well-known/skills/index.json", Limit(), s.Handler(s.handleOldIndex))
		a.Handle("GET "+base+"/.well-known/skills/{name}/{path...}", Limit(), s.Handler(s.handleOldFile))
		a.Handle("GET "+base+"/api/search", Limit(), s.Handler(s.handleSearch))
	}
	// For public skills the skill name takes the position of the token in the path.
	a.Handle("GET /{skill}/.well-known/agent-skills/index.json", Limit(), s.oneOrAll())
	// Nothing more exact is possible beside {name}/{path...} above.
	a.Handle("GET /o/{org}/{token}/{skill}/{index...}", Limit(), s.oneOrAll())
	a.Handle("GET /o/{org}/{token}/sets/{set}/{skill}/{index...}", Limit(), s.oneOrAll())
}

// oneOrAll serves the index of a shelf, or of one skill: installers that are given
// {base}/{skill}, or {base}/{skill}@{skill} as "npx skills find" prints it, look for
// an index below that.
func (s *Service) oneOrAll() http.Handler {
	next := s.Handler(s.handleIndex)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		skill := r.PathValue("skill")
		// No set is called like that: it is the index of the one skill "sets".
		if r.PathValue("set") == ".well-known" {
			r.SetPathValue("index", path.Join(".well-known", skill, r.PathValue("index")))
			r.SetPathValue("set", "")
			skill = "sets"
		}
		// All tokens and keys have an underscore, and no skill on a shelf has.
		if token := r.PathValue("token"); token != "" && !strings.Contains(token, "_") && skill == "" {
			r.SetPathValue("token", "")
			skill = token
		}
		if at := strings.IndexByte(skill, '@'); at > 0 {
			skill = skill[:at]
		}
		r.SetPathValue("skill", skill)
		next.ServeHTTP(w, r)
	})
}

func (s *Service) handleIndex(w http.ResponseWriter, r *http.Request, sh Shelf) error {
	if file := r.PathValue("index"); file != "" && file != ".well-known/agent-skills/index.json" {
		return fault.New(fault.NotFound, "No such file")
	}
	only := r.PathValue("skill")
	if only == "" {
		return s.serveIndex(w, r, sh, newIndex)
	}
	l, err := s.Skill(r.Context(), sh.Shelf, only)
	if err != nil {
		return err
	}
	index, err := indexOfOne(l)
	if err == nil {
		index.ServeJSON(w, r, sh)
	}
	return err
}

func (s *Service) handleOldIndex(w http.ResponseWriter, r *http.Request, sh Shelf) error {
	return s.serveIndex(w, r, sh, oldIndex)
}

func (s *Service) serveIndex(w http.ResponseWriter, r *http.Request, sh Shelf, f indexFormat) error {
	index, err := s.index(r.Context(), sh.Shelf, f)
	if err == nil {
		index.ServeJSON(w, r, sh)
	}
	return err
}

// handleArchive serves the canonical archive of any version of a skill that is not
// withdrawn: an index that a client read before a push still works.
func (s *Service) handleArchive(w http.ResponseWriter, r *http.Request, sh Shelf) error {
	hash, ok := strings.CutSuffix(r.PathValue("file"), ".tar.gz")
	if !ok {
		return fault.New(fault.NotFound, "No such file")
	}
	l, err := s.Skill(r.Context(), sh.Shelf, r.PathValue("name"))
	if err != nil {
		return err
	}
	allowed, err := s.Allowed(r.Context(), sh.Shelf, l.ID)
	if err != nil {
		return err
	}
	return s.Registry.ServeCanonical(w, r, l.Entry, hash, allowed)
}

func (s *Service) handleOldFile(w http.ResponseWriter, r *http.Request, sh Shelf) error {
	l, err := s.Skill(r.Context(), sh.Shelf, r.PathValue("name"))
	if err != nil {
		return err
	}
	f, err := s.Registry.FindFile(r.Context(), l.Current, r.PathValue("path"))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", sh.CacheControl())
	if stored.MatchesETag(r.Header.Get("If-None-Match"), f.Hash) {
		stored.Serve(w, r, f.Hash, nil) // without reading the file
		return nil
	}
	content, err := s.Registry.ReadFile(r.Context(), l.Current, f)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", registry.MediaType(content))
	stored.Serve(w, r, f.Hash, content)
	return nil
}
