package clawhub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	// maxFile and maxForm are the largest file, and the largest form with all of
	// them: what skillpkg unpacks, and room for the rest.
	maxFile = 10 << 20
	maxForm = 52 << 20
	// uploadTTL is how long a file is kept for the publish that it was sent for.
	uploadTTL = time.Hour
	// maxPending and maxPendingBytes bound the files of an organisation that wait
	// for that.
	maxPending      = 5_000
	maxPendingBytes = 200 << 20

	uploadPrefix = "clawhub/"
)

// key is the blob of the file; ids are random, so it cannot be guessed.
func (u upload) key() string { return uploadPrefix + u.id }

type uploadURLOutput struct {
	UploadURL    string `json:"uploadUrl"`
	UploadTicket string `json:"uploadTicket"`
}

// handleUploadURL announces a file. The ticket is its id: only the same user may
// send and publish it.
func (s *Service) handleUploadURL(w http.ResponseWriter, r *http.Request, v visit) error {
	var in struct {
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	// The digest is stored in lower case, however the client wrote it.
	sum, err := hex.DecodeString(in.SHA256)
	switch {
	case err != nil || len(sum) != sha256.Size:
		return fault.New(fault.Malformed, "sha256 must have 64 hex digits")
	case in.Size < 0:
		return fault.New(fault.Malformed, "size must not be negative")
	case in.Size > maxFile:
		return fault.New(fault.TooLarge, "A file may have at most 10 MiB")
	}
	u := upload{
		id: store.NewID(), orgID: v.caller.OrgID, userID: v.caller.UserID, sha256: hex.EncodeToString(sum), size: in.Size,
		createdAt: store.Now(),
	}
	if err := s.Quota.Room(r.Context(), u.orgID, u.size); err != nil {
		return err
	}
	// Checked without a lock: concurrent requests may exceed the limits by a few
	// files.
	files, size, err := pendingUploads(r.Context(), s.DB, u.orgID, u.createdAt.Add(-uploadTTL))
	if err != nil {
		return err
	}
	if files >= maxPending || size+u.size > maxPendingBytes {
		return fault.New(fault.Limited, "Too many files wait for their publish; try again in an hour").After(uploadTTL)
	}
	if err := insertUpload(r.Context(), s.DB, u); err != nil {
		return err
	}
	return answer(w, uploadURLOutput{UploadURL: s.PublicURL + v.Base + "/api/v1/skills/-/upload/" + u.id, UploadTicket: u.id})
}

type uploadOutput struct {
	StorageID string `json:"storageId"`
}

// handleUpload stores a file that was announced. Sending it again is not an error.
func (s *Service) handleUpload(w http.ResponseWriter, r *http.Request, v visit) error {
	uploads, err := s.uploads(r.Context(), v.caller, []string{r.PathValue("id")})
	if err != nil {
		return err
	}
	u, ok := uploads[r.PathValue("id")]
	if !ok {
		return fault.New(fault.NotFound, "Upload not found")
	}
	// At most maxFile bytes, see Mount.
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if int64(len(content)) != u.size || hex.EncodeToString(sum[:]) != u.sha256 {
		return fault.New(fault.Malformed, "The file is not the one that was announced: it has %d bytes and the SHA-256 %x",
			len(content), sum)
	}
	// The blob comes before the row that says so: a crash in between leaves a file
	// for the sweep, and never a row without its file.
	if err := s.Blobs.Put(r.Context(), u.key(), bytes.NewReader(content), u.size); err != nil {
		return err
	}
	if err := setReceived(r.Context(), s.DB, u); err != nil {
		return err
	}
	return answer(w, uploadOutput{u.id})
}

// uploads returns those of the caller that are still kept.
func (s *Service) uploads(ctx context.Context, c access.Caller, ids []string) (map[string]upload, error) {
	return uploadsByID(ctx, s.DB, c.OrgID, c.UserID, ids, store.Now().Add(-uploadTTL))
}

// A publication is what a client wants to publish. Fields that it does not list are
// ignored: clients send more than is used.
type publication struct {
	Slug        string `json:"slug"`
	OwnerHandle string `json:"ownerHandle"`
	Version     string `json:"version"`
	Changelog   string `json:"changelog"`
	Source      *struct {
		Repo   string `json:"repo"`
		Ref    string `json:"ref"`
		Commit string `json:"commit"`
	} `json:"source"`
	Files []struct {
		Path         string  `json:"path"`
		StorageID    string  `json:"storageId"`
		SHA256       *string `json:"sha256"`
		Size         *int64  `json:"size"`
		UploadTicket *string `json:"uploadTicket"`
	} `json:"files"` // of uploads; in a form they are parts
}

// publishOutput is what became of a publish. A version with a gate is pending, and
// the id of the gate is that of the attempt.
type publishOutput struct {
	OK                bool    `json:"ok"`
	SkillID           string  `json:"skillId"`
	VersionID         string  `json:"versionId"`
	Slug              string  `json:"slug"`
	Version           string  `json:"version"`
	Status            string  `json:"status"`
	PublicationStatus string  `json:"publicationStatus"`
	AttemptID         *string `json:"attemptId,omitempty"`
}

// handlePublish makes a version of uploads that a body of JSON names or, as older
// clients send them, of the parts of a form.
func (s *Service) handlePublish(w http.ResponseWriter, r *http.Request, v visit) error {
	var p publication
	var parts []skillpkg.Part
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // JSON if there is none
	if media == "multipart/form-data" {
		form, err := httpapi.ReadForm(r)
		if err != nil {
			return err
		}
		defer form.Close()
		if p, parts, err = readForm(form); err != nil {
			return err
		}
	} else if err := readJSON(r, &p); err != nil {
		return err
	}
	// Refuse what clients could not install. Slugs are ASCII, so none looks like another.
	if owner := trimHandle(p.OwnerHandle); owner != "" && !strings.EqualFold(owner, v.caller.OrgName) {
		return fault.New(fault.Denied, "Your key belongs to @%s, so you cannot publish for @%s", v.caller.OrgName, owner)
	}
	if !catalog.ValidName(p.Slug) {
		return fault.New(fault.Malformed, "The slug must have 1 to 64 lower-case letters and digits, in words separated by single hyphens")
	}
	if !isSemVer(p.Version) {
		return fault.New(fault.Malformed, "The version must be a semantic version, e.g. 1.0.0")
	}
	uploads := map[string]upload{}
	if media != "multipart/form-data" {
		var err error
		if parts, uploads, err = s.uploaded(r.Context(), v.caller, p); err != nil {
			return err
		}
	}
	e, ver, err := s.publish(r.Context(), v.caller, p, parts)
	if err != nil {
		return err
	}
	// Only after a success, so that a client can publish again without sending the
	// files.
	s.discard(r.Context(), v.caller.OrgID, uploads)
	out := publishOutput{OK: true, SkillID: e.ID, VersionID: ver.ID, Slug: e.Name, Version: ver.Version, Status: "published"}
	if ver.State == registry.Candidate {
		out.Status, out.AttemptID = "pending", ver.GateID
	}
	out.PublicationStatus = out.Status
	return answer(w, out)
}

// readForm reads the part payload and the parts files. The content of a file stays
// in its spool, and is read once, by FromParts.
func readForm(form *httpapi.Form) (p publication, parts []skillpkg.Part, err error) {
	payload := form.Values["payload"]
	if len(payload) != 1 || json.Unmarshal([]byte(payload[0]), &p) != nil {
		return p, nil, fault.New(fault.Malformed, "The form must have one part payload with JSON")
	}
	for _, f := range form.Files["files"] {
		parts = append(parts, skillpkg.Part{
			Path: f.Path, Size: f.Content.Size(), Open: func() (io.ReadCloser, error) { return io.NopCloser(f.Content), nil },
		})
	}
	return p, parts, nil
}

// uploaded finds the uploads of a publication.
func (s *Service) uploaded(ctx context.Context, c access.Caller, p publication) ([]skillpkg.Part, map[string]upload, error) {
	ids := make([]string, len(p.Files))
	for i, f := range p.Files {
		ids[i] = f.StorageID
	}
	// Before they become parameters of a query.
	if err := checkTexts(ids...); err != nil {
		return nil, nil, err
	}
	if most := skillpkg.DefaultLimits().Files; len(ids) > most {
		return nil, nil, fault.New(fault.TooLarge, "A skill may have at most %d files", most)
	}
	uploads, err := s.uploads(ctx, c, ids)
	if err != nil {
		return nil, nil, err
	}
	parts := make([]skillpkg.Part, len(p.Files))
	for i, f := range p.Files {
		// The zero upload, which was not received, for an unknown id.
		u := uploads[f.StorageID]
		if !u.received {
			return nil, nil, fault.New(fault.Malformed,
				"The file %q was not uploaded, or longer than an hour ago; publish again", f.Path)
		}
		other := ""
		switch { // clients may leave these out
		case f.SHA256 != nil && !strings.EqualFold(*f.SHA256, u.sha256):
			other = "sha256"
		case f.Size != nil && *f.Size != u.size:
			other = "size"
		case f.UploadTicket != nil && *f.UploadTicket != u.id:
			other = "uploadTicket"
		}
		if other != "" {
			return nil, nil, fault.New(fault.Malformed, "The %s of the file %q is not the one of its upload; publish again",
				other, f.Path)
		}
		parts[i] = skillpkg.Part{Path: f.Path, Size: u.size, Open: func() (io.ReadCloser, error) {
			body, _, err := s.Blobs.Get(ctx, u.key())
			return body, err
		}}
	}
	return parts, uploads, nil
}

// discard deletes the uploads of a publish that worked. What is left after a
// failure is for the sweep.
func (s *Service) discard(ctx context.Context, orgID string, uploads map[string]upload) {
	if len(uploads) == 0 {
		return
	}
	// The version is published; the client need not wait for the cleanup.
	ctx = context.WithoutCancel(ctx)
	ids := make([]string, 0, len(uploads))
	for _, u := range uploads {
		ids = append(ids, u.id)
		if err := s.Blobs.Delete(ctx, u.key()); err != nil {
			s.Log.Warn("an upload waits for the sweep", "key", u.key(), "error", err)
		}
	}
	if err := deleteUploads(ctx, s.DB, orgID, ids); err != nil {
		s.Log.Warn("uploads wait for the sweep", "error", err)
	}
}

// publish packs the files and pushes them as every other client does: to the entry
// of that name, or else to a new one, which only the organisation sees.
func (s *Service) publish(
	ctx context.Context, c access.Caller, p publication, parts []skillpkg.Part,
) (e registry.Entry, ver registry.Version, err error) {
	size := int64(0)
	for _, part := range parts {
		size += part.Size
	}
	release, err := s.Memory.Reserve(ctx, size+unpackMemory)
	if err != nil {
		return e, ver, err
	}
	defer release()
	archive, err := pack(ctx, parts)
	if err != nil {
		return e, ver, err
	}
	defer archive.Close()
	push := registry.Publication{
		OrgID: c.OrgID, UserID: c.UserID, Name: p.Slug, Type: registry.TypeSkill, Visibility: registry.Org,
		Version: p.Version, Source: registry.FromCLI, Archive: archive, Size: archive.Size(),
	}
	if p.Changelog != "" {
		push.ChangeSummary = &p.Changelog
	}
	if p.Source != nil && p.Source.Repo != "" {
		push.EntryRepo, push.SourceRepo, push.SourceRef = &p.Source.Repo, &p.Source.Repo, &p.Source.Commit
		if issues := registry.CheckText("source.commit", p.Source.Commit, 200); len(issues) > 0 {
			return e, ver, fault.Issues(issues...)
		}
	}
	// Twice: the second time the entry exists, whoever created it.
	for range 2 {
		// Pending, too: an entry whose first version waits for its gate has no
		// current one.
		listed, _, err := s.Registry.List(ctx, c.OrgID, registry.Filter{Name: p.Slug, Pending: true, Page: store.Page{Limit: 1}})
		if err != nil {
			return e, ver, err
		}
		if len(listed) > 0 {
			e, ver, _, err = s.Registry.Push(ctx, listed[0].ID, push)
			return e, ver, err
		}
		e, ver, err = s.Registry.Create(ctx, push)
		if !fault.Is(err, fault.Conflict) {
			return e, ver, err
		}
		// Another request has created it meanwhile.
	}
	return e, ver, fault.New(fault.Conflict, "The skill is being created and deleted at the same time; publish again")
}

// pack makes the archive that installers want. The caller closes it.
func pack(ctx context.Context, parts []skillpkg.Part) (*spool.Spool, error) {
	limits := skillpkg.DefaultLimits()
	limits.Packed = limits.Unpacked // of the files as they are; the registry checks the archive
	pkg, err := skillpkg.FromParts(ctx, parts, limits)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	if err := pkg.RequireSkill(); err != nil {
		return nil, err
	}
	if pkg.SkillPath != "SKILL.md" {
		return nil, fault.New(fault.Malformed, "The file %s must be called SKILL.md", pkg.SkillPath)
	}
	return pkg.Repack(ctx, skillpkg.TarGz)
}

// checkTexts refuses what the databases cannot store.
func checkTexts(texts ...string) error {
	for _, t := range texts {
		if !text.Valid(t) {
			return fault.New(fault.Malformed, "The body is not valid text")
		}
	}
	return nil
}
