package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Existing installers ask a host for an index of its skills under
// /.well-known. The host's own index has the public skills of everybody; that
// under /o/{org} has the organisation's public ones, and that under
// /o/{org}/{token} also those that only the organisation may see: the token
// is an API key with the permission read, in the path because installers send
// no headers.

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
		return cut(l.Current.Description, 1024)
	}
	return cut(l.Description, 1024)
}

// skillOn finds one skill of a shelf by name.
func skillOn(ctx context.Context, q store.Querier, sh shelf, name string) (Listed, error) {
	found, err := skillsOn(ctx, q, sh, name)
	if err != nil {
		return Listed{}, err
	}
	if name == "" || len(found) == 0 {
		return Listed{}, fault.New(fault.NotFound, "Skill %s not found", name)
	}
	return found[0], nil
}

type indexEntry struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Digest      string `json:"digest"`
}

func (d discovery) index(w http.ResponseWriter, r *http.Request, sh shelf) error {
	listed, err := skillsOn(r.Context(), d.service.DB, sh, "")
	if err != nil {
		return err
	}
	index := struct {
		Schema string       `json:"$schema"`
		Skills []indexEntry `json:"skills"`
	}{discoverySchema, make([]indexEntry, len(listed))}
	for i, l := range listed {
		// The digest in the address keeps index and archive from disagreeing.
		index.Skills[i] = indexEntry{
			Name: l.Name, Type: "archive", Description: summary(l),
			URL:    path.Join(l.Name, *l.Current.CanonicalHash+".tar.gz"),
			Digest: "sha256:" + *l.Current.CanonicalHash,
		}
	}
	return writeIndex(w, r, sh, index)
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
	version, err := versionOfArchive(r.Context(), d.service.DB, l.ID, hash)
	if err != nil {
		return err
	}
	return blob.Serve(w, r, d.service.Blobs, blob.ContentKey(hash), blob.SignOptions{
		Filename: archiveName(l.Name, version), ContentType: "application/gzip",
	})
}

type oldIndexEntry struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Files       []string `json:"files"`
}

func (d discovery) oldIndex(w http.ResponseWriter, r *http.Request, sh shelf) error {
	listed, err := skillsOn(r.Context(), d.service.DB, sh, "")
	if err != nil {
		return err
	}
	index := struct {
		Skills []oldIndexEntry `json:"skills"`
	}{make([]oldIndexEntry, len(listed))}
	manifests, err := manifestsOf(r.Context(), d.service.DB, listed)
	if err != nil {
		return err
	}
	for i, l := range listed {
		index.Skills[i] = oldIndexEntry{Name: l.Name, Description: summary(l), Files: manifests[l.Current.ID]}
	}
	return writeIndex(w, r, sh, index)
}

func (d discovery) oldFile(w http.ResponseWriter, r *http.Request, sh shelf) error {
	l, err := skillOn(r.Context(), d.service.DB, sh, r.PathValue("name"))
	if err != nil {
		return err
	}
	v, err := versionByID(r.Context(), d.service.DB, l.Current.ID)
	if err != nil {
		return err
	}
	content, err := d.service.File(r.Context(), v, r.PathValue("path"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType(content))
	serveBytes(w, r, sh, content)
	return nil
}

func writeIndex(w http.ResponseWriter, r *http.Request, sh shelf, index any) error {
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	serveBytes(w, r, sh, content)
	return nil
}

// serveBytes lets clients ask again without being sent the same again.
func serveBytes(w http.ResponseWriter, r *http.Request, sh shelf, content []byte) {
	digest := sha256.Sum256(content)
	w.Header().Set("Cache-Control", cacheControl(sh))
	w.Header().Set("ETag", `"`+hex.EncodeToString(digest[:])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// cacheControl keeps what is private out of shared caches.
func cacheControl(sh shelf) string {
	if sh.private {
		return "private, max-age=60"
	}
	return "public, max-age=60"
}
