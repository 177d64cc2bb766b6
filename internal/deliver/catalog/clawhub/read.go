package clawhub

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// asked finds the skill that a request names in its path, or else in its query. Some
// routes, e.g. that of downloads, have it in the query only.
func (s *Service) asked(r *http.Request, v visit) (registry.Listed, error) {
	slug, query := r.PathValue("slug"), r.URL.Query()
	if slug == "" {
		slug = query.Get("slug")
	}
	return s.find(r.Context(), v, slug, query.Get("ownerHandle"))
}

// version finds a version of a skill: the current one without a name. Candidates
// and withdrawn versions are in no catalog.
func (s *Service) version(ctx context.Context, v visit, l registry.Listed, name string) (registry.Version, error) {
	allowed, err := s.Catalog.Allowed(ctx, v.Shelf.Shelf, l.ID)
	if err != nil {
		return registry.Version{}, err
	}
	if name == "" {
		return s.Registry.VersionByID(ctx, s.DB, l.Entry, l.Current.ID)
	}
	ver, err := s.Registry.VersionNamed(ctx, s.DB, l.Entry, name)
	switch {
	// A candidate is not found rather than denied: it must not show that there is
	// one.
	case fault.Is(err, fault.NotFound), err == nil && (ver.State == registry.Candidate || !allowed(ver.Version)):
		return ver, fault.New(fault.NotFound, "Version not found")
	case err == nil && ver.State == registry.Withdrawn:
		return ver, fault.New(fault.NotFound, "Version %s was withdrawn", ver.Version)
	}
	return ver, err
}

// askedVersion finds the version that a query names, by itself or by the only tag.
func (s *Service) askedVersion(r *http.Request, v visit, l registry.Listed) (registry.Version, error) {
	query := r.URL.Query()
	// A version wins over a tag, as in the clients.
	if tag := query.Get("tag"); query.Get("version") == "" && tag != "" && tag != "latest" {
		return registry.Version{}, fault.New(fault.NotFound, "Version not found")
	}
	return s.version(r.Context(), v, l, query.Get("version"))
}

type ownerOutput struct {
	Handle      string `json:"handle"`
	DisplayName string `json:"displayName"`
}

// detailOutput is one skill with its newest version and its owner. LatestVersion is
// null if clients could not compare it; they then ask for .../install.
type detailOutput struct {
	Skill         skillOutput      `json:"skill"`
	LatestVersion *versionOutput   `json:"latestVersion"`
	Owner         ownerOutput      `json:"owner"`
	Moderation    moderationOutput `json:"moderation"`
}

func (s *Service) handleSkill(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	versions, err := registry.VersionsByID(r.Context(), s.DB, []string{l.Current.ID})
	if err != nil {
		return err
	}
	rep, err := s.report(r.Context(), l.Entry, l.Current.ID)
	if err != nil {
		return err
	}
	return answer(w, detailOutput{
		Skill: newSkillOutput(l, v.own(l)), LatestVersion: latestOutput(versions[l.Current.ID]),
		Owner: ownerOutput{l.OrgName, l.OrgName}, Moderation: rep.moderation(),
	})
}

type versionsOutput struct {
	Items      []versionOutput `json:"items"`
	NextCursor *string         `json:"nextCursor"`
}

func (s *Service) handleVersions(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	// The cursor is the time and id of the last version of the page before.
	pushed, id, ok := readCursor(query.Get("cursor"))
	if !ok {
		pushed, id = math.MaxInt64, ""
	}
	limit := limitOf(query)
	allowed, err := s.Catalog.Allowed(r.Context(), v.Shelf.Shelf, l.ID)
	if err != nil {
		return err
	}
	// One more than the page tells whether another one follows.
	versions, err := registry.PublishedBefore(r.Context(), s.DB, l.ID, pushed, id, limit+1)
	if err != nil {
		return err
	}
	out := versionsOutput{Items: []versionOutput{}}
	if len(versions) > limit {
		versions = versions[:limit]
		cursor := newCursor(store.Micros(versions[limit-1].PushedAt), versions[limit-1].ID)
		out.NextCursor = &cursor
	}
	for _, ver := range versions {
		if allowed(ver.Version) {
			out.Items = append(out.Items, newVersionOutput(ver))
		}
	}
	return answer(w, out)
}

// versionDetail is one version with its files. The hashes of files let a client
// verify what it unpacked.
type versionDetail struct {
	Version struct {
		versionOutput
		Files    []fileOutput   `json:"files"`
		Security securityOutput `json:"security"`
	} `json:"version"`
	Skill struct {
		Slug        string `json:"slug"`
		DisplayName string `json:"displayName"`
	} `json:"skill"`
}

type fileOutput struct {
	Path        string `json:"path"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
}

// contentTypes are those of the files that skills have most often. The tables of systems
// differ, so that one server would say another type than the next.
var contentTypes = map[string]string{
	".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".yaml": "application/yaml",
	".yml":  "application/yaml",
	".toml": "application/toml", ".csv": "text/csv", ".html": "text/html", ".css": "text/css", ".js": "text/javascript",
	".ts": "text/plain", ".py": "text/x-python", ".sh": "text/x-shellscript", ".svg": "image/svg+xml", ".png": "image/png",
	".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf",
}

// contentType says what a file is, by its name. It only describes the file in a list: files
// are served as plain text.
func contentType(name string) string {
	return cmp.Or(contentTypes[strings.ToLower(path.Ext(name))], "application/octet-stream")
}

func (s *Service) handleVersion(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	ver, err := s.version(r.Context(), v, l, r.PathValue("version"))
	if err != nil {
		return err
	}
	rep, err := s.report(r.Context(), l.Entry, ver.ID)
	if err != nil {
		return err
	}
	var out versionDetail
	out.Skill.Slug, out.Skill.DisplayName = l.Name, l.Name
	out.Version.versionOutput = newVersionOutput(ver)
	out.Version.Security = rep.security()
	out.Version.Files = make([]fileOutput, len(ver.Manifest))
	for i, f := range ver.Manifest {
		out.Version.Files[i] = fileOutput{Path: f.Path, Size: f.Size, SHA256: f.Hash, ContentType: contentType(f.Path)}
	}
	return answer(w, out)
}

// handleFile sends one file of a version, never as something that a browser runs.
func (s *Service) handleFile(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	ver, err := s.askedVersion(r, v, l)
	if err != nil {
		return err
	}
	// By the manifest of the version: the path never reaches a file system.
	f, err := s.Registry.FindFile(r.Context(), ver, r.URL.Query().Get("path"))
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "File not found")
	}
	if err != nil {
		return err
	}
	content, err := s.Registry.ReadFile(r.Context(), ver, f)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", registry.MediaType(content))
	// The file is of a stranger, and served from the host that people are signed in
	// to.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	w.Header().Set("Cache-Control", "no-store")
	stored.Serve(w, r, f.Hash, content)
	return nil
}

type installOutput struct {
	OK          bool   `json:"ok"`
	Slug        string `json:"slug"`
	InstallKind string `json:"installKind"`
	Archive     struct {
		Version     string `json:"version"`
		DownloadURL string `json:"downloadUrl"`
	} `json:"archive"`
}

// handleInstall tells clients what to install of a skill without a latestVersion.
func (s *Service) handleInstall(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	out := installOutput{OK: true, Slug: l.Name, InstallKind: "archive"}
	out.Archive.Version = l.Current.Version
	query := url.Values{"slug": {l.Name}, "ownerHandle": {l.OrgName}, "version": {l.Current.Version}}
	out.Archive.DownloadURL = s.PublicURL + v.Base + "/api/v1/download?" + query.Encode()
	return answer(w, out)
}

// resolveOutput says which version an installation has. Match is null for content
// that no version has, e.g. after local changes.
type resolveOutput struct {
	Slug          string        `json:"slug"`
	Match         *versionNamed `json:"match"`
	LatestVersion *versionNamed `json:"latestVersion"`
}

type versionNamed struct {
	Version string `json:"version"`
}

// handleResolve finds the version of an installation by its fingerprint. A
// withdrawn one is found, too: the client is to leave it.
func (s *Service) handleResolve(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	out := resolveOutput{Slug: l.Name}
	if isSemVer(l.Current.Version) {
		out.LatestVersion = &versionNamed{l.Current.Version}
	}
	// The fingerprint is ClawHub's own digest of a folder, which the registry
	// computes for every version that it stores.
	hash := treehash.Hash{Kind: treehash.ClawHub, Hex: treehash.Parse(treehash.ClawHub, r.URL.Query().Get("hash"))}
	allowed, err := s.Catalog.Allowed(r.Context(), v.Shelf.Shelf, l.ID)
	if err != nil {
		return err
	}
	match, err := treehash.Find(r.Context(), s.DB, l.ID, hash)
	if err == nil && allowed(match) {
		out.Match = &versionNamed{match}
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return answer(w, out)
}

const (
	// unpackMemory is what reading an archive takes beside its bytes.
	unpackMemory = 4 << 20
	// maxPacks is how many zips are packed at once, and packTimeout how long one may
	// wait for that. Sending them to slow clients does not count.
	maxPacks    = 4
	packTimeout = 10 * time.Second
)

// handleDownload sends a version as a zip: the same files give the same bytes.
func (s *Service) handleDownload(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	ver, err := s.askedVersion(r, v, l)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	// The digest of the tree stands for the zip, which saves packing for the
	// comparison.
	if stored.MatchesETag(r.Header.Get("If-None-Match"), ver.TreeDigest) {
		stored.Serve(w, r, ver.TreeDigest, nil)
		return nil
	}
	packed, err := s.zip(r.Context(), ver)
	if err != nil {
		return err
	}
	defer packed.Close()
	w.Header().Set("ETag", `"`+ver.TreeDigest+`"`)
	w.Header().Set("Content-Type", "application/zip")
	name := l.Name
	if isSemVer(ver.Version) { // others may have quotes, slashes or anything else
		name += "-" + ver.Version
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.zip"`)
	// Known, since the whole zip was packed before the first byte is sent: a failure
	// is an error, not a zip that breaks off.
	w.Header().Set("Content-Length", strconv.FormatInt(packed.Size(), 10))
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := spool.Copy(w, packed.Reader()); err == nil { // else the client is gone
		// The report must not be lost because the client closes the connection at
		// once.
		s.seen(context.WithoutCancel(r.Context()), v.caller, ver)
	}
	return nil
}

// zip packs the files of a version. The caller closes the spool.
func (s *Service) zip(ctx context.Context, ver registry.Version) (*spool.Spool, error) {
	wait, cancel := context.WithTimeout(ctx, packTimeout)
	defer cancel()
	// It fails only when the time is up or the client is gone.
	if s.packs.Acquire(wait, 1) != nil {
		return nil, fault.New(fault.Unavailable, "The server is busy; try again").After(packTimeout)
	}
	defer s.packs.Release(1)
	// The order of turn and memory is the same for all requests, so they cannot
	// block each other.
	release, err := s.Memory.Reserve(ctx, ver.Size+unpackMemory)
	if err != nil {
		return nil, err
	}
	defer release()
	pkg, err := s.Registry.Open(ctx, ver)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The archive cannot be read now").Because(err)
	}
	defer pkg.Close()
	return pkg.Repack(ctx, skillpkg.Zip)
}
