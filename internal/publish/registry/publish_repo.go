package registry

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A RepoPublication is the input of PublishRepo: a commit of a connected repository.
type RepoPublication struct {
	OrgID, UserID, EntryID, ChosenBy string // as in Version

	Version       string
	ChangeSummary string
	Source        Source
	SourceRef     string // tag or SHA
	SourceRepo    string // owner/repo
	SourceCommit  string
	SourcePath    string // folder of the skill in the repository
	Package       *skillpkg.Package

	// Latest: the commit is the head of its branch.
	Latest bool
	// AnyVersion: a version of any name with the same content makes publishing
	// unnecessary.
	AnyVersion bool
	// Unless names a version that makes publishing unnecessary if it has the same
	// content; "" for none.
	Unless string
}

// branchPrefix begins the versions made from commits of a branch, as SemVer prereleases,
// e.g. "0.0.0-repohost.0123456".
const branchPrefix = "0.0.0-repohost."

// PublishRepo adds a version to an entry, as Push does, from a commit of a connected
// repository. A release becomes current unless the current version is a later one; a
// prerelease from a branch only while the entry has no release and the commit is the head
// of the branch. Both pass the gate.
//
// It's idempotent: if a version with the content exists, it is returned and made is
// false. The same name with other content is fault.Conflict.
func (s *Service) PublishRepo(ctx context.Context, p RepoPublication) (v Version, made bool, err error) {
	defer fault.Wrap(&err, "publish to entry %s", p.EntryID)
	e, err := ownEntry(ctx, s.DB, p.OrgID, p.EntryID)
	if err != nil {
		return v, false, err
	}
	archive, err := p.Package.Repack(ctx, skillpkg.TarGz)
	if err != nil {
		return v, false, err
	}
	defer archive.Close()
	publication := p.publication(archive)
	if issues := publication.checkPush(); len(issues) > 0 {
		return v, false, fault.Issues(issues...)
	}
	publication.Name = e.Name
	d, err := publication.read(ctx, e.Type)
	if err != nil {
		return v, false, err
	}
	defer d.canonical.Close()
	// Most pushes to a repository don't change the skill: skip the transaction for them.
	if v, err = p.existing(ctx, s.DB, e, d.version); err == nil {
		return v, false, checkSameTree(v, d.version)
	} else if !fault.Is(err, fault.NotFound) {
		return v, false, err
	}
	err = s.insert(ctx, p.OrgID, d, func(tx *store.Tx) (bool, error) {
		v, made, err = s.insertRepo(ctx, tx, p, d.version)
		return made, err
	})
	return v, made, err
}

// publication converts the input for the code shared with Push. Archive is the repacked
// folder.
func (p *RepoPublication) publication(archive *spool.Spool) Publication {
	summary := text.TruncateRunes(p.ChangeSummary, maxSummary)
	return Publication{
		OrgID: p.OrgID, UserID: p.UserID, Version: p.Version, ChangeSummary: &summary,
		Source: p.Source, SourceRef: &p.SourceRef, SourceRepo: &p.SourceRepo, SourceCommit: p.SourceCommit,
		SourcePath: p.SourcePath, ChosenBy: &p.ChosenBy,
		Archive: archive, Size: archive.Size(),
	}
}

// insertRepo writes the version under the entry's lock, unless it was published
// concurrently.
func (s *Service) insertRepo(ctx context.Context, tx *store.Tx, p RepoPublication,
	fresh Version,
) (_ Version, made bool, err error) {
	e, err := lockEntry(ctx, tx, p.OrgID, p.EntryID)
	if err != nil {
		return fresh, false, err
	}
	there, err := p.existing(ctx, tx, e, fresh)
	if err == nil {
		return there, false, checkSameTree(there, fresh)
	}
	if !fault.Is(err, fault.NotFound) {
		return fresh, false, err
	}
	fresh.OrgID, fresh.EntryID, fresh.PushedAt = e.OrgID, e.ID, after(e.UpdatedAt, time.Time{})
	fresh.EntryDescription = cmp.Or(fresh.Description, e.Description)
	current, err := p.becomesCurrent(ctx, tx, e)
	if err != nil {
		return fresh, false, err
	}
	fresh.Apart = !current
	if err := s.admit(ctx, tx, e, &fresh); err != nil {
		return fresh, false, err
	}
	if err := insertVersion(ctx, tx, fresh); err != nil {
		return fresh, false, err
	}
	if fresh.State == Candidate {
		return fresh, true, e.hold(ctx, tx, fresh)
	}
	if !current {
		err = touchEntry(ctx, tx, e, fresh.PushedAt)
	} else {
		e.setCurrent(fresh, fresh.PushedAt)
		err = updateCurrent(ctx, tx, e)
	}
	if err != nil {
		return fresh, false, err
	}
	return fresh, true, e.Record(ctx, tx, "registry.version.publish", audit.Detail{
		"version": fresh.Version, "source": fresh.Source, "repository": p.SourceRepo, "ref": p.SourceRef, "current": current,
	})
}

// existing finds the version of the wanted name, or one with the same content that makes
// publishing unnecessary. None is fault.NotFound.
func (p *RepoPublication) existing(ctx context.Context, q store.Querier, e Entry, fresh Version) (Version, error) {
	v, err := versionByName(ctx, q, e, p.Version)
	if !fault.Is(err, fault.NotFound) {
		return v, err
	}
	if p.AnyVersion {
		return versionByTree(ctx, q, e, fresh.TreeDigest)
	}
	if p.Unless == "" {
		return v, err
	}
	if v, err = versionByName(ctx, q, e, p.Unless); err == nil && v.TreeDigest != fresh.TreeDigest {
		err = fault.New(fault.NotFound, "Version not found")
	}
	return v, err
}

// checkSameTree compares files instead of archives, which another tool or release may
// pack differently.
func checkSameTree(there, fresh Version) error {
	if there.TreeDigest != fresh.TreeDigest {
		return fault.New(fault.Conflict,
			"Version %s exists with other content; versions never change, so make a new commit or tag", there.Version)
	}
	return nil
}

// becomesCurrent implements the rule in PublishRepo's comment.
func (p *RepoPublication) becomesCurrent(ctx context.Context, tx *store.Tx, e Entry) (bool, error) {
	if !strings.HasPrefix(p.Version, branchPrefix) {
		return strings.HasPrefix(e.CurrentVersion, branchPrefix) || !later(e.CurrentVersion, p.Version), nil
	}
	released, err := hasRelease(ctx, tx, e)
	return p.Latest && !released, err
}

// later reports whether a is greater than b by SemVer. It's false if either isn't SemVer:
// such versions are ordered only by their push.
func later(a, b string) bool {
	first, err1 := semver.StrictNewVersion(a)
	second, err2 := semver.StrictNewVersion(b)
	return err1 == nil && err2 == nil && first.GreaterThan(second)
}
