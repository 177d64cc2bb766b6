package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// Router is the version of the router that Routing is computed by.
const Router = judge.BuiltinModel

// The file by which a skill tells Codex not to use it by itself.
const (
	PolicyPath = "agents/openai.yaml"
	PolicyFile = "policy:\n  allow_implicit_invocation: false\n"
)

// A Selection is a page of the skills of a report.
type Selection struct {
	Search        string // in names, ignoring case
	Show          string // all, cut, unused, switch_off; "" is all
	Sort          string // name, -tokens, -cut, uses; "" is name
	Limit, Offset int
}

// Select returns a page of the skills and the number of all that match. Sorting is
// stable with the name as the last key, so that pages do not overlap.
func (r *Report) Select(sel Selection) (page []Skill, total int) {
	search := strings.ToLower(sel.Search)
	all := slices.DeleteFunc(slices.Clone(r.Skills), func(k Skill) bool {
		switch {
		case !strings.Contains(strings.ToLower(k.Name), search):
			return true
		case sel.Show == "cut":
			return k.cut() == 0
		case sel.Show == "unused":
			return k.Use != Unused
		case sel.Show == "switch_off":
			return k.Action == listing.On
		}
		return false
	})
	slices.SortStableFunc(all, func(a, b Skill) int {
		byName := cmp.Compare(a.Name, b.Name)
		switch sel.Sort {
		case "-tokens":
			return cmp.Or(cmp.Compare(tokensOf(b), tokensOf(a)), byName)
		case "-cut":
			return cmp.Or(cmp.Compare(b.cut(), a.cut()), byName)
		case "uses":
			return cmp.Or(cmp.Compare(a.Uses, b.Uses), byName)
		}
		return byName
	})
	from := min(sel.Offset, len(all))
	return all[from:min(from+sel.Limit, len(all))], len(all)
}

// cut is how many characters of its description the model does not see. A hidden one
// was hidden on purpose, so nothing of it is lost.
func (k Skill) cut() int {
	if k.Line.Form == listing.Hidden {
		return 0
	}
	return utf8.RuneCountInString(k.Line.Text) - k.Line.Kept
}

// Settings is the part of settings.json of Claude Code that switches skills off.
func (s SwitchOff) Settings() (string, error) {
	raw, err := json.MarshalIndent(settingsOutput{SkillOverrides: s.Overrides}, "", "  ")
	return string(raw), err
}
