package sources

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Taken is a snapshot as a source has it, with its reports.
type Taken struct {
	Source   Source
	Snapshot Snapshot
	Reports  []Report
}

// CreateFrom makes an upload source with its first snapshot.
func (s *Service) CreateFrom(ctx context.Context, c access.Caller, n NewSource, pkg *skillpkg.Package) (t Taken, err error) {
	defer fault.Wrap(&err, "create source from an upload")
	issues, err := s.checkSkill(ctx, c.OrgID, n.SkillID)
	if err != nil {
		return t, err
	}
	if len(issues) > 0 {
		return t, fault.Issues(issues...)
	}
	src := n.source(c)
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return t, err
	}
	err = s.store(ctx, p, func(tx *store.Tx) error {
		if err := insertSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.Audit(ctx, tx, "sources.source.create", audit.Detail{"type": src.Type}); err != nil {
			return err
		}
		if t, err = p.commit(ctx, tx, src); err != nil {
			return err
		}
		if err := s.suggestLinked(ctx, tx, src); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, src.OrgID, quota.Sources, t.Snapshot.TotalBytes)
	})
	return t, err
}

// Add makes a snapshot the current one of an upload source. One with the
// content of the current one is not stored again: that one is returned.
func (s *Service) Add(ctx context.Context, c access.Caller, sourceID string, pkg *skillpkg.Package) (t Taken, err error) {
	defer fault.Wrap(&err, "upload to source %s", sourceID)
	src, err := s.Get(ctx, c.OrgID, sourceID)
	if err != nil {
		return t, err
	}
	if src.Type != Upload {
		return t, fault.New(fault.Conflict, "This source comes from a code host; sync it instead")
	}
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return t, err
	}
	return s.add(ctx, src, p)
}

// Sync makes a snapshot of what the repository of a source holds now. One with
// the content of the current one is not stored again: that one is returned.
func (s *Service) Sync(ctx context.Context, c access.Caller, sourceID string) (t Taken, err error) {
	defer fault.Wrap(&err, "sync source %s", sourceID)
	src, err := s.Get(ctx, c.OrgID, sourceID)
	if err != nil {
		return t, err
	}
	if src.Type != Repohost {
		return t, fault.New(fault.Conflict, "This source has no repository; upload to it instead")
	}
	r := src.Repo
	commit, pkg, err := s.Repohost.Fetch(ctx, src.OrgID, r.InstallationID, r.FullName, r.DefaultBranch, r.SkillPath)
	if err != nil && fault.Of(err) == fault.Internal {
		return t, fault.New(fault.BadGateway, "The code host cannot be reached").Because(err)
	}
	if err != nil {
		return t, err
	}
	defer pkg.Close()
	if folder := path.Base(r.SkillPath); folder != "." {
		pkg.Folder = folder // which the skill should be named after
	}
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return t, err
	}
	p.snapshot.CommitSHA, p.snapshot.Ref = &commit, &r.DefaultBranch
	return s.add(ctx, src, p)
}

func (s *Service) add(ctx context.Context, src Source, p *prepared) (t Taken, err error) {
	err = s.store(ctx, p, func(tx *store.Tx) error {
		if src, err = lockSource(ctx, tx, src.OrgID, src.ID); err != nil {
			return err
		}
		if t, err = p.commit(ctx, tx, src); err != nil || t.Snapshot.ID != p.snapshot.ID {
			return err
		}
		return s.Quota.Add(ctx, tx, src.OrgID, quota.Sources, t.Snapshot.TotalBytes)
	})
	return t, err
}

// A prepared snapshot was read and checked, and is not stored yet.
type prepared struct {
	snapshot Snapshot
	report   Report
	archive  []byte
}

// prepare reads all that a snapshot will say of a package.
func prepare(ctx context.Context, c access.Caller, src Source, pkg *skillpkg.Package) (*prepared, error) {
	archive, err := canonical(ctx, pkg)
	if err != nil {
		return nil, err
	}
	found, err := lint.Check(ctx, pkg)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(archive)
	p := &prepared{archive: archive}
	p.snapshot = Snapshot{
		ID: store.NewID(), OrgID: src.OrgID, SourceID: src.ID, ContentHash: hex.EncodeToString(sum[:]),
		Files: []File{}, Runnable: found.Status() != lint.StatusFail, CreatedBy: c.UserID,
	}
	for _, f := range pkg.Installed() {
		p.snapshot.Files = append(p.snapshot.Files, File{Path: f.Path, Size: f.Size, SHA256: f.SHA256})
		p.snapshot.TotalBytes += f.Size
	}
	if skill, err := pkg.Skill(); err == nil { // else the report says what is wrong with it
		p.snapshot.SkillName, p.snapshot.Description = cleanText(skill.Name), cleanText(skill.Description)
	}
	p.report = Report{
		ID: store.NewID(), OrgID: src.OrgID, SnapshotID: p.snapshot.ID, Engine: lint.Engine, Found: found,
	}
	return p, nil
}

// canonical is the archive by which the files of a package are known and kept:
// the same however they were sent. Names that a plain tar cannot hold need the
// zip.
func canonical(ctx context.Context, pkg *skillpkg.Package) ([]byte, error) {
	var b bytes.Buffer
	err := pkg.Repack(ctx, &b, skillpkg.TarGz)
	if refused, ok := errors.AsType[*skillpkg.Error](err); ok && refused.Code == skillpkg.CodeNotPortable {
		b.Reset()
		err = pkg.Repack(ctx, &b, skillpkg.Zip)
	}
	return b.Bytes(), err
}

// maxText bounds what is shown of a SKILL.md, in characters.
const maxText = 4096

func cleanText(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\ufffd"), "\ufffd")
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText])
	}
	return text
}

// commit makes the snapshot the current one of a locked source, unless the
// current one has its content.
func (p *prepared) commit(ctx context.Context, tx *store.Tx, src Source) (t Taken, err error) {
	last := time.Time{}
	if src.CurrentSnapshotID != nil {
		current, err := snapshotByID(ctx, tx, src, *src.CurrentSnapshotID)
		if err != nil {
			return t, err
		}
		if current.ContentHash == p.snapshot.ContentHash {
			reports, err := reportsOf(ctx, tx, src.OrgID, current.ID)
			return Taken{src, current, reports}, err
		}
		last = current.CreatedAt
	}
	snapshot, report := p.snapshot, p.report
	snapshot.CreatedAt = after(last)
	report.CreatedAt = snapshot.CreatedAt
	if err := insertSnapshot(ctx, tx, snapshot); err != nil {
		return t, err
	}
	if err := insertReport(ctx, tx, report); err != nil {
		return t, err
	}
	src.CurrentSnapshotID = &snapshot.ID
	if err := updateSource(ctx, tx, src); err != nil {
		return t, err
	}
	return Taken{src, snapshot, []Report{report}}, src.Audit(ctx, tx, "sources.snapshot.create", audit.Detail{
		"snapshot": snapshot.ID, "content_hash": snapshot.ContentHash, "commit": snapshot.CommitSHA,
	})
}

// after is now, or a moment after what happened last, should the clock of
// another replica run ahead: the order of snapshots is that of their times.
func after(last time.Time) time.Time {
	if t := store.Now(); t.After(last) {
		return t
	}
	return last.Add(time.Microsecond)
}

// Snapshot returns a snapshot of a source: the current one if snapshotID is "".
// If sourceID is "", it is one of any source of the organisation.
func (s *Service) Snapshot(ctx context.Context, orgID, sourceID, snapshotID string) (Snapshot, error) {
	if sourceID == "" {
		return snapshotOfOrg(ctx, s.DB, orgID, snapshotID)
	}
	src, err := s.Get(ctx, orgID, sourceID)
	if err != nil {
		return Snapshot{}, err
	}
	return s.snapshotIn(ctx, src, snapshotID)
}

func (s *Service) snapshotIn(ctx context.Context, src Source, snapshotID string) (Snapshot, error) {
	if snapshotID == "" {
		if src.CurrentSnapshotID == nil {
			return Snapshot{}, fault.New(fault.NotFound, "The source has no snapshot yet")
		}
		snapshotID = *src.CurrentSnapshotID
	}
	return snapshotByID(ctx, s.DB, src, snapshotID)
}

// Previous returns the snapshot that was current before another one of its
// source; the first one has none, which is a fault.NotFound.
func (s *Service) Previous(ctx context.Context, snapshot Snapshot) (Snapshot, error) {
	return snapshotBefore(ctx, s.DB, snapshot)
}

// OpenSnapshot reads the files of a snapshot. The caller closes the package.
func (s *Service) OpenSnapshot(ctx context.Context, snapshot Snapshot) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "archive of snapshot %s", snapshot.ID)
	body, _, err := s.Blobs.Get(ctx, blobKey(snapshot.SourceID, snapshot.ContentHash))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return skillpkg.Read(ctx, body, storedLimits())
}

// storedLimits let in whatever an upload could become: our own archive may be
// packed worse than the one that was sent, or better.
func storedLimits() skillpkg.Limits {
	l := skillpkg.StoredLimits()
	l.Packed = 2 * l.Unpacked
	l.Ratio = l.Unpacked
	return l
}

// FileOf returns the content of one file of a snapshot. The memory of a large one
// counts as used until ctx is done.
func (s *Service) FileOf(ctx context.Context, snapshot Snapshot, name string) ([]byte, error) {
	f, err := snapshot.File(name)
	if err != nil {
		return nil, err
	}
	return s.Files.File(ctx, s.archive(snapshot), stored.File{SHA256: f.SHA256, Size: f.Size})
}

// File finds a file of the snapshot.
func (s Snapshot) File(name string) (File, error) {
	at := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == name })
	if at < 0 {
		return File{}, fault.New(fault.NotFound, "File not found")
	}
	return s.Files[at], nil
}

func (s *Service) archive(snapshot Snapshot) stored.Archive {
	return stored.Archive{Hash: snapshot.ContentHash, Limits: storedLimits(), Open: func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := s.Blobs.Get(ctx, blobKey(snapshot.SourceID, snapshot.ContentHash))
		return body, err
	}}
}

// SARIF returns the findings of a snapshot in the format that code hosts and
// editors read: of the current one if snapshotID is "".
func (s *Service) SARIF(ctx context.Context, orgID, sourceID, snapshotID string) ([]byte, error) {
	src, err := s.Get(ctx, orgID, sourceID)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.snapshotIn(ctx, src, snapshotID)
	if err != nil {
		return nil, err
	}
	reports, err := reportsOf(ctx, s.DB, orgID, snapshot.ID)
	if err != nil {
		return nil, err
	}
	folder := ""
	if src.Repo != nil && src.Repo.SkillPath != "." {
		folder = src.Repo.SkillPath
	}
	return json.Marshal(lint.SARIF(reports[0].Found, folder)) // a snapshot is committed with its report
}
