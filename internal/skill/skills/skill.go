// Package skills holds the skills of organisations, the observations of their
// use, and the metrics computed from them. All capabilities share it. It owns
// the tables skills, skill_observations, skill_aliases, skill_gradings,
// skill_session_days, skill_session_grades, skill_days and skill_totals.
//
// Metrics are rollups: an observation is inserted once (dedup by its natural
// key), and only then added to the counters per day and per session. Reads touch
// counters only, so that their cost does not grow with history.
package skills

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// MaxName is the longest name of a skill, in bytes.
const MaxName = 200

// Placeholder reports whether a name is one that producers send instead of the
// real one, e.g. "custom_skill". Such a name never becomes a skill.
func Placeholder(name string) bool {
	switch strings.TrimSpace(name) {
	case "", "custom_skill", "third-party":
		return true
	}
	return false
}

// CleanName trims and validates the name of a skill.
func CleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if Placeholder(name) || len(name) > MaxName || !text.Valid(name) {
		return "", fault.Invalid("skill_name", "skill_name must be a skill's own name of 1 to %d bytes", MaxName)
	}
	return name, nil
}

// Resolve returns the id of the organisation's skill with the name, and creates
// the skill if it is new. It confirms the name, e.g. since it is in the registry.
// An invalid name is a validation error, one that is merged into another skill a
// conflict: that skill has what is reported of it.
func Resolve(ctx context.Context, tx *store.Tx, orgID, name string) (id string, err error) {
	defer fault.Wrap(&err, "skill %q", name)
	name, err = CleanName(name)
	if err != nil {
		return "", err
	}
	known, err := ensureSkills(ctx, tx, orgID, map[string]bool{name: true})
	if k := known[name]; err == nil && k.countsFor != k.id {
		err = fault.New(fault.Conflict, "The skill %s is merged into another one; unmerge it first", name)
	}
	return known[name].id, err
}

// Confirm lists a skill from now on, e.g. since it has a source.
func Confirm(ctx context.Context, tx *store.Tx, id string) error {
	return confirmSkills(ctx, tx, []string{id})
}

// ResolveUnconfirmed returns the ids of the skills that names count for, and
// creates those that are new, without confirming them: to name a skill is no use
// of it. The names must be clean (see CleanName).
func ResolveUnconfirmed(ctx context.Context, tx *store.Tx, orgID string, names []string) (map[string]string, error) {
	unconfirmed := make(map[string]bool, len(names))
	for _, name := range names {
		unconfirmed[name] = false
	}
	known, err := ensureSkills(ctx, tx, orgID, unconfirmed)
	ids := make(map[string]string, len(known))
	for name, k := range known {
		ids[name] = k.countsFor
	}
	return ids, err
}
