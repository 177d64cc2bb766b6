package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint/sarif"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// A Result is the outcome of an upload or sync: the current snapshot of a source and its
// reports.
type Result struct {
	Source   Source
	Snapshot Snapshot
	Reports  []Report
}

// CreateFrom creates an upload source with its first snapshot, in one transaction.
func (s *Service) CreateFrom(
	ctx context.Context, c access.Caller, n NewSource, pkg *skillpkg.Package,
) (r Result, err error) {
	defer fault.Wrap(&err, "create source from an upload")
	issues, err := s.validateSkill(ctx, c.OrgID, n.SkillID)
	if err != nil {
		return r, err
	}
	if issues = append(validateLabel(n.Label), issues...); len(issues) > 0 {
		return r, fault.Issues(issues...)
	}
	src := n.source(c)
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return r, err
	}
	err = s.storeSnapshot(ctx, p, func(tx *store.Tx) error {
		if err := insertSource(ctx, tx, src); err != nil {
			return err
		}
		if err := src.Audit(ctx, tx, "sources.source.create", audit.Detail{"type": src.Type}); err != nil {
			return err
		}
		if r, err = p.commit(ctx, tx, src); err != nil {
			return err
		}
		if err := s.suggestLinked(ctx, tx, src); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, src.OrgID, quota.Sources, r.Snapshot.TotalBytes)
	})
	return r, err
}

// Hold stores files temporarily as a source of type Pull or Candidate. The caller chooses
// the id, so that calling it again, e.g. after a crash, returns the same snapshot
// (idempotent).
func (s *Service) Hold(ctx context.Context, c access.Caller, id string,
	n NewSource, pkg *skillpkg.Package,
) (_ Snapshot, err error) {
	defer fault.Wrap(&err, "hold source %s", id)
	src, err := s.Get(ctx, c.OrgID, id)
	if err == nil {
		return s.snapshotIn(ctx, src, "")
	}
	if !fault.Is(err, fault.NotFound) {
		return Snapshot{}, err
	}
	src = n.source(c)
	src.ID = id
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return Snapshot{}, err
	}
	var r Result
	err = s.storeSnapshot(ctx, p, func(tx *store.Tx) error {
		if err := insertSource(ctx, tx, src); err != nil {
			return err
		}
		if r, err = p.commit(ctx, tx, src); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, src.OrgID, quota.Sources, r.Snapshot.TotalBytes)
	})
	return r.Snapshot, err
}

// AddSnapshot adds a snapshot to an upload source and makes it current. It's idempotent:
// if the current snapshot has the same content, it's returned instead.
func (s *Service) AddSnapshot(
	ctx context.Context, c access.Caller, sourceID string, pkg *skillpkg.Package,
) (r Result, err error) {
	defer fault.Wrap(&err, "upload to source %s", sourceID)
	src, err := s.Get(ctx, c.OrgID, sourceID)
	if err != nil {
		return r, err
	}
	switch src.Type {
	case Upload:
	case Pull:
		return r, fault.New(fault.Conflict, "This source is a pull request; push to its branch instead")
	case Candidate:
		return r, fault.New(fault.Conflict, "This source is a candidate of an improve run; it cannot be changed")
	case Repohost:
		return r, fault.New(fault.Conflict, "This source comes from a code host; sync it instead")
	}
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return r, err
	}
	return s.addPrepared(ctx, src, p)
}

// Sync adds a snapshot of the head of the source's branch. It's idempotent like
// AddSnapshot.
func (s *Service) Sync(ctx context.Context, c access.Caller, sourceID string) (r Result, err error) {
	defer fault.Wrap(&err, "sync source %s", sourceID)
	src, err := s.Get(ctx, c.OrgID, sourceID)
	if err != nil {
		return r, err
	}
	if src.Type != Repohost {
		return r, fault.New(fault.Conflict, "This source has no repository; upload to it instead")
	}
	repo := src.Repo
	commit, pkg, err := s.Repohost.Fetch(
		ctx, src.OrgID, repo.InstallationID, repo.FullName, repo.DefaultBranch, repo.SkillPath)
	// An error without a kind comes from the network or the code host.
	if err != nil && fault.Of(err) == fault.Internal {
		return r, fault.New(fault.BadGateway, "The code host cannot be reached").Because(err)
	}
	if err != nil {
		return r, err
	}
	defer pkg.Close()
	if folder := path.Base(repo.SkillPath); folder != "." {
		pkg.Folder = folder // validation compares the skill's name with its folder's
	}
	p, err := prepare(ctx, c, src, pkg)
	if err != nil {
		return r, err
	}
	p.snapshot.CommitSHA, p.snapshot.Ref = &commit, &repo.DefaultBranch
	return s.addPrepared(ctx, src, p)
}

// addPrepared stores the blob before it locks the source, to keep the lock short. If the
// source is deleted meanwhile, storeSnapshot deletes the blob.
func (s *Service) addPrepared(ctx context.Context, src Source, p *prepared) (r Result, err error) {
	err = s.storeSnapshot(ctx, p, func(tx *store.Tx) error {
		if src, err = lockSource(ctx, tx, src.OrgID, src.ID); err != nil {
			return err
		}
		// Only a new snapshot counts towards the quota.
		if r, err = p.commit(ctx, tx, src); err != nil || r.Snapshot.ID != p.snapshot.ID {
			return err
		}
		return s.Quota.Add(ctx, tx, src.OrgID, quota.Sources, r.Snapshot.TotalBytes)
	})
	return r, err
}

// A prepared snapshot is packed and validated, but not yet stored.
type prepared struct {
	snapshot Snapshot
	report   Report
	archive  *spool.Spool
}

// prepare packs and validates a package, outside any transaction, because both are slow.
func prepare(ctx context.Context, c access.Caller, src Source, pkg *skillpkg.Package) (*prepared, error) {
	archive, err := canonicalArchive(ctx, pkg)
	if err != nil {
		return nil, err
	}
	found, err := lint.Check(ctx, pkg)
	digest := sha256.New()
	if err == nil {
		_, err = spool.Copy(digest, archive.Reader())
	}
	if err != nil {
		_ = archive.Close() // report the first error
		return nil, err
	}
	p := &prepared{archive: archive}
	p.snapshot = Snapshot{
		ID: store.NewID(), OrgID: src.OrgID, SourceID: src.ID, ContentHash: hex.EncodeToString(digest.Sum(nil)),
		Files: []File{}, Runnable: found.Status() != lint.StatusFail, CreatedBy: c.UserID,
	}
	for _, f := range pkg.Installed() {
		p.snapshot.Files = append(p.snapshot.Files, File{Path: f.Path, Size: f.Size, SHA256: f.SHA256})
		p.snapshot.TotalBytes += f.Size
	}
	if skill, err := pkg.Skill(); err == nil { // if it fails, the report has a finding
		p.snapshot.SkillName = text.TruncateRunes(text.Clean(skill.Name), maxText)
		p.snapshot.Description = text.TruncateRunes(text.Clean(skill.Description), maxText)
	}
	p.report = Report{
		ID: store.NewID(), OrgID: src.OrgID, SnapshotID: p.snapshot.ID, Engine: lint.Engine, Found: found,
	}
	return p, nil
}

// canonicalArchive packs the files reproducibly: the same files give the same bytes, and
// with them the same content hash, however they were uploaded. It's a tar.gz, or a zip if
// a file's name doesn't fit into a plain tar header.
func canonicalArchive(ctx context.Context, pkg *skillpkg.Package) (*spool.Spool, error) {
	archive, err := pkg.Repack(ctx, skillpkg.TarGz)
	if refused, ok := errors.AsType[*skillpkg.Error](err); ok && refused.Code == skillpkg.CodeNotPortable {
		return pkg.Repack(ctx, skillpkg.Zip)
	}
	return archive, err
}

// maxText truncates the name and description of a SKILL.md, in characters.
const maxText = 4096

// commit inserts the snapshot and makes it the current one of the locked source, unless
// the current one has the same content.
func (p *prepared) commit(ctx context.Context, tx *store.Tx, src Source) (r Result, err error) {
	snapshot, report := p.snapshot, p.report
	snapshot.CreatedAt = store.Now()
	if src.CurrentSnapshotID != nil {
		current, err := snapshotByID(ctx, tx, src, *src.CurrentSnapshotID)
		if err != nil {
			return r, err
		}
		if current.ContentHash == p.snapshot.ContentHash {
			reports, err := reportsOf(ctx, tx, src.OrgID, current.ID)
			return Result{src, current, reports}, err
		}
		// Snapshots are ordered by time, but the clock of the replica that made the
		// current one may be ahead of ours.
		if !snapshot.CreatedAt.After(current.CreatedAt) {
			snapshot.CreatedAt = current.CreatedAt.Add(time.Microsecond)
		}
	}
	report.CreatedAt = snapshot.CreatedAt
	if err := insertSnapshot(ctx, tx, snapshot); err != nil {
		return r, err
	}
	if err := insertReport(ctx, tx, report); err != nil {
		return r, err
	}
	src.CurrentSnapshotID = &snapshot.ID
	if err := updateSource(ctx, tx, src); err != nil {
		return r, err
	}
	return Result{src, snapshot, []Report{report}}, src.Audit(ctx, tx, "sources.snapshot.create", audit.Detail{
		"snapshot": snapshot.ID, "content_hash": snapshot.ContentHash, "commit": snapshot.CommitSHA,
	})
}

// Snapshot returns a snapshot of a source; with an empty snapshotID the current one. An
// empty sourceID means any source of the organisation.
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

// snapshotIn returns a snapshot of a source; with an empty snapshotID the current one.
func (s *Service) snapshotIn(ctx context.Context, src Source, snapshotID string) (Snapshot, error) {
	if snapshotID == "" {
		if src.CurrentSnapshotID == nil {
			return Snapshot{}, fault.New(fault.NotFound, "The source has no snapshot yet")
		}
		snapshotID = *src.CurrentSnapshotID
	}
	return snapshotByID(ctx, s.DB, src, snapshotID)
}

// OpenSnapshot opens the archive of a snapshot; the caller closes the package.
func (s *Service) OpenSnapshot(ctx context.Context, snapshot Snapshot) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "archive of snapshot %s", snapshot.ID)
	body, _, err := s.Blobs.Get(ctx, blobKey(snapshot.SourceID, snapshot.ContentHash))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return skillpkg.Read(ctx, body, storedLimits())
}

// storedLimits accepts every archive that we packed. The limits of uploads wouldn't: the
// canonical archive may be larger than the uploaded one, or have a higher compression
// ratio.
func storedLimits() skillpkg.Limits {
	l := skillpkg.StoredLimits()
	l.Packed = 2 * l.Unpacked
	l.Ratio = l.Unpacked
	return l
}

// FileOf returns the content of one file of a snapshot. The memory of a large file stays
// reserved in the memory budget until ctx is done.
func (s *Service) FileOf(ctx context.Context, snapshot Snapshot, name string) ([]byte, error) {
	f, err := snapshot.File(name)
	if err != nil {
		return nil, err
	}
	return s.Files.File(ctx, s.archive(snapshot), stored.File{SHA256: f.SHA256, Size: f.Size})
}

// File looks up a file in the manifest; a missing one is fault.NotFound.
func (s Snapshot) File(name string) (File, error) {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return File{}, fault.New(fault.NotFound, "File not found")
	}
	return s.Files[i], nil
}

// archive describes a snapshot's archive to the cache of files, which opens it only on a
// miss.
func (s *Service) archive(snapshot Snapshot) stored.Archive {
	open := func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := s.Blobs.Get(ctx, blobKey(snapshot.SourceID, snapshot.ContentHash))
		return body, err
	}
	return stored.Archive{Hash: snapshot.ContentHash, Limits: storedLimits(), Open: open}
}

// SARIF returns the findings on a snapshot as a SARIF 2.1.0 document, which code hosts
// and editors can import. With an empty snapshotID it's the current one.
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
	return json.Marshal(sarif.New(reports[0].Found, folder)) // a snapshot always has a report
}
