package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Publication is the input of Create and Push: an archive, and what its sender
// says about it.
type Publication struct {
	OrgID, UserID string

	Name        string
	Type        Type
	Description *string // of the version; nil: the one in the SKILL.md
	Visibility  Visibility
	EntryRepo   *string

	Version       string
	ChangeSummary *string
	Source        Source
	SourceRef     *string
	SourceRepo    *string
	// SourceCommit and SourcePath are those of a repository that was read here.
	SourceCommit, SourcePath string
	ChosenBy                 *string // as in Version

	// ContentHash and Manifest are the sender's claims, checked when given.
	ContentHash string
	Manifest    []skillpkg.ManifestEntry

	Archive io.ReaderAt
	Size    int64

	Onto string // id of the version that must be current, if not empty
	// At is when it was published; now when zero. No request can set it.
	At time.Time
}

// Create makes an entry with its first version. A taken name is a conflict.
func (s *Service) Create(ctx context.Context, p Publication) (e Entry, v Version, err error) {
	defer fault.Wrap(&err, "create entry %q", p.Name)
	if issues := p.checkEntry(); len(issues) > 0 {
		return e, v, fault.Issues(issues...)
	}
	d, err := p.read(ctx, p.Type)
	if err != nil {
		return e, v, err
	}
	defer d.canonical.Close()
	err = s.insert(ctx, p.OrgID, d, func(tx *store.Tx) (bool, error) {
		v = d.version
		v.EntryDescription = p.describe(v, "")
		e = p.entry(v)
		if _, err := skills.CleanName(e.Name); err == nil && e.Type == TypeSkill {
			id, err := skills.Resolve(ctx, tx, e.OrgID, e.Name)
			if err != nil {
				return false, err
			}
			e.SkillID = &id
		}
		v.OrgID, v.EntryID = e.OrgID, e.ID
		if err := insertEntry(ctx, tx, e); store.IsDuplicate(err) {
			return false, fault.New(fault.Conflict, "An entry named %s exists; push a version to it instead", e.Name)
		} else if err != nil {
			return false, err
		}
		if err := s.admit(ctx, tx, e, &v); err != nil {
			return false, err
		}
		if err := insertVersion(ctx, tx, v); err != nil {
			return false, err
		}
		if v.State == Candidate {
			e.CurrentVersionID, e.CurrentVersion, e.CurrentHash = "", "", ""
			err = clearCurrent(ctx, tx, e)
		} else {
			err = insertCurrent(ctx, tx, e)
		}
		if err != nil {
			return false, err
		}
		return true, e.Record(ctx, tx, "registry.entry.create",
			audit.Detail{"version": v.Version, "visibility": e.Visibility, "source": v.Source, "state": v.State})
	})
	return e, v, err
}

// admit asks the gate whether the version may be published, and become current unless it
// is apart, and says what it becomes.
func (s *Service) admit(ctx context.Context, tx *store.Tx, e Entry, v *Version) error {
	v.State = Published
	if s.Gate != nil {
		gate, hold, err := s.Gate.Admit(ctx, tx, e, *v)
		if err != nil {
			return err
		}
		if gate != nil {
			v.GateID = &gate.ID
		}
		if hold {
			v.State, v.gate = Candidate, gate
			return s.Emit(ctx, tx, events.VersionCandidate, e, *v, nil)
		}
	}
	return s.Emit(ctx, tx, events.VersionPublished, e, *v, nil)
}

// hold finishes the push of a candidate.
func (e *Entry) hold(ctx context.Context, tx *store.Tx, v Version) error {
	e.UpdatedAt = v.PushedAt
	if err := touchEntry(ctx, tx, *e, v.PushedAt); err != nil {
		return err
	}
	return e.Record(ctx, tx, "registry.version.hold", audit.Detail{"version": v.Version, "source": v.Source, "gate": v.GateID})
}

// Push adds a version to an entry of the organisation and makes it current, unless
// the gate makes it a candidate. It is idempotent: the same version with the same
// content is there, and made is false. With other content it is a conflict.
func (s *Service) Push(ctx context.Context, entryID string, p Publication) (e Entry, v Version, made bool, err error) {
	defer fault.Wrap(&err, "push to entry %s", entryID)
	if issues := p.checkPush(); len(issues) > 0 {
		return e, v, false, fault.Issues(issues...)
	}
	if e, err = ownEntry(ctx, s.DB, p.OrgID, entryID); err != nil {
		return e, v, false, err
	}
	if p.Name != "" && p.Name != e.Name {
		return e, v, false, fault.Invalid("name", "name must be %s, the entry's; an entry is not renamed by a push", e.Name)
	}
	p.Name = e.Name
	d, err := p.read(ctx, e.Type)
	if err != nil {
		return e, v, false, err
	}
	defer d.canonical.Close()
	// A repeated push, which is common in CI, needs neither room nor objects.
	if v, err = versionByName(ctx, s.DB, e, p.Version); err == nil {
		return e, v, false, checkSameContent(v, d.version)
	} else if !fault.Is(err, fault.NotFound) {
		return e, v, false, err
	}
	err = s.insert(ctx, p.OrgID, d, func(tx *store.Tx) (inserted bool, err error) {
		if e, err = lockEntry(ctx, tx, p.OrgID, entryID); err != nil {
			return false, err
		}
		if v, err = versionByName(ctx, tx, e, p.Version); err == nil {
			made = false
			return false, checkSameContent(v, d.version) // pushed at the same time
		} else if !fault.Is(err, fault.NotFound) {
			return false, err
		}
		if p.Onto != "" && p.Onto != e.CurrentVersionID {
			return false, fault.New(fault.Conflict, "Version %s became current meanwhile", e.CurrentVersion)
		}
		v, made = d.version, true
		v.OrgID, v.EntryID, v.PushedAt = e.OrgID, e.ID, after(e.UpdatedAt, p.At)
		v.EntryDescription = p.describe(v, e.Description)
		if err := s.admit(ctx, tx, e, &v); err != nil {
			return false, err
		}
		if err := insertVersion(ctx, tx, v); err != nil {
			return false, err
		}
		if v.State == Candidate {
			return true, e.hold(ctx, tx, v)
		}
		e.setCurrent(v, v.PushedAt)
		if err := updateCurrent(ctx, tx, e); err != nil {
			return false, err
		}
		return true, e.Record(ctx, tx, "registry.version.publish", audit.Detail{"version": v.Version, "source": v.Source})
	})
	return e, v, made, err
}

func checkSameContent(there, fresh Version) error {
	if there.ContentHash != fresh.ContentHash {
		return fault.New(fault.Conflict, "Version %s exists with other content; versions never change, so push a new one",
			there.Version)
	}
	return nil
}

// insert stores the objects of a draft and calls fn in a transaction, which
// writes the version, or reports false if it is there already. The version
// counts for the organisation's quota.
func (s *Service) insert(ctx context.Context, orgID string, d draft, fn func(tx *store.Tx) (inserted bool, err error)) error {
	if err := s.Quota.Room(ctx, orgID, d.version.Size); err != nil {
		return err
	}
	if err := s.putObjects(ctx, d); err != nil {
		return err
	}
	committing := false // set by the last attempt: a transaction may be tried again
	err := s.DB.InGroup(ctx, func(tx *store.Tx) error {
		committing = false
		inserted, err := fn(tx)
		if err != nil || !inserted {
			return err
		}
		if s.Sign != nil {
			err = s.Sign(ctx, tx, d.version.ID)
		}
		if err == nil {
			err = s.Quota.Add(ctx, tx, orgID, quota.Registry, d.version.Size)
		}
		committing = err == nil
		return err
	})
	// After an error while committing, the version may be there all the same (the
	// connection broke before the answer), so its objects are left to the sweep.
	if !committing {
		s.deleteObjects(ctx, d.version)
	}
	return err
}

func (p *Publication) checkEntry() []fault.Issue {
	return slices.Concat(
		checkName(p.Name), checkOneOf("entry_type", p.Type, types()...),
		checkOneOf("visibility", p.Visibility, visibilities()...), checkRepo(p.EntryRepo), p.checkVersion())
}

// checkPush also validates fields that a push does not change: they may be left
// out, but not be wrong.
func (p *Publication) checkPush() []fault.Issue {
	return slices.Concat(
		p.checkVersion(), checkRepo(p.SourceRepo), checkOneOf("entry_type", cmp.Or(p.Type, TypeSkill), types()...),
		checkOneOf("visibility", cmp.Or(p.Visibility, Org), visibilities()...))
}

func (p *Publication) checkVersion() []fault.Issue {
	return slices.Concat(checkVersion(p.Version),
		CheckText("description", deref(p.Description), maxDescription),
		CheckText("change_summary", deref(p.ChangeSummary), maxSummary))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// describe returns what an entry shows while the version is current: what the
// sender says, even if that is nothing, else what the SKILL.md says. A version
// that has neither, e.g. one of an agent, keeps the description of before.
func (p *Publication) describe(v Version, before string) string {
	if p.Description != nil {
		return *p.Description
	}
	return cmp.Or(v.Description, before)
}

func (p *Publication) entry(v Version) Entry {
	e := Entry{
		ID: store.NewID(), OrgID: p.OrgID, Name: p.Name, Type: p.Type, Visibility: p.Visibility, SourceRepo: p.EntryRepo,
		CreatedBy: p.UserID, CreatedAt: v.PushedAt,
	}
	e.setCurrent(v, v.PushedAt)
	return e
}

// setCurrent makes a version the current one from a time on.
func (e *Entry) setCurrent(v Version, since time.Time) {
	e.CurrentVersionID, e.CurrentVersion, e.CurrentHash, e.UpdatedAt = v.ID, v.Version, v.ContentHash, since
	e.Description = v.EntryDescription
}

// after returns the given time, or now if it is zero; but always a time after
// last. The order of pushes is that of their times, and the clock of the
// replica that did the last one may be ahead of ours.
func after(last, at time.Time) time.Time {
	if t := orNow(at); t.After(last) {
		return t
	}
	return last.Add(time.Microsecond)
}

func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return store.Now()
	}
	return at
}

// A draft is an archive that was read and checked, and the version that it
// would become.
type draft struct {
	version   Version // without what only its entry knows
	archive   io.ReaderAt
	canonical *spool.Spool // nil if that is the archive itself, or there is none
}

// read checks the archive against the limits and the sender's claims. A skill
// that installers could not read has no canonical archive, and is left out of
// discovery.
func (p *Publication) read(ctx context.Context, kind Type) (d draft, err error) {
	pkg, err := skillpkg.Open(ctx, p.Archive, p.Size, skillpkg.DefaultLimits())
	if err != nil {
		return d, err
	}
	defer pkg.Close()
	// Clients of the registry expect a tar.gz, whatever was pushed.
	if pkg.Format != skillpkg.TarGz {
		return d, fault.Invalid("archive", "archive must be a tar.gz, not a zip")
	}
	if p.Manifest != nil {
		pkg.OmitAppleDouble(p.Manifest)
	}
	d.archive = p.Archive
	d.version = Version{
		ID: store.NewID(), Version: p.Version, TreeDigest: pkg.TreeDigest(), Size: p.Size, Manifest: pkg.Manifest(),
		ChangeSummary: p.ChangeSummary, Source: p.Source, SourceRef: p.SourceRef, SourceRepo: p.SourceRepo,
		PushedBy: p.UserID, ChosenBy: p.ChosenBy, PushedAt: orNow(p.At), commit: p.SourceCommit, path: p.SourcePath,
	}
	v := &d.version
	if v.ContentHash, err = hashOf(io.NewSectionReader(p.Archive, 0, p.Size)); err != nil {
		return d, err
	}
	v.archiveKey = objectKey(v.ID, v.ContentHash)
	if issues := p.checkClaims(*v, pkg); len(issues) > 0 {
		return d, fault.Issues(issues...)
	}
	if err := pkg.RequireSkill(); err != nil {
		if kind == TypeSkill {
			return d, err
		}
		return d, nil
	}
	// A SKILL.md that cannot be parsed is published all the same, without a
	// description: whether that is acceptable is for validation to say.
	if skill, err := pkg.Skill(); err == nil {
		v.Description = text.TruncateRunes(strings.ReplaceAll(skill.Description, "\x00", "\ufffd"), maxDescription)
		v.requires, v.problems = requirements.Of(skill)
	}
	if pkg.SkillPath != skillFile {
		return d, nil
	}
	if v.skillText, err = skillText(pkg); err != nil {
		return d, err
	}
	if v.treeHashes, err = treehash.Of(pkg, p.Name); err != nil {
		return d, err
	}
	return d, d.addCanonical(ctx, pkg)
}

// addCanonical packs the files the way installers want them, unless they were
// sent that way, or have names that installers cannot read.
func (d *draft) addCanonical(ctx context.Context, pkg *skillpkg.Package) error {
	v := &d.version
	asSent, err := pkg.Canonical(ctx)
	if err != nil {
		return err
	}
	if asSent {
		v.CanonicalHash, v.canonicalKey = new(v.ContentHash), new(v.archiveKey)
		return nil
	}
	canonical, err := pkg.Repack(ctx, skillpkg.TarGz)
	if _, unfit := errors.AsType[*skillpkg.Error](err); unfit {
		return nil
	}
	if err != nil {
		return err
	}
	hash, err := hashOf(canonical.Reader())
	if err != nil {
		return errors.Join(err, canonical.Close())
	}
	key := objectKey(v.ID, hash)
	d.canonical, v.CanonicalHash, v.canonicalKey = canonical, &hash, &key
	return nil
}

const (
	skillFile = "SKILL.md"
	// maxSkillText is the size up to which a SKILL.md is also kept in the database.
	maxSkillText = 64 << 10
)

// skillText returns the SKILL.md if it is small: it is the file that is read
// most.
func skillText(pkg *skillpkg.Package) ([]byte, error) {
	r, err := pkg.Open(skillFile)
	if err != nil || r.Size() > maxSkillText {
		return nil, err
	}
	return io.ReadAll(r)
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := spool.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkClaims compares the sender's hash and manifest with the archive.
func (p *Publication) checkClaims(v Version, pkg *skillpkg.Package) []fault.Issue {
	var issues []fault.Issue
	if p.ContentHash != "" && p.ContentHash != v.ContentHash {
		issues = append(issues, fault.At("content_hash",
			"content_hash must be the SHA-256 of the archive, %s; was the archive changed on the way?", v.ContentHash))
	}
	if problem := pkg.CheckManifest(p.Manifest); problem != "" {
		issues = append(issues, fault.At("file_manifest", "file_manifest %s", problem))
	}
	return issues
}
