// Package teams lets an organisation group people into teams and say who owns which entry
// of the registry: people and teams set by hand, or else those in the CODEOWNERS file of
// the connected repository. Owners may change and approve their entries beyond what their
// role allows.
//
// It owns the tables teams, team_members, entry_owners and entry_codeowners.
package teams

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

// Limits. They keep every list small enough to load and show whole.
const (
	MaxMembers     = 500 // per team
	MaxOwners      = 50  // people, and as many teams, per entry
	maxTeams       = 500 // per organisation
	maxName        = 100 // characters
	maxDescription = 500 // characters
)

// A Team is a group of members with a name.
type Team struct {
	ID          string
	OrgID       string
	Name        string
	Slug        string // derived from Name, e.g. "data-platform"; unique in the organisation
	Description string
	Size        int // members
	CreatedBy   string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// A Person is a member as teams and owners show them, without role or status.
type Person struct {
	ID, Name, Email string
}

// check normalises and validates the fields a user can set, and derives the slug.
func (t *Team) check() error {
	// A run of spaces would make two names that look alike.
	t.Name = strings.Join(strings.FieldsFunc(t.Name, func(r rune) bool { return r == ' ' }), " ")
	t.Description = strings.TrimSpace(t.Description)
	t.Slug = slug(t.Name)
	var issues []fault.Issue
	switch n := utf8.RuneCountInString(t.Name); {
	case n == 0 || n > maxName || text.PlainLine(t.Name) != t.Name:
		issues = append(issues, fault.At("name", "name must be one line of 1 to %d characters", maxName))
	case t.Slug == "":
		issues = append(issues, fault.At("name", "name must have a letter or a digit"))
	}
	if utf8.RuneCountInString(t.Description) > maxDescription || !text.Valid(t.Description) {
		issues = append(issues, fault.At("description", "description must have at most %d characters", maxDescription))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// slug lower-cases a name and puts a dash for every run of characters that aren't letters
// or digits, as code hosts do for the address of a team: "@acme/data-platform" then means
// the team "Data Platform".
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	})
	return strings.Trim(strings.Join(words, "-"), "_")
}

// target names the team in the audit log.
func (t *Team) target() audit.Target { return audit.Target{Kind: "team", ID: t.ID, Name: t.Name} }
