// Package skills knows what a skill is, one per organisation and name, what
// was observed of it, and how well it does. It is the noun that all
// capabilities share. It owns the tables skills, skill_observations,
// skill_aliases, skill_gradings, skill_session_days, skill_session_grades,
// skill_days and skill_totals.
package skills

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// MaxName is the longest name of a skill, in bytes.
const MaxName = 200

// Placeholder reports whether a producer uses the name to hide the real one.
// Such a name never becomes a skill.
func Placeholder(name string) bool {
	switch strings.TrimSpace(name) {
	case "", "custom_skill", "third-party":
		return true
	}
	return false
}

// CleanName returns a name as skills are known by it, or a validation error if
// it cannot be a skill's.
func CleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if Placeholder(name) || len(name) > MaxName || !text.Valid(name) {
		return "", fault.Invalid("skill_name", "skill_name must be a skill's own name of 1 to %d bytes", MaxName)
	}
	return name, nil
}

// Resolve returns the id of the organisation's skill of that name, which is
// made if it is new. A name that cannot be a skill's is a validation error.
func Resolve(ctx context.Context, tx *store.Tx, orgID, name string) (id string, err error) {
	defer fault.Wrap(&err, "skill %q", name)
	name, err = CleanName(name)
	if err != nil {
		return "", err
	}
	return ensureSkill(ctx, tx, orgID, name)
}
