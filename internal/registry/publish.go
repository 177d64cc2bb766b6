package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/chunk"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Publication is an archive on its way to become a version, with what its
// sender says about it.
type Publication struct {
	OrgID, UserID string

	Name        string
	Type        Type
	Description *string // nil: what the SKILL.md says
	Visibility  Visibility
	EntryRepo   *string

	Version       string
	ChangeSummary *string
	Source        Source
	SourceRef     *string
	SourceRepo    *string

	// ContentHash and Manifest are the sender's claims, checked when given.
	ContentHash string
	Manifest    []skillpkg.ManifestEntry

	Archive io.ReaderAt
	Size    int64

	// At is when it was published; now when zero. No request can set it.
	At time.Time
}

// Create makes an entry with its first version. A taken name is a conflict.
func (s *Service) Create(ctx context.Context, p Publication) (e Entry, v Version, err error) {
	defer fault.Wrap(&err, "create entry %q", p.Name)
	if issues := p.checkEntry(); len(issues) > 0 {
		return e, v, fault.Issues(issues...)
	}
	err = s.publish(ctx, p, p.Type, func(ctx context.Context, tx *store.Tx, made Version, take taking) (bool, error) {
		e = p.entry(made)
		v = made
		if _, err := skills.CleanName(e.Name); err == nil && e.Type == TypeSkill {
			id, err := skills.Resolve(ctx, tx, e.OrgID, e.Name)
			if err != nil {
				return false, err
			}
			e.SkillID = &id
		}
		v.EntryID = e.ID
		if err := insertEntry(ctx, tx, e); store.IsDuplicate(err) {
			return false, nameTaken(e.Name)
		} else if err != nil {
			return false, err
		}
		if err := take(ctx, tx); err != nil {
			return false, err
		}
		if err := insertVersion(ctx, tx, v); err != nil {
			return false, err
		}
		if err := insertCurrent(ctx, tx, e); err != nil {
			return false, err
		}
		return true, e.record(ctx, tx, "registry.entry.create", audit.Detail{"version": v.Version, "visibility": e.Visibility, "source": v.Source})
	})
	return e, v, err
}

func nameTaken(name string) error {
	return fault.New(fault.Conflict, "An entry named %s exists; push a version to it instead", name)
}

// Push adds a version to an entry of the organisation and makes it current.
// The same version with the same content is the one that is there: then made
// is false. With other content it is a conflict: versions never change.
func (s *Service) Push(ctx context.Context, entryID string, p Publication) (e Entry, v Version, made bool, err error) {
	defer fault.Wrap(&err, "push to entry %s", entryID)
	if issues := p.checkPush(); len(issues) > 0 {
		return e, v, false, fault.Issues(issues...)
	}
	entry, err := s.identify(ctx, entryOf{p.OrgID, entryID})
	if err != nil {
		return e, v, false, err
	}
	if p.Name != "" && p.Name != entry.name {
		return e, v, false, fault.Invalid("name", "name must be %s, the entry's; an entry is not renamed by a push", entry.name)
	}
	err = s.publish(ctx, p, entry.kind, func(ctx context.Context, tx *store.Tx, fresh Version, take taking) (bool, error) {
		if e, err = lockEntry(ctx, tx, p.OrgID, entryID); err != nil {
			return false, err
		}
		v, err = versionByName(ctx, tx, entryID, p.Version)
		if err == nil {
			made = false
			return false, sameContent(v, fresh)
		}
		if !fault.Is(err, fault.NotFound) {
			return false, err
		}
		v, made = fresh, true
		v.EntryID, v.PushedAt = entryID, after(e.UpdatedAt, p.At)
		if err := take(ctx, tx); err != nil {
			return false, err
		}
		if err := insertVersion(ctx, tx, v); err != nil {
			return false, err
		}
		e.setCurrent(v, v.PushedAt)
		if err := updateCurrent(ctx, tx, e); err != nil {
			return false, err
		}
		return true, e.record(ctx, tx, "registry.version.publish", audit.Detail{"version": v.Version, "source": v.Source})
	})
	return e, v, made, err
}

func sameContent(there, fresh Version) error {
	if there.ContentHash != fresh.ContentHash {
		return fault.New(fault.Conflict, "Version %s exists with other content; versions never change, so push a new one", there.Version)
	}
	return nil
}

func (p *Publication) checkEntry() []fault.Issue {
	return slices.Concat(
		checkName(p.Name), checkOneOf("entry_type", p.Type, types()...),
		checkOneOf("visibility", p.Visibility, visibilities()...), checkRepo(p.EntryRepo), p.checkVersion())
}

// checkPush also looks at what a push does not change: it may be left out,
// not wrong.
func (p *Publication) checkPush() []fault.Issue {
	return slices.Concat(
		p.checkVersion(), checkRepo(p.SourceRepo), checkOneOf("entry_type", cmp.Or(p.Type, TypeSkill), types()...),
		checkOneOf("visibility", cmp.Or(p.Visibility, Org), visibilities()...))
}

func (p *Publication) checkVersion() []fault.Issue {
	return slices.Concat(checkVersion(p.Version),
		checkText("description", deref(p.Description), maxDescription),
		checkText("change_summary", deref(p.ChangeSummary), maxSummary))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (p *Publication) entry(v Version) Entry {
	e := Entry{
		ID: store.NewID(), OrgID: p.OrgID, Name: p.Name, Type: p.Type, Description: v.Description,
		Visibility: p.Visibility, SourceRepo: p.EntryRepo,
		CreatedBy: p.UserID, CreatedAt: v.PushedAt,
	}
	if p.Description != nil {
		e.Description = *p.Description
	}
	e.setCurrent(v, v.PushedAt)
	return e
}

// setCurrent makes a version the current one from a time on.
func (e *Entry) setCurrent(v Version, since time.Time) {
	e.CurrentVersionID, e.CurrentVersion, e.CurrentHash, e.UpdatedAt = v.ID, v.Version, v.ContentHash, since
}

// after is the given time, now if it is zero, or a moment after what happened
// last, should the clock of another replica run ahead: the order of pushes is
// that of their times.
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

// A committing writes a version, and reports whether that now needs its bytes.
// It calls take between the entry and the count of changes: all lock them and
// the bytes in that order.
type committing func(ctx context.Context, tx *store.Tx, v Version, take taking) (needed bool, err error)

// A taking takes the uses of a version's bytes.
type taking func(context.Context, *store.Tx) error

// publish checks the archive, stores its bytes, and lets commit write the
// version. Nothing is stored of an archive that is refused.
func (s *Service) publish(ctx context.Context, p Publication, kind Type, commit committing) error {
	v, canonical, err := p.read(ctx, kind)
	if err != nil {
		return err
	}
	if err := s.checkRoom(ctx, p, v); err != nil {
		return err
	}
	commit = s.counted(p.OrgID, commit)
	b := newBurden(p, v, canonical)
	needed := false
	err = b.store(ctx, s.Blobs)
	if err == nil {
		take := func(ctx context.Context, tx *store.Tx) error { return takeAll(ctx, tx, b.hashes) }
		err = s.DB.InGroup(ctx, func(tx *store.Tx) (err error) {
			needed, err = commit(ctx, tx, v, take)
			return err
		})
	}
	if errors.Is(err, errBeingRemoved) {
		return s.publishPinned(ctx, b, v, commit)
	}
	if err != nil || !needed {
		s.abandon(context.WithoutCancel(ctx), b.hashes)
	}
	return err
}

// checkRoom refuses an archive that is over the organisation's quota before its
// bytes are stored. Content that it has already takes no room.
func (s *Service) checkRoom(ctx context.Context, p Publication, v Version) error {
	n, err := countContent(ctx, s.DB, p.OrgID, v.ContentHash)
	if err != nil || n > 0 {
		return err
	}
	return s.Quota.Room(ctx, p.OrgID, v.Size)
}

// counted is a commit that also counts the bytes of a content which the
// organisation did not have.
func (s *Service) counted(orgID string, commit committing) committing {
	return func(ctx context.Context, tx *store.Tx, v Version, take taking) (needed bool, err error) {
		if needed, err = commit(ctx, tx, v, take); err != nil || !needed {
			return needed, err
		}
		if err := quota.Lock(ctx, tx, orgID, quota.Registry); err != nil {
			return false, err
		}
		n, err := countContent(ctx, tx, orgID, v.ContentHash)
		if err != nil || n > 1 {
			return true, err
		}
		return true, s.Quota.Add(ctx, tx, orgID, quota.Registry, v.Size)
	}
}

// publishPinned is the sure way for content that is or was being removed: the
// use is taken before the bytes are stored, and given back if it came to
// nothing.
func (s *Service) publishPinned(ctx context.Context, b burden, v Version, commit committing) error {
	if err := s.pin(ctx, b.hashes); err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			s.unpin(context.WithoutCancel(ctx), b.hashes)
		}
	}()
	if err := b.store(ctx, s.Blobs); err != nil {
		return err
	}
	needed, taken := false, func(context.Context, *store.Tx) error { return nil }
	err := s.DB.InGroup(ctx, func(tx *store.Tx) (err error) {
		needed, err = commit(ctx, tx, v, taken)
		return err
	})
	kept = err == nil && needed
	return err
}

// A burden is the bytes that a version needs.
type burden struct {
	hashes    []string // sorted, as all lock them in the same order
	archive   *io.SectionReader
	hash      string // of the archive
	canonical []byte // nil if there is none beside the archive
}

func newBurden(p Publication, v Version, canonical []byte) burden {
	b := burden{
		hashes: []string{v.ContentHash}, archive: io.NewSectionReader(p.Archive, 0, p.Size), hash: v.ContentHash, canonical: canonical,
	}
	if v.CanonicalHash != nil {
		b.hashes = append(b.hashes, *v.CanonicalHash)
	}
	slices.Sort(b.hashes)
	return b
}

func (b burden) store(ctx context.Context, bucket blob.Bucket) error {
	if err := blob.PutHashed(ctx, bucket, b.hash, b.archive); err != nil {
		return err
	}
	if b.canonical == nil {
		return nil
	}
	_, err := blob.PutContent(ctx, bucket, bytes.NewReader(b.canonical))
	return err
}

// read checks the archive against the limits and the sender's claims, and
// returns the version it would become with its canonical form, nil if that is
// the archive itself or there is none.
func (p *Publication) read(ctx context.Context, kind Type) (v Version, canonical []byte, err error) {
	pkg, err := skillpkg.Open(ctx, p.Archive, p.Size, skillpkg.DefaultLimits())
	if err != nil {
		return v, nil, err
	}
	defer pkg.Close()
	if pkg.Format != skillpkg.TarGz {
		return v, nil, fault.Invalid("archive", "archive must be a tar.gz, not a zip")
	}
	v = Version{
		ID: store.NewID(), Version: p.Version, TreeDigest: pkg.TreeDigest(), Size: p.Size, Manifest: pkg.Manifest(),
		ChangeSummary: p.ChangeSummary, Source: p.Source, SourceRef: p.SourceRef, SourceRepo: p.SourceRepo,
		PushedBy: p.UserID, PushedAt: orNow(p.At),
	}
	if v.ContentHash, err = hashOf(io.NewSectionReader(p.Archive, 0, p.Size)); err != nil {
		return v, nil, err
	}
	if issues := p.checkClaims(v); len(issues) > 0 {
		return v, nil, fault.Issues(issues...)
	}
	if err := pkg.RequireSkill(); err != nil {
		if kind == TypeSkill {
			return v, nil, err
		}
		return v, nil, nil
	}
	if skill, err := pkg.Skill(); err == nil {
		v.Description = cut(strings.ReplaceAll(skill.Description, "\x00", "\ufffd"), maxDescription)
	}
	if pkg.SkillPath != skillFile {
		return v, nil, nil // installers would not find it: the skill is left out of discovery
	}
	if v.skillText, err = skillText(pkg); err != nil {
		return v, nil, err
	}
	if asSent, err := pkg.Canonical(ctx); err != nil || asSent {
		sum := v.ContentHash
		v.CanonicalHash = &sum
		return v, nil, err
	}
	canonical, err = canonicalOf(ctx, pkg)
	if err != nil || canonical == nil {
		return v, nil, err
	}
	sum, err := hashOf(bytes.NewReader(canonical))
	v.CanonicalHash = &sum
	return v, canonical, err
}

const (
	skillFile = "SKILL.md"
	// maxSkillText is the size up to which a SKILL.md is kept in the database, too.
	maxSkillText = 64 << 10
)

// skillText returns the SKILL.md if it is small, since that is what everybody
// asks for.
func skillText(pkg *skillpkg.Package) ([]byte, error) {
	r, err := pkg.Open(skillFile)
	if err != nil || r.Size() > maxSkillText {
		return nil, err
	}
	return io.ReadAll(r)
}

// canonicalOf packs the files the way installers want them. A skill with a
// name that they cannot read has no such form: it is nil, and the skill is
// left out of discovery.
func canonicalOf(ctx context.Context, pkg *skillpkg.Package) ([]byte, error) {
	var b bytes.Buffer
	err := pkg.Repack(ctx, &b, skillpkg.TarGz)
	if _, unfit := errors.AsType[*skillpkg.Error](err); unfit {
		return nil, nil
	}
	return b.Bytes(), err
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := chunk.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

func cut(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit])
	}
	return s
}

// checkClaims compares what the sender says of the archive with what it is.
func (p *Publication) checkClaims(v Version) []fault.Issue {
	var issues []fault.Issue
	if p.ContentHash != "" && p.ContentHash != v.ContentHash {
		issues = append(issues, fault.At("content_hash", "content_hash must be the SHA-256 of the archive, %s; was the archive changed on the way?", v.ContentHash))
	}
	if p.Manifest != nil {
		issues = append(issues, compareManifests(p.Manifest, v.Manifest)...)
	}
	return issues
}

// compareManifests names the first file on which the two disagree.
func compareManifests(claimed, found []skillpkg.ManifestEntry) []fault.Issue {
	byPath := map[string]skillpkg.ManifestEntry{}
	for _, f := range found {
		byPath[f.Path] = f
	}
	for _, c := range claimed {
		f, ok := byPath[c.Path]
		if !ok {
			return []fault.Issue{fault.At("file_manifest", "file_manifest names %q, which is not in the archive, or twice", c.Path)}
		}
		if f.Hash != c.Hash || f.Size != c.Size {
			return []fault.Issue{fault.At("file_manifest", "file_manifest is wrong about %q: it has %d bytes and the SHA-256 %s", c.Path, f.Size, f.Hash)}
		}
		delete(byPath, c.Path)
	}
	for _, f := range found {
		if _, missing := byPath[f.Path]; missing {
			return []fault.Issue{fault.At("file_manifest", "file_manifest leaves out %q", f.Path)}
		}
	}
	return nil
}
