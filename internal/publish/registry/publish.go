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

// A Publication is the input of Create and Push: an archive and the metadata that the
// client sent with it.
type Publication struct {
	OrgID, UserID string

	Name        string
	Type        Type
	Description *string // nil: use the one in the SKILL.md
	Visibility  Visibility
	EntryRepo   *string

	Version       string
	ChangeSummary *string
	Source        Source
	SourceRef     *string
	SourceRepo    *string
	// SourceCommit and SourcePath are set only for a repository that the server read
	// itself, never from a request.
	SourceCommit, SourcePath string
	ChosenBy                 *string // as in Version

	// ContentHash and Manifest are the client's claims about the archive, verified if
	// given.
	ContentHash string
	Manifest    []skillpkg.ManifestEntry

	Archive io.ReaderAt
	Size    int64

	Onto string // id of the version that must still be current, if not empty (optimistic locking)
	// At overrides the time of publication, e.g. for imports; zero means now. No request
	// can set it.
	At time.Time
}

// Create makes an entry with its first version. A name that is taken is fault.Conflict.
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
		// The skill is resolved here, so that sessions reported before the first push are
		// joined to the entry.
		if _, err := skills.CleanName(e.Name); err == nil && e.Type == TypeSkill {
			id, err := skills.Resolve(ctx, tx, e.OrgID, e.Name)
			if err != nil {
				return false, err
			}
			e.SkillID = &id
		}
		v.OrgID, v.EntryID = e.OrgID, e.ID
		// The unique index decides about the name: a check beforehand could race.
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
		// insertEntry wrote the version as current; a candidate must not be.
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

// admit asks the gate whether the version may be published right away, sets the version's
// state, and emits the event. A version that is Apart passes the gate too, but doesn't
// become current.
func (s *Service) admit(ctx context.Context, tx *store.Tx, e Entry, v *Version) error {
	// Without gates every version is published.
	v.State = Published
	if s.OnPush != nil {
		gate, hold, err := s.OnPush.Admit(ctx, tx, e, *v)
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

// hold completes the push of a candidate: it changes the entry, but not its current
// version.
func (e *Entry) hold(ctx context.Context, tx *store.Tx, v Version) error {
	e.UpdatedAt = v.PushedAt
	if err := touchEntry(ctx, tx, *e, v.PushedAt); err != nil {
		return err
	}
	return e.Record(ctx, tx, "registry.version.hold", audit.Detail{"version": v.Version, "source": v.Source, "gate": v.GateID})
}

// Push adds a version to an entry of the organisation and makes it current, unless the
// gate makes it a candidate. It's idempotent: if the version exists with the same content
// it is returned, and made is false; with other content it is fault.Conflict.
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
	// CI often repeats a push: answer it before quota and objects are touched. The check
	// is repeated under the lock below.
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
			return false, checkSameContent(v, d.version) // pushed concurrently
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

// checkSameContent enforces that versions are immutable.
func checkSameContent(there, fresh Version) error {
	if there.ContentHash != fresh.ContentHash {
		return fault.New(fault.Conflict, "Version %s exists with other content; versions never change, so push a new one",
			there.Version)
	}
	return nil
}

// insert stores the objects of a draft, then runs fn in a transaction. fn writes the
// version, or returns false if it exists already. On success the version counts towards
// the organisation's quota; otherwise its objects are deleted.
func (s *Service) insert(ctx context.Context, orgID string, d draft, fn func(tx *store.Tx) (inserted bool, err error)) error {
	// Check the quota before uploading; Add below is what counts.
	if err := s.Quota.Room(ctx, orgID, d.version.Size); err != nil {
		return err
	}
	if err := s.putObjects(ctx, d); err != nil {
		return err
	}
	committing := false // from the last attempt: InGroup may retry fn
	err := s.DB.InGroup(ctx, func(tx *store.Tx) error {
		committing = false
		inserted, err := fn(tx)
		if err != nil || !inserted {
			return err
		}
		if s.OnVersion != nil {
			err = s.OnVersion.SignVersion(ctx, tx, d.version.ID)
		}
		if err == nil {
			err = s.Quota.Add(ctx, tx, orgID, quota.Registry, d.version.Size)
		}
		committing = err == nil
		return err
	})
	// If the commit itself failed, the version may exist all the same (the connection
	// broke before the reply). Its objects are then left to the sweep.
	if !committing {
		s.deleteObjects(ctx, d.version)
	}
	return err
}

// checkEntry validates what an entry gets from its first push.
func (p *Publication) checkEntry() []fault.Issue {
	return slices.Concat(
		checkName(p.Name), checkOneOf("entry_type", p.Type, types()...),
		checkOneOf("visibility", p.Visibility, visibilities()...), checkRepo(p.EntryRepo), p.checkVersion())
}

// checkPush also validates fields that a push ignores: they may be missing, but not
// wrong.
func (p *Publication) checkPush() []fault.Issue {
	return slices.Concat(
		p.checkVersion(), checkRepo(p.SourceRepo), checkOneOf("entry_type", cmp.Or(p.Type, TypeSkill), types()...),
		checkOneOf("visibility", cmp.Or(p.Visibility, Org), visibilities()...))
}

// checkVersion validates what every push sets.
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

// describe returns the description that the entry shows while the version is current: the
// client's, even if it's empty, else that of the SKILL.md. A version with neither, e.g.
// of an agent, keeps the description of the version before.
func (p *Publication) describe(v Version, before string) string {
	if p.Description != nil {
		return *p.Description
	}
	return cmp.Or(v.Description, before)
}

// entry makes an entry whose current version is v.
func (p *Publication) entry(v Version) Entry {
	e := Entry{
		ID: store.NewID(), OrgID: p.OrgID, Name: p.Name, Type: p.Type, Visibility: p.Visibility, SourceRepo: p.EntryRepo,
		CreatedBy: p.UserID, CreatedAt: v.PushedAt,
	}
	e.setCurrent(v, v.PushedAt)
	return e
}

// setCurrent makes a version the current one as of since, in memory only.
func (e *Entry) setCurrent(v Version, since time.Time) {
	e.CurrentVersionID, e.CurrentVersion, e.CurrentHash, e.UpdatedAt = v.ID, v.Version, v.ContentHash, since
	e.Description = v.EntryDescription
}

// after returns at, or now if it's zero, but always a time after last. Versions are
// ordered by their times, and the clock of the replica that wrote the last one may be
// ahead of ours.
func after(last, at time.Time) time.Time {
	if t := orNow(at); t.After(last) {
		return t
	}
	return last.Add(time.Microsecond)
}

// orNow returns now for the zero time.
func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return store.Now()
	}
	return at
}

// A draft is a validated archive and the version it would become. It's made outside the
// transaction, since reading archives is slow.
type draft struct {
	version   Version // without what depends on the entry
	archive   io.ReaderAt
	canonical *spool.Spool // nil if the archive is canonical itself, or there is none
}

// read checks the archive against the limits and the client's claims. A skill that
// installers couldn't read gets no canonical archive, and discovery doesn't list it.
func (p *Publication) read(ctx context.Context, kind Type) (d draft, err error) {
	pkg, err := skillpkg.Open(ctx, p.Archive, p.Size, skillpkg.DefaultLimits())
	if err != nil {
		return d, err
	}
	defer pkg.Close()
	// Clients of the registry expect a tar.gz.
	if pkg.Format != skillpkg.TarGz {
		return d, fault.Invalid("archive", "archive must be a tar.gz, not a zip")
	}
	// Archives packed on macOS may have "._" files that the client's manifest omits.
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
	// Other types need no SKILL.md, and none of the steps below.
	if err := pkg.RequireSkill(); err != nil {
		if kind == TypeSkill {
			return d, err
		}
		return d, nil
	}
	// A SKILL.md that doesn't parse is published without a description: lint and gates
	// judge whether that's acceptable, the registry doesn't.
	if skill, err := pkg.Skill(); err == nil {
		v.Description = text.TruncateRunes(strings.ReplaceAll(skill.Description, "\x00", "\ufffd"), maxDescription)
		v.requires, v.problems = requirements.Of(skill)
	}
	// Below are steps for a SKILL.md at the root of the archive, the layout of
	// installers.
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

// addCanonical packs the files the way installers expect, unless they came that way, or
// have names that installers can't read.
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
	// maxSkillText is the size up to which a SKILL.md is also stored in the database.
	maxSkillText = 64 << 10
)

// skillText returns the content of a small SKILL.md, or nil. It is the file that's read
// most, and the database saves opening the archive.
func skillText(pkg *skillpkg.Package) ([]byte, error) {
	r, err := pkg.Open(skillFile)
	if err != nil || r.Size() > maxSkillText {
		return nil, err
	}
	return io.ReadAll(r)
}

// hashOf returns the SHA-256 of a stream in hex.
func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := spool.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkClaims compares the client's hash and manifest with the archive, to catch
// corruption in transit.
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
