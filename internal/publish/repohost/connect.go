package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/findings"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/refs"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// NewEntry instead of the id of an entry makes ConnectChosen create one.
const NewEntry = "new"

// ConnectChosen is Connect for a person who chooses the entry from a list: the
// skill in the repository must have the entry's name, unless the person confirms
// that another skill's versions are to follow. NewEntry creates the entry from the
// SKILL.md at the head of the branch.
func (s *Service) ConnectChosen(ctx context.Context, c access.Caller, n Connection, confirmed bool) (_ Connection, err error) {
	if n.EntryID == "" {
		return n, fault.Invalid("entry_id", "Choose the entry that the repository publishes to, or a new one")
	}
	if err := n.Check(); err != nil {
		return n, err
	}
	commit, pkg, err := s.Fetch(ctx, c.OrgID, n.InstallationID, n.RepoFullName, "refs/heads/"+n.DefaultBranch, n.SkillPath)
	if err == nil {
		defer func() { _ = pkg.Close() }() // it was only read
	}
	if n.EntryID == NewEntry {
		if err != nil {
			return n, err
		}
		if err := s.checkConnect(ctx, c, "", n.Codeowners); err != nil {
			return n, err // before there is an entry
		}
		entry, err := s.createEntry(ctx, c, n, commit, pkg)
		if err != nil {
			return n, err
		}
		n.EntryID = entry.ID
		return s.Connect(ctx, c, n)
	}
	if err != nil && (isTransient(err) || fault.Is(err, fault.Conflict)) {
		return n, err
	}
	if err == nil && !confirmed {
		if err := s.checkName(ctx, c.OrgID, n.EntryID, pkg); err != nil {
			return n, err
		}
	}
	return s.Connect(ctx, c, n) // a folder that is not there yet may be pushed later
}

// checkName is a Conflict if the skill has another name than the entry.
func (s *Service) checkName(ctx context.Context, orgID, entryID string, pkg *skillpkg.Package) error {
	entry, err := s.Registry.Own(ctx, orgID, entryID)
	if err != nil || entry.Type != registry.TypeSkill {
		return err
	}
	skill, err := pkg.Skill()
	if err != nil || skill.Name == entry.Name {
		return nil //nolint:nilerr // what cannot be read is refused when it is published
	}
	return fault.New(fault.Conflict, "The SKILL.md in the repository is of %q, and its versions would replace those of %q;"+
		" choose another entry, or confirm it", skill.Name, entry.Name)
}

// createEntry makes an entry of the skill, with the commit as its first version.
func (s *Service) createEntry(
	ctx context.Context, c access.Caller, n Connection, commit string, pkg *skillpkg.Package,
) (e registry.Entry, err error) {
	_, refusal, err := findings.Check(ctx, n.SkillPath, pkg)
	if err != nil {
		return e, err
	}
	if refusal != "" {
		return e, fault.New(fault.Conflict, "%s", refusal)
	}
	skill, err := pkg.Skill()
	if err != nil {
		return e, err
	}
	archive, err := pkg.Repack(ctx, skillpkg.TarGz)
	if err != nil {
		return e, err
	}
	defer archive.Close()
	e, _, err = s.Registry.Create(ctx, registry.Publication{
		OrgID: c.OrgID, UserID: c.UserID, Name: skill.Name, Type: registry.TypeSkill, Visibility: registry.Org,
		EntryRepo: &n.RepoFullName, Version: refs.Prerelease(commit), Source: registry.FromRepohostDirect, SourceRef: &commit,
		SourceRepo: &n.RepoFullName, SourceCommit: commit, SourcePath: n.SkillPath, Archive: archive, Size: archive.Size(),
	})
	return e, err
}
