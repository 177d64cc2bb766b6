package grades

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A failure is one reason why a grade failed.
type failure struct {
	key   string // those with the same one are one group
	label string
}

// The kinds of failures, which begin their keys.
const (
	byExpectation = "expectation:" // that the judge found unmet
	byTool        = "tool:"        // that failed
	byOutcome     = "outcome:"     // that was bad
	byReason      = "reason:"      // that a person gave
)

// maxLabel is how many characters of a reason or an expectation a group shows.
const maxLabel = 200

// reasons returns why a grade failed; none if it passed.
func (g grade) reasons() []failure {
	if g.passed {
		return nil
	}
	var all []failure
	for _, e := range g.evidence {
		if !e.Passed && g.basis == basis.Judge {
			all = append(all, newFailure(byExpectation, e.Expectation))
		}
	}
	switch {
	case g.reason != nil:
		all = append(all, newFailure(byReason, *g.reason))
	case g.basis == basis.Person:
		all = append(all, failure{byReason, "No reason given"})
	}
	return all
}

// newFailure groups texts that say the same apart from case, numbers, paths and
// what is quoted.
func newFailure(kind, said string) failure {
	s := variable.ReplaceAllString(strings.ToLower(said), " # ")
	s = strings.TrimSpace(notWord.ReplaceAllString(s, " "))
	return failure{kind + skills.ID("", "", kind, s), text.Ellipsis(text.PlainLine(said), maxLabel)}
}

var (
	variable = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|'[^' ]*'" + // quoted
		`|(?:[\w.~-]*/)+[\w.-]*|\b[\w-]+\.[a-z]{1,5}\b` + // paths, names of files
		`|\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\d+`) // ids, numbers
	notWord = regexp.MustCompile(`[^\p{L}\p{N}#]+`)
)

// A Group is sessions of a skill that failed for the same reason.
type Group struct {
	Key      string
	Reason   string // of one of them
	Label    string // a few words of the judge; "" without one
	Count    int64  // sessions
	Sessions []string
	LastAt   time.Time
}

// Title returns what to call the group.
func (g Group) Title() string { return cmp.Or(g.Label, g.Reason) }

// The limits of an answer.
const (
	maxGroups   = 50
	maxExamples = 5
)

// Failures returns why sessions of a skill failed in the last days, today included,
// the most frequent reason first. Only grades that count are considered.
func (s *Service) Failures(ctx context.Context, orgID, idOrName string, days int) (groups []Group, err error) {
	defer fault.Wrap(&err, "failures of skill %q", idOrName)
	k, err := s.Skills.Get(ctx, orgID, idOrName)
	if err != nil {
		return nil, err
	}
	start := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	if groups, err = failureGroups(ctx, s.DB, k.ID, start); err != nil || len(groups) == 0 {
		return groups, err
	}
	examples, err := failureExamples(ctx, s.DB, k.ID, start, groups)
	if err != nil {
		return nil, err
	}
	found, err := s.Sessions.ByID(ctx, slices.Concat(slices.Collect(maps.Values(examples))...))
	if err != nil {
		return nil, err
	}
	labels, err := labelsOf(ctx, s.DB, k.ID, groups)
	for i, g := range groups {
		for _, id := range examples[g.Key] {
			if session, ok := found[id]; ok {
				groups[i].Sessions = append(groups[i].Sessions, session.SessionID)
			}
		}
		groups[i].Label = labels[g.Key]
	}
	return groups, err
}
