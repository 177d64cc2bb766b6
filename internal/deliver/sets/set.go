// Package sets lets an organisation say which skills its teams and projects should have, gives
// each of them a catalog with just these, and says who lacks what. It owns the tables sets,
// set_entries, set_teams and set_owners.
package sets

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/glob"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Limits of a set; the API's schema states them, too.
const (
	MaxName         = 64
	MaxDescription  = 500 // characters
	MaxEntries      = 200
	MaxTeams        = 100
	MaxRepositories = 100
	maxSets         = 1_000 // per organisation
	maxRepository   = 200   // bytes
)

// A Set is a list of skills that teams and projects should have.
type Set struct {
	ID           string
	OrgID        string
	Name         string // e.g. "docs-team"; unique in the organisation
	Description  string
	Entries      []Entry
	Teams        []string // ids
	Repositories []string // patterns, e.g. "acme/*"
	Required     bool
	Owners       teams.Selection
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// An Entry is a skill of a set.
type Entry struct {
	registry.Wanted
	// Pick is what the set gives; its VersionID is "" if nothing is published in the range.
	Pick registry.Pick
}

// A New describes a set as people ask for it.
type New struct {
	Name         string
	Description  string
	Entries      []NewEntry
	Teams        []string
	Repositories []string
	Required     bool
	Owners       *teams.Selection // nil: who made it, or whoever owns it already
}

// A NewEntry names an entry by id or by name.
type NewEntry struct{ EntryID, Name, Range string }

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// check normalises what people ask for, and reports what is wrong with it before anything is
// looked up.
func (n *New) check() (issues []fault.Issue) {
	refuse := func(path, format string, args ...any) { issues = append(issues, fault.At(path, format, args...)) }
	if len(n.Name) > MaxName || !validName.MatchString(n.Name) {
		refuse("name", "name must be 1 to %d lower-case letters, digits and single dashes, e.g. docs-team", MaxName)
	}
	n.Description = strings.TrimSpace(n.Description)
	if utf8.RuneCountInString(n.Description) > MaxDescription || !text.Valid(n.Description) {
		refuse("description", "description must have at most %d characters", MaxDescription)
	}
	for _, list := range []struct {
		field string
		n     int
		limit int
	}{
		{"entries", len(n.Entries), MaxEntries},
		{"teams", len(n.Teams), MaxTeams},
		{"repositories", len(n.Repositories), MaxRepositories},
	} {
		if list.n > list.limit {
			refuse(list.field, "%s must be at most %d", list.field, list.limit)
		}
	}
	if n.Owners != nil && max(len(n.Owners.Users), len(n.Owners.Teams)) > teams.MaxOwners {
		refuse("owners", "owners must be at most %d people and %d teams", teams.MaxOwners, teams.MaxOwners)
	}
	for i := range n.Entries {
		e, path := &n.Entries[i], fmt.Sprintf("entries.%d", i)
		if (e.EntryID == "") == (e.Name == "") {
			refuse(path, "%s needs exactly one of entry_id and name", path)
		}
		if e.Range = strings.TrimSpace(e.Range); e.Range == "" {
			continue
		}
		versions, ok := requires.ParseRange(e.Range)
		if !ok {
			refuse(path+".range", "%s.range must be a range of versions, e.g. >= 1.2 < 2", path)
		}
		e.Range = versions
	}
	for i, pattern := range n.Repositories {
		n.Repositories[i] = strings.TrimSuffix(strings.Trim(strings.TrimSpace(pattern), "/"), ".git")
		pattern = n.Repositories[i]
		_, err := glob.Parse(pattern)
		inOwner := strings.Contains(pattern, "/") || strings.Contains(pattern, "**")
		// An address has a colon, and a repository none.
		if err != nil || !inOwner || len(pattern) > maxRepository || text.PlainLine(pattern) != pattern ||
			strings.Contains(pattern, ":") {
			path := fmt.Sprintf("repositories.%d", i)
			refuse(path, "%s must be owner/repo or a glob such as owner/*, without the host", path)
		}
	}
	n.Repositories = slices.Compact(slices.Sorted(slices.Values(n.Repositories)))
	return issues
}

// Covers reports whether checkouts of a repository should have the set. Code hosts ignore the
// case of paths, and so does this.
func (s Set) Covers(repository string) bool {
	path := strings.ToLower(strings.TrimSuffix(strings.Trim(repository, "/"), ".git"))
	return slices.ContainsFunc(s.Repositories, func(pattern string) bool {
		p, err := glob.Parse(strings.ToLower(pattern))
		return err == nil && p.Match(path)
	})
}

// versions are the ids of those that the set gives.
func (s Set) versions() (ids []string) {
	for _, e := range s.Entries {
		if e.Pick.VersionID != "" {
			ids = append(ids, e.Pick.VersionID)
		}
	}
	return ids
}

func (s Set) target() audit.Target { return audit.Target{Kind: "set", ID: s.ID, Name: s.Name} }
