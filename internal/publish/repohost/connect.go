package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// NewEntry in place of an entry's id makes ConnectChosen create an entry.
const NewEntry = "new"

// ConnectChosen is Connect for a person who picks the entry from a list. The skill in the
// repository must have the entry's name, unless the person confirms that another skill's
// versions shall follow: a wrong pick would publish one skill as another. NewEntry
// creates the entry from the SKILL.md at the head of the branch.
func (s *Service) ConnectChosen(ctx context.Context, c access.Caller, n Connection, confirmed bool) (_ Connection, err error) {
	if n.EntryID == "" {
		return n, fault.Invalid("entry_id", "Choose the entry that the repository publishes to, or a new one")
	}
	if err := n.Check(s.Host.Provider()); err != nil {
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
			return n, err // refuse before an entry is created
		}
		entry, err := s.createEntry(ctx, c, n, commit, pkg)
		if err != nil {
			return n, err
		}
		n.EntryID = entry.ID
		return s.Connect(ctx, c, n)
	}
	// Other errors, e.g. a missing folder, are no reason to refuse: see below.
	if err != nil && (isTransient(err) || fault.Is(err, fault.Conflict)) {
		return n, err
	}
	if err == nil && !confirmed {
		if err := s.checkName(ctx, c.OrgID, n.EntryID, pkg); err != nil {
			return n, err
		}
	}
	return s.Connect(ctx, c, n) // the folder may not exist yet and be pushed later
}

// checkName returns fault.Conflict if the skill and the entry have different names.
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

// createEntry creates an entry for the skill, with the commit as its first version.
func (s *Service) createEntry(
	ctx context.Context, c access.Caller, n Connection, commit string, pkg *skillpkg.Package,
) (e registry.Entry, err error) {
	_, refusal, err := publication.CheckFolder(ctx, n.SkillPath, pkg)
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
		EntryRepo: &n.RepoFullName, Version: publication.Prerelease(commit), Source: registry.FromRepohostDirect,
		SourceRef:  &commit,
		SourceRepo: &n.RepoFullName, SourceCommit: commit, SourcePath: n.SkillPath, Archive: archive, Size: archive.Size(),
	})
	return e, err
}
