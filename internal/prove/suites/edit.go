package suites

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// An Edit is one change of a suite.
type Edit struct {
	By string // id of a user
	At time.Time
	EditedCases
}

// EditedCases are the names of the cases that a change was about. It is stored as JSON.
type EditedCases struct {
	Added    []string `json:"added,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	Changed  []string `json:"changed,omitempty"`
	Settings []string `json:"settings,omitempty"` // of the suite, e.g. "verifier_kind"
}

// compare returns how a suite was changed. Cases are matched by their ids.
func compare(before, after Suite) (e EditedCases) {
	was, is := byID(before), byID(after)
	for _, c := range after.Cases {
		if old, ok := was[c.ID]; !ok {
			e.Added = append(e.Added, c.Label())
		} else if !maps.EqualFunc(old.Fields, is[c.ID].Fields, slices.Equal[json.RawMessage]) {
			e.Changed = append(e.Changed, c.Label())
		}
	}
	for _, c := range before.Cases {
		if _, ok := is[c.ID]; !ok {
			e.Removed = append(e.Removed, c.Label())
		}
	}
	if before.ID == "" || after.OrgID == "" {
		return e // created or deleted
	}
	for name, differ := range map[string]bool{
		"name": before.Name != after.Name, "verifier_kind": before.VerifierKind != after.VerifierKind,
		"supports_no_skill":    before.SupportsNoSkill != after.SupportsNoSkill,
		"resource_limits_json": !slices.Equal(before.ResourceLimits, after.ResourceLimits),
	} {
		if differ {
			e.Settings = append(e.Settings, name)
		}
	}
	slices.Sort(e.Settings)
	return e
}

func byID(s Suite) map[string]Case {
	all := make(map[string]Case, len(s.Cases))
	for _, c := range s.Cases {
		all[c.ID] = c
	}
	return all
}
