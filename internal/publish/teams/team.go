// Package teams keeps teams of people, and who owns which entry of the registry: people
// and teams that were set by hand, or else those of the CODEOWNERS file of the connected
// repository. Owners of an entry may do with it what their role alone does not allow.
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

// The limits.
const (
	MaxMembers     = 500 // of a team
	MaxOwners      = 50  // people, and teams, of an entry
	maxTeams       = 500 // of an organisation
	maxName        = 100 // characters
	maxDescription = 500 // characters
)

// A Team is a group of members with a name.
type Team struct {
	ID          string
	OrgID       string
	Name        string
	Slug        string // of the name, e.g. "data-platform"
	Description string
	Size        int // members
	CreatedBy   string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// A Person is a member as teams and owners show them.
type Person struct {
	ID, Name, Email string
}

// check normalizes and validates what a user can set, and sets the slug.
func (t *Team) check() error {
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

// slug is a name in lower case, with a dash for everything between its letters and
// digits, as code hosts make the address of a team.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	})
	return strings.Trim(strings.Join(words, "-"), "_")
}

func (t *Team) target() audit.Target { return audit.Target{Kind: "team", ID: t.ID, Name: t.Name} }
