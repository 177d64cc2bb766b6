// Package catalog lets installers that do not know Whetstone find and fetch the
// skills of the registry: it serves the well-known index of the Agent Skills
// discovery draft, versions 0.2.0 and 0.1.0. It owns no tables.
package catalog

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
)

// Service serves the indexes. The host's own index has the public skills of all
// organisations; the one under /o/{org} has the organisation's public ones, and
// the one under /o/{org}/{token} also those that only the organisation may see.
// The token is an API key with the permission read, in the path because
// installers send no headers.
type Service struct {
	Registry *registry.Service
	Keys     httpapi.Authenticator
	// Memory bounds what building indexes takes together with other large
	// answers.
	Memory *httpapi.Budget
	Log    *slog.Logger

	once     sync.Once
	indexes  *lru.Cache[indexKey, *index]
	building singleflight.Group
}

// retryAfter is how many seconds a client waits after a 503.
const retryAfter = "5"

// Mount adds the indexes. They speak another protocol than the API: no key in a
// header, and plain errors.
func (s *Service) Mount(a *httpapi.API) {
	// A fleet behind one address may install a whole index at once.
	limit := &httpapi.Limit{Requests: 12_000, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	for _, base := range []string{"", "/o/{org}", "/o/{org}/{token}"} {
		a.Handle("GET "+base+"/.well-known/agent-skills/index.json", limit, s.handler(s.handleIndex))
		a.Handle("GET "+base+"/.well-known/agent-skills/{name}/{file}", limit, s.handler(s.handleArchive))
		a.Handle("GET "+base+"/.well-known/skills/index.json", limit, s.handler(s.handleOldIndex))
		a.Handle("GET "+base+"/.well-known/skills/{name}/{path...}", limit, s.handler(s.handleOldFile))
	}
}

// handler finds the shelf that a request is about, and turns errors into
// answers.
func (s *Service) handler(serve func(http.ResponseWriter, *http.Request, registry.Shelf) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		shelf, err := s.shelf(r)
		if err == nil {
			err = serve(w, r, shelf)
		}
		switch {
		case err == nil:
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unauthorized), fault.Is(err, fault.Denied):
			// An invalid key must not show that the organisation exists.
			http.Error(w, "not found", http.StatusNotFound)
		case fault.Is(err, fault.Unavailable):
			// Mostly overload; an archive that cannot be read needs the operator.
			s.Log.Warn("discovery unavailable", "error", err)
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "busy; try again", http.StatusServiceUnavailable)
		default:
			s.Log.Error("discovery failed", "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	})
}

// shelf authorizes a request.
func (s *Service) shelf(r *http.Request) (registry.Shelf, error) {
	sh := registry.Shelf{OrgName: r.PathValue("org")}
	if !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) { // PostgreSQL refuses such parameters
		return sh, fault.New(fault.NotFound, "No such file")
	}
	token := r.PathValue("token")
	if token == "" {
		return sh, nil
	}
	caller, err := s.Keys.Authenticate(r.Context(), token)
	if err != nil {
		return sh, err
	}
	if caller.OrgName != sh.OrgName || !caller.May(access.Read) {
		return sh, fault.New(fault.Denied, "This key does not open %s", sh.OrgName)
	}
	sh.Private = true
	return sh, nil
}

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// discoverable reports whether installers would accept the entry. Some of them
// drop the whole index because of one that they would not.
func discoverable(l registry.Listed) bool {
	return len(l.Name) <= 64 && validName.MatchString(l.Name) && l.Summary() != ""
}

// skill finds one skill of a shelf by the name in the path.
func (s *Service) skill(r *http.Request, sh registry.Shelf) (registry.Listed, error) {
	l, err := s.Registry.SkillOnShelf(r.Context(), sh, r.PathValue("name"))
	if err == nil && !discoverable(l) {
		err = fault.New(fault.NotFound, "Skill %s not found", l.Name)
	}
	return l, err
}

func (s *Service) handleIndex(w http.ResponseWriter, r *http.Request, sh registry.Shelf) error {
	return s.serveIndex(w, r, indexKey{sh, false})
}

func (s *Service) handleOldIndex(w http.ResponseWriter, r *http.Request, sh registry.Shelf) error {
	return s.serveIndex(w, r, indexKey{sh, true})
}

func (s *Service) serveIndex(w http.ResponseWriter, r *http.Request, key indexKey) error {
	index, err := s.index(r.Context(), key)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl(key.Shelf))
	w.Header().Set("Vary", "Accept-Encoding")
	content, etag := index.content, index.etag
	if index.gzipped != nil && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		content, etag = index.gzipped, etag+"-gzip"
	}
	stored.Serve(w, r, etag, content)
	return nil
}

// acceptsGzip reports whether a client names gzip without refusing it (q=0).
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.Trim(quality, " q=0.") != "" || strings.TrimSpace(quality) == ""
		}
	}
	return false
}

// handleArchive serves the canonical archive of any version of a skill: an
// index that a client read before a push still works.
func (s *Service) handleArchive(w http.ResponseWriter, r *http.Request, sh registry.Shelf) error {
	hash, ok := strings.CutSuffix(r.PathValue("file"), ".tar.gz")
	if !ok {
		return fault.New(fault.NotFound, "No such file")
	}
	l, err := s.skill(r, sh)
	if err != nil {
		return err
	}
	return s.Registry.ServeCanonical(w, r, l.Entry, hash)
}

func (s *Service) handleOldFile(w http.ResponseWriter, r *http.Request, sh registry.Shelf) error {
	l, err := s.skill(r, sh)
	if err != nil {
		return err
	}
	f, err := s.Registry.FindFile(r.Context(), l.Current, r.PathValue("path"))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheControl(sh))
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

// cacheControl keeps private skills out of shared caches.
func cacheControl(sh registry.Shelf) string {
	if sh.Private {
		return "private, max-age=60"
	}
	return "public, max-age=60"
}
