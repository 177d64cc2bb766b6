package teams

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// A Source is where the owners of an entry are from.
type Source string

// The sources.
const (
	Manual Source = "manual"     // set by hand
	File   Source = "codeowners" // the file of the connected repository
	None   Source = "none"
)

// Owners are who owns an entry.
type Owners struct {
	Source Source
	Users  []Person // by address
	Teams  []Team   // by slug
	// Unknown are those of the file that are neither a member nor a team, as they are
	// written there, e.g. "@acme/docs".
	Unknown []string
	// File is what the file says, even if owners that were set by hand count instead;
	// nil if there is none.
	File *Codeowners
}

// A Codeowners is what the CODEOWNERS file of a repository says about an entry.
type Codeowners struct {
	ConnectionID string
	OrgID        string
	EntryID      string
	Repository   string   // e.g. "acme/skills"
	Commit       string   // that it was read at
	Path         string   // of the file
	Line         int      // that applies; 0: none does
	Pattern      string   // of the line
	Owners       []string // as they are written
	ReadAt       time.Time
}

// OwnersOf returns who owns an entry of an organisation. No entry is fault.NotFound.
func (s *Service) OwnersOf(ctx context.Context, orgID, entryID string) (Owners, error) {
	e, err := s.Registry.Own(ctx, orgID, entryID)
	if err != nil {
		return Owners{}, err
	}
	return ownersOf(ctx, s.DB, e.OrgID, e.ID)
}

// Owns reports whether a user owns an entry, as a person or in a team. Nobody owns an
// entry that does not exist.
func (s *Service) Owns(ctx context.Context, orgID, entryID, userID string) (bool, error) {
	people, err := s.People(ctx, orgID, entryID)
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == userID }), err
}

// MayAsOwner reports whether the caller owns the entry. A key that was narrowed does not
// get more by it: somebody wanted it to do less.
func (s *Service) MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.Narrowed() || entryID == "" {
		return false, nil
	}
	return s.Owns(ctx, c.OrgID, entryID, c.UserID)
}

// Owned reports whether an entry has owners.
func (*Service) Owned(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error) {
	o, err := ownersOf(ctx, q, orgID, entryID)
	return o.Source != None, err
}

// OwnsAs implements gates.Owners: it is MayAsOwner in a transaction.
func (s *Service) OwnsAs(ctx context.Context, q store.Querier, c access.Caller, entryID string) (bool, error) {
	if c.Narrowed() {
		return false, nil
	}
	people, err := peopleOf(ctx, q, c.OrgID, entryID)
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == c.UserID }), err
}

// People returns everybody who owns an entry, as a person or in a team, by address.
func (s *Service) People(ctx context.Context, orgID, entryID string) ([]Person, error) {
	return peopleOf(ctx, s.DB, orgID, entryID)
}

// MayApprove lets the owners of an entry approve its versions; admins, while it has none.
func (s *Service) MayApprove(ctx context.Context, q store.Querier, entryID string, who access.Caller) (bool, error) {
	people, err := peopleOf(ctx, q, who.OrgID, entryID)
	if err != nil || len(people) == 0 {
		return who.Role.Includes(access.AdminRole), err
	}
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == who.UserID }), nil
}

// OwnersOfSkill returns the ids of everybody who owns the entry of a skill, by address.
func (s *Service) OwnersOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) ([]string, error) {
	entryID, err := entryOfSkill(ctx, q, orgID, skillID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	people, err := peopleOf(ctx, q, orgID, entryID)
	return ids(people), err
}

// MailAddress returns the address of a member. One who was removed, and one who is no
// person, is fault.NotFound.
func (s *Service) MailAddress(ctx context.Context, orgID, userID string) (string, error) {
	m, err := s.Auth.Member(ctx, orgID, userID)
	if err == nil && (m.RemovedAt != nil || m.Machine() || m.ServiceAccount) {
		err = fault.New(fault.NotFound, "Member not found")
	}
	return m.Email, err
}

func peopleOf(ctx context.Context, q store.Querier, orgID, entryID string) ([]Person, error) {
	o, err := ownersOf(ctx, q, orgID, entryID)
	if err != nil || len(o.Teams) == 0 {
		return o.Users, err
	}
	teams := make([]string, len(o.Teams))
	for i, t := range o.Teams {
		teams[i] = t.ID
	}
	members, err := membersOf(ctx, q, orgID, teams)
	all := slices.Concat(o.Users, members)
	sortPeople(all)
	return slices.Compact(all), err
}

func ownersOf(ctx context.Context, q store.Querier, orgID, entryID string) (o Owners, err error) {
	if o.Users, err = manualUsers(ctx, q, orgID, entryID); err != nil {
		return o, err
	}
	if o.Teams, err = manualTeams(ctx, q, orgID, entryID); err != nil {
		return o, err
	}
	file, err := codeownersOf(ctx, q, orgID, entryID)
	if fault.Is(err, fault.NotFound) {
		err = nil
	} else if err == nil {
		o.File = &file
	}
	switch {
	case err != nil:
		return o, err
	case len(o.Users)+len(o.Teams) > 0:
		o.Source = Manual
		return o, nil
	case o.File == nil || len(o.File.Owners) == 0:
		o.Source = None
		return o, nil
	}
	o.Source = File
	return o, o.resolve(ctx, q, orgID)
}

// resolve finds the members and teams that the file names. Teams and members that come
// later count from then on.
func (o *Owners) resolve(ctx context.Context, q store.Querier, orgID string) (err error) {
	slugs, emails := []string{}, []string{}
	for _, owner := range o.File.Owners {
		if team, ok := ownerTeam(owner); ok {
			slugs = append(slugs, team)
		} else if email, ok := ownerAddress(owner); ok {
			emails = append(emails, email)
		}
	}
	if o.Teams, err = teamsBySlug(ctx, q, orgID, slugs); err != nil {
		return err
	}
	if o.Users, err = peopleByEmail(ctx, q, orgID, emails); err != nil {
		return err
	}
	for _, owner := range o.File.Owners {
		team, isTeam := ownerTeam(owner)
		email, _ := ownerAddress(owner)
		known := isTeam && slices.ContainsFunc(o.Teams, func(t Team) bool { return t.Slug == team }) ||
			slices.ContainsFunc(o.Users, func(p Person) bool { return p.Email == email })
		if !known {
			o.Unknown = append(o.Unknown, owner)
		}
	}
	return nil
}

// A Selection names owners by their ids.
type Selection struct {
	Users, Teams []string
}

// Find returns the ids of owners that are written as people write them: members by their
// address, teams as "@docs" or "@acme/docs". A name that is neither is fault.Invalid.
func (s *Service) Find(ctx context.Context, orgID string, names []string) (n Selection, err error) {
	if len(names) > 2*MaxOwners {
		return n, fault.Invalid("owners", "at most %d can be named at once", 2*MaxOwners)
	}
	slugs, emails := []string{}, []string{}
	for _, name := range names {
		if team, ok := strings.CutPrefix(strings.ToLower(name), "@"); ok {
			slugs = append(slugs, team[strings.LastIndexByte(team, '/')+1:])
		} else {
			emails = append(emails, strings.ToLower(name))
		}
	}
	found, err := teamsBySlug(ctx, s.DB, orgID, slugs)
	if err != nil {
		return n, err
	}
	people, err := peopleByEmail(ctx, s.DB, orgID, emails)
	if err != nil {
		return n, err
	}
	for _, slug := range slugs {
		i := slices.IndexFunc(found, func(t Team) bool { return t.Slug == slug })
		if i < 0 {
			return n, fault.Invalid("owners", "no team is called @%s", text.Ellipsis(slug, 60))
		}
		n.Teams = append(n.Teams, found[i].ID)
	}
	for _, email := range emails {
		i := slices.IndexFunc(people, func(p Person) bool { return p.Email == email })
		if i < 0 {
			return n, fault.Invalid("owners", "no member who is a person has the address %s", quote(email))
		}
		n.Users = append(n.Users, people[i].ID)
	}
	return n, nil
}

// SetOwners replaces the owners of an entry that were set by hand. None at all leaves it
// to the file of the repository, if there is one. Ids that are not of the organisation
// are fault.Invalid.
func (s *Service) SetOwners(ctx context.Context, orgID, entryID string, n Selection) (o Owners, err error) {
	defer fault.Wrap(&err, "owners of entry %s", entryID)
	if _, err := s.Registry.Own(ctx, orgID, entryID); err != nil {
		return o, err
	}
	if err := s.checkSelection(ctx, orgID, n); err != nil {
		return o, err
	}
	n.Users = slices.Compact(slices.Sorted(slices.Values(n.Users)))
	n.Teams = slices.Compact(slices.Sorted(slices.Values(n.Teams)))
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, orgID, entryID)
		if err != nil {
			return err
		}
		// They may have been deleted since.
		locked, err := lockTeams(ctx, tx, orgID, n.Teams)
		if err != nil {
			return err
		}
		n.Teams = locked
		before, err := ownersOf(ctx, tx, orgID, entryID)
		if err != nil {
			return err
		}
		if err := replaceOwners(ctx, tx, orgID, entryID, n); err != nil {
			return err
		}
		if o, err = ownersOf(ctx, tx, orgID, entryID); err != nil {
			return err
		}
		return e.Record(ctx, tx, "teams.owners.set", audit.Detail{
			"users": addresses(o.Users), "teams": slugs(o.Teams), "source": o.Source,
			"from_users": addresses(before.Users), "from_teams": slugs(before.Teams), "from_source": before.Source,
		})
	})
	return o, err
}

func (s *Service) checkSelection(ctx context.Context, orgID string, n Selection) error {
	if len(n.Users) > MaxOwners || len(n.Teams) > MaxOwners {
		path := "users"
		if len(n.Teams) > MaxOwners {
			path = "teams"
		}
		return fault.Invalid(path, "%s must have at most %d ids; make a team of them", path, MaxOwners)
	}
	known, err := s.people(ctx, orgID)
	if err != nil {
		return err
	}
	issues := unknownUsers(known, n.Users)
	teams, err := knownTeams(ctx, s.DB, orgID, n.Teams)
	for i, id := range n.Teams {
		if !slices.Contains(teams, id) {
			issues = append(issues, fault.At(at("teams", i), "teams must be ids of teams of the organisation; %s is not",
				quote(id)))
		}
	}
	if err == nil && len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return err
}

// ReadOwners implements repohost.Owners. A file that is too large has no owners, as on
// GitHub.
func (s *Service) ReadOwners(
	ctx context.Context, c repohost.Connection, commit string, file func(path string, limit int64) ([]byte, error),
) error {
	r := Reading{
		ConnectionID: c.ID, OrgID: c.OrgID, EntryID: c.EntryID, Repository: c.RepoFullName, Commit: commit,
		SkillPath: c.SkillPath,
	}
	for _, path := range []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"} {
		content, err := file(path, maxCodeowners)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil && !fault.Is(err, fault.TooLarge) {
			return err
		}
		r.Path, r.Text = path, string(content)
		break
	}
	return s.ReadCodeowners(ctx, r)
}

// A Reading is a CODEOWNERS file of a repository, at a commit.
type Reading struct {
	ConnectionID, OrgID, EntryID string
	Repository, Commit           string
	SkillPath                    string // the folder of the skill; "." for the root
	Path, Text                   string // of the file; "": the repository has none
}

// ReadCodeowners stores what the file of a connection's repository says about its entry:
// the owners of its SKILL.md. It invites nobody.
func (s *Service) ReadCodeowners(ctx context.Context, r Reading) (err error) {
	defer fault.Wrap(&err, "owners of entry %s by %s", r.EntryID, r.Path)
	n := Codeowners{
		ConnectionID: r.ConnectionID, OrgID: r.OrgID, EntryID: r.EntryID, Repository: r.Repository, Commit: r.Commit,
		Path: r.Path, Owners: []string{}, ReadAt: store.Now(),
	}
	if rule, ok := matchOwners(parseCodeowners(r.Text), strings.TrimPrefix(r.SkillPath+"/SKILL.md", "./")); ok {
		n.Line, n.Pattern = rule.Line, rule.Pattern
		n.Owners = append(n.Owners, rule.Owners...)
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, r.OrgID, r.EntryID)
		if err != nil {
			return err
		}
		before, err := codeownersOfConnection(ctx, tx, r.OrgID, r.ConnectionID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if r.Path == "" {
			err = deleteCodeowners(ctx, tx, n)
		} else {
			err = upsertCodeowners(ctx, tx, n)
		}
		if err != nil || slices.Equal(before.Owners, n.Owners) {
			return err
		}
		return e.Record(ctx, tx, "teams.owners.read", audit.Detail{
			"repository": n.Repository, "commit": n.Commit, "file": n.Path, "owners": n.Owners, "from": before.Owners,
		})
	})
}

func at(field string, i int) string { return field + "." + strconv.Itoa(i) }

// quote shows a user's text in a message.
func quote(s string) string { return fmt.Sprintf("%q", text.Ellipsis(s, 60)) }

func addresses(people []Person) []string {
	all := make([]string, len(people))
	for i, p := range people {
		all[i] = p.Email
	}
	return all
}

func slugs(teams []Team) []string {
	all := make([]string, len(teams))
	for i, t := range teams {
		all[i] = t.Slug
	}
	return all
}
