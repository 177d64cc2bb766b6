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
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// A Source is where the owners of an entry come from.
type Source string

// The sources.
const (
	Manual Source = "manual"     // set through the API; overrides the file
	File   Source = "codeowners" // the CODEOWNERS file of the connected repository
	None   Source = "none"       // only roles decide
)

// Owners are the people and teams that own an entry.
type Owners struct {
	Source Source
	Users  []Person // by address
	Teams  []Team   // by slug
	// Unknown are the owners in the file that are neither members nor teams here, as
	// written, e.g. "@acme/docs". A person sees from them which line to correct.
	Unknown []string
	// File is what the CODEOWNERS file contains, even when owners set by hand override
	// it; nil if there is no file.
	File *Codeowners
}

// A Codeowners is the rule in a repository's CODEOWNERS file that applies to an entry.
type Codeowners struct {
	ConnectionID string
	OrgID        string
	EntryID      string
	Repository   string   // e.g. "acme/skills"
	Commit       string   // at which the file was read
	Path         string   // of the file, e.g. ".github/CODEOWNERS"
	Line         int      // of the rule that applies, from 1; 0 if none does
	Pattern      string   // of the rule
	Owners       []string // as written, e.g. "@acme/docs"
	ReadAt       time.Time
}

// OwnersOf returns the owners of an entry of the organisation. An entry that doesn't
// exist is fault.NotFound; one without owners is not an error (Source is None).
func (s *Service) OwnersOf(ctx context.Context, orgID, entryID string) (Owners, error) {
	e, err := s.Registry.Own(ctx, orgID, entryID)
	if err != nil {
		return Owners{}, err
	}
	return ownersOf(ctx, s.DB, e.OrgID, e.ID)
}

// Ownership reads who owns entries. It needs no registry, so that the registry can be given it.
type Ownership struct{ DB *store.DB }

// Owns reports whether a user owns an entry, directly or as a member of a team. It is
// false, not an error, for an entry that doesn't exist.
func (o Ownership) Owns(ctx context.Context, orgID, entryID, userID string) (bool, error) {
	people, err := o.People(ctx, orgID, entryID)
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == userID }), err
}

// MayAsOwner reports whether the caller may act as an owner of the entry, beyond what
// their role allows. A key with narrowed permissions never gains any this way: whoever
// restricted it meant to.
func (o Ownership) MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.Narrowed() || entryID == "" {
		return false, nil
	}
	return o.Owns(ctx, c.OrgID, entryID, c.UserID)
}

// MayAsOwner is that of Ownership.
func (s *Service) MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	return Ownership{s.DB}.MayAsOwner(ctx, c, entryID)
}

// Owned reports whether an entry has owners, from either source.
func (*Service) Owned(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error) {
	o, err := ownersOf(ctx, q, orgID, entryID)
	return o.Source != None, err
}

// OwnsAs implements gates.Owners: it is MayAsOwner inside the caller's transaction, so
// that the answer agrees with what the transaction writes.
func (s *Service) OwnsAs(ctx context.Context, q store.Querier, c access.Caller, entryID string) (bool, error) {
	if c.Narrowed() {
		return false, nil
	}
	people, err := peopleOf(ctx, q, c.OrgID, entryID)
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == c.UserID }), err
}

// People returns everyone who owns an entry, directly or through a team, each once and
// sorted by address.
func (o Ownership) People(ctx context.Context, orgID, entryID string) ([]Person, error) {
	return peopleOf(ctx, o.DB, orgID, entryID)
}

// MayApprove reports whether someone may approve versions of the entry. Once an entry has
// owners only they may; until then admins do, so that an entry is never stuck without an
// approver.
func (s *Service) MayApprove(ctx context.Context, q store.Querier, entryID string, who access.Caller) (bool, error) {
	people, err := peopleOf(ctx, q, who.OrgID, entryID)
	if err != nil || len(people) == 0 {
		return who.Role.Includes(access.AdminRole), err
	}
	return slices.ContainsFunc(people, func(p Person) bool { return p.ID == who.UserID }), nil
}

// OwnersOfSkill returns the ids of everyone who owns the entry of a skill, sorted by
// address. A skill that isn't in the registry has no owners, which is not an error.
func (s *Service) OwnersOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) ([]string, error) {
	entryID, err := registry.IDOfSkill(ctx, q, orgID, skillID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	people, err := peopleOf(ctx, q, orgID, entryID)
	return ids(people), err
}

// MailAddress returns the address of a member to notify. Removed members, service
// accounts and holders of machine keys are fault.NotFound: none of them reads mail.
func (s *Service) MailAddress(ctx context.Context, orgID, userID string) (string, error) {
	m, err := s.Auth.Member(ctx, orgID, userID)
	if err == nil && (m.RemovedAt != nil || m.Machine() || m.ServiceAccount) {
		err = fault.New(fault.NotFound, "Member not found")
	}
	return m.Email, err
}

// peopleOf flattens owners into people: members of owning teams count like owners.
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
	// A person can be an owner and a member of several owning teams.
	return slices.Compact(all), err
}

// ownersOf applies the precedence: owners set by hand, then the CODEOWNERS file. A file
// whose rule has no owners is the same as no file.
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

// resolve maps the owners in the file to members and teams. It runs on every read instead
// of when the file is stored, so that a member who joins later, or a team created later,
// becomes an owner without another push.
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

// A Selection is a choice of owners by id.
type Selection struct {
	Users, Teams []string
}

// Find turns names as people type them on the command line into ids: members by mail
// address, teams as "@docs" or "@acme/docs". An unknown name is fault.Invalid.
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

// SetOwners replaces the owners that were set by hand. An empty selection hands the entry
// back to the CODEOWNERS file, if there is one. Ids that don't belong to the organisation
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
		// A team may have been deleted since checkSelection. It's dropped silently: its
		// owner row would be deleted with it anyway.
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

// LockTeams returns which teams still exist, and keeps these from being deleted until the
// transaction ends.
func (*Service) LockTeams(ctx context.Context, tx *store.Tx, orgID string, ids []string) ([]string, error) {
	return lockTeams(ctx, tx, orgID, ids)
}

// checkSelection validates ids outside the transaction, which may be retried.
func (s *Service) checkSelection(ctx context.Context, orgID string, n Selection) error {
	if len(n.Users) > MaxOwners || len(n.Teams) > MaxOwners {
		path := "users"
		if len(n.Teams) > MaxOwners {
			path = "teams"
		}
		return fault.Invalid(path, "%s must have at most %d ids; make a team of them", path, MaxOwners)
	}
	issues, err := s.Unknown(ctx, orgID, n)
	if err == nil && len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return err
}

// Unknown returns an issue for each id that isn't a person or a team of the organisation.
func (s *Service) Unknown(ctx context.Context, orgID string, n Selection) (issues []fault.Issue, err error) {
	if len(n.Users) > 0 {
		known, err := s.people(ctx, orgID)
		if err != nil {
			return nil, err
		}
		issues = unknownUsers(known, n.Users)
	}
	teams, err := knownTeams(ctx, s.DB, orgID, n.Teams)
	for i, id := range n.Teams {
		if !slices.Contains(teams, id) {
			issues = append(issues, fault.At(at("teams", i), "teams must be ids of teams of the organisation; %s is not",
				quote(id)))
		}
	}
	return issues, err
}

// ReadOwners implements repohost.Owners: it reads the CODEOWNERS file of a commit through
// file and stores what applies to the entry. A file over the limit counts as one without
// owners, as on GitHub, and still hides those at later paths.
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
		// For a file that is too large the content is empty, which parses to no rules.
		r.Path, r.Text = path, string(content)
		break
	}
	return s.ReadCodeowners(ctx, r)
}

// A Reading is the CODEOWNERS file of a repository as of one commit.
type Reading struct {
	ConnectionID, OrgID, EntryID string
	Repository, Commit           string
	SkillPath                    string // the folder of the skill; "." for the root
	Path, Text                   string // of the file; "" if the repository has none
}

// ReadCodeowners stores which rule of the file applies to the entry, judged by the path
// of its SKILL.md. Unknown addresses aren't invited: a file in a repository must not
// create users. An audit entry is written only when the owners change, not for every
// push.
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

// at is the path of an element for an error, e.g. "users.3".
func at(field string, i int) string { return field + "." + strconv.Itoa(i) }

// quote prepares user input for an error message, at a bounded length.
func quote(s string) string { return fmt.Sprintf("%q", text.Ellipsis(s, 60)) }

// addresses and slugs make ids readable in the audit log.
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
