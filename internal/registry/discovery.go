package registry

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// Existing installers ask a host for an index of its skills under
// /.well-known. The host's own index has the public skills of everybody; that
// under /o/{org} has the organisation's public ones, and that under
// /o/{org}/{token} also those that only the organisation may see: the token
// is an API key with the permission read, in the path because installers send
// no headers.

// retryAfter is how many seconds a client waits that came when too much was
// going on.
const retryAfter = "5"

const discoverySchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// MountDiscovery adds the indexes. They speak another protocol than the API:
// no key in a header, and plain errors.
func (s *Service) MountDiscovery(a *httpapi.API, keys httpapi.Authenticator) {
	d := discovery{service: s, keys: keys}
	// A fleet behind one address may install a shelf of skills at once.
	limit := &httpapi.Limit{Requests: 12_000, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	for _, base := range []string{"", "/o/{org}", "/o/{org}/{token}"} {
		a.Handle("GET "+base+"/.well-known/agent-skills/index.json", limit, d.handler(d.index))
		a.Handle("GET "+base+"/.well-known/agent-skills/{name}/{file}", limit, d.handler(d.archive))
		a.Handle("GET "+base+"/.well-known/skills/index.json", limit, d.handler(d.oldIndex))
		a.Handle("GET "+base+"/.well-known/skills/{name}/{path...}", limit, d.handler(d.oldFile))
	}
}

type discovery struct {
	service *Service
	keys    httpapi.Authenticator
}

// handler finds out whose index is asked for, and turns errors into answers.
func (d discovery) handler(serve func(http.ResponseWriter, *http.Request, shelf) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		shelf, err := d.shelf(r)
		if err == nil {
			err = serve(w, r, shelf)
		}
		switch {
		case err == nil:
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unauthorized), fault.Is(err, fault.Denied):
			http.Error(w, "not found", http.StatusNotFound)
		case fault.Is(err, fault.Unavailable):
			// Mostly too many are asking; an archive that cannot be read is
			// somebody's business.
			d.service.Log.Warn("discovery unavailable", "error", err)
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "busy; try again", http.StatusServiceUnavailable)
		default:
			d.service.Log.Error("discovery failed", "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	})
}

// A shelf is the part of the registry that one index shows.
type shelf struct {
	orgName string // "" for all organisations
	private bool   // also what only the organisation may see
}

func (d discovery) shelf(r *http.Request) (shelf, error) {
	s := shelf{orgName: r.PathValue("org")}
	if !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) { // PostgreSQL would not even look
		return s, fault.New(fault.NotFound, "No such file")
	}
	token := r.PathValue("token")
	if token == "" {
		return s, nil
	}
	caller, err := d.keys.Authenticate(r.Context(), token)
	if err != nil {
		return s, err
	}
	if caller.OrgName != s.orgName || !caller.May(access.Read) {
		return s, fault.New(fault.Denied, "This key does not open %s", s.orgName)
	}
	s.private = true
	return s, nil
}

var discoveryName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// discoverable reports whether installers would take the entry. One that they
// would not makes some of them drop the whole index.
func discoverable(l Listed) bool {
	n := utf8.RuneCountInString(summary(l))
	return len(l.Name) <= 64 && discoveryName.MatchString(l.Name) && n >= 1 && n <= 1024
}

func summary(l Listed) string {
	if l.Current.Description != "" {
		return text.TruncateRunes(l.Current.Description, 1024)
	}
	return text.TruncateRunes(l.Description, 1024)
}

// skillOn finds one skill of a shelf by name.
func skillOn(ctx context.Context, q store.Querier, sh shelf, name string) (Listed, error) {
	found, err := skillsNamed(ctx, q, sh, name)
	if err != nil {
		return Listed{}, err
	}
	if len(found) == 0 || !discoverable(found[0]) {
		return Listed{}, fault.New(fault.NotFound, "Skill %s not found", name)
	}
	return found[0], nil
}

func (d discovery) index(w http.ResponseWriter, r *http.Request, sh shelf) error {
	return d.serveIndex(w, r, sh, false)
}

func (d discovery) oldIndex(w http.ResponseWriter, r *http.Request, sh shelf) error {
	return d.serveIndex(w, r, sh, true)
}

func (d discovery) serveIndex(w http.ResponseWriter, r *http.Request, sh shelf, old bool) error {
	index, err := d.service.index(r.Context(), indexKey{sh, old})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl(sh))
	w.Header().Set("Vary", "Accept-Encoding")
	content, etag := index.content, index.etag
	if index.packed != nil && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		content, etag = index.packed, etag+"-gzip"
	}
	serveBytes(w, r, etag, content)
	return nil
}

// acceptsGzip reports whether a client names gzip without forbidding it.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.Trim(quality, " q=0.") != "" || strings.TrimSpace(quality) == ""
		}
	}
	return false
}

// archive serves the canonical archive of any version of a skill: an index
// that a client read before a push still works.
func (d discovery) archive(w http.ResponseWriter, r *http.Request, sh shelf) error {
	hash, ok := strings.CutSuffix(r.PathValue("file"), ".tar.gz")
	if !ok {
		return fault.New(fault.NotFound, "No such file")
	}
	l, err := skillOn(r.Context(), d.service.DB, sh, r.PathValue("name"))
	if err != nil {
		return err
	}
	version, key, err := versionOfArchive(r.Context(), d.service.DB, l.Entry, hash)
	if err != nil {
		return err
	}
	return blob.Serve(w, r, d.service.Blobs, key, blob.SignOptions{
		Filename: archiveName(l.Name, version), ContentType: "application/gzip",
	})
}

func (d discovery) oldFile(w http.ResponseWriter, r *http.Request, sh shelf) error {
	s := d.service
	l, err := skillOn(r.Context(), s.DB, sh, r.PathValue("name"))
	if err != nil {
		return err
	}
	f, err := s.find(r.Context(), l.Current, r.PathValue("path"))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheControl(sh))
	if matches(r.Header.Get("If-None-Match"), f.Hash) {
		serveBytes(w, r, f.Hash, nil)
		return nil
	}
	content, err := s.read(r.Context(), l.Current, f)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType(content))
	serveBytes(w, r, f.Hash, content)
	return nil
}

// serveBytes lets clients ask again without being sent the same again.
func serveBytes(w http.ResponseWriter, r *http.Request, tag string, content []byte) {
	w.Header().Set("ETag", `"`+tag+`"`)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		stored.Send(w, content)
	}
}

// matches reports whether a header If-None-Match names the tag.
func matches(header, tag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == `"`+tag+`"` {
			return true
		}
	}
	return false
}

// cacheControl keeps what is private out of shared caches.
func cacheControl(sh shelf) string {
	if sh.private {
		return "private, max-age=60"
	}
	return "public, max-age=60"
}
