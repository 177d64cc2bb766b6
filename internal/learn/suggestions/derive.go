package suggestions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// maxSuggestions is how many suggestions a source keeps: the best. A person can't review more, and
// the table stays small.
const maxSuggestions = 10_000

// Derive replaces the suggestions of a source with those that its telemetry,
// runs and suites give reason for now. The evidence is read before the
// transaction, which keeps the lock on the source short. The watermark
// SuggestedAt orders concurrent derivations: the one that began later wins.
// It is not an error if the source was deleted meanwhile.
func (s *Service) Derive(ctx context.Context, orgID, sourceID string) (err error) {
	defer fault.Wrap(&err, "suggestions of source %s", sourceID)
	began := store.Now()
	src, err := s.Sources.Get(ctx, orgID, sourceID)
	if fault.Is(err, fault.NotFound) || err == nil && src.Type == sources.Pull {
		return nil // a pull request gets no suggestions
	}
	if err != nil {
		return err
	}
	found, err := s.collect(ctx, src)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := s.Sources.Lock(ctx, tx, orgID, sourceID)
		if fault.Is(err, fault.NotFound) || err == nil && src.SuggestedAt.After(began) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Sources.SetSuggestedAt(ctx, tx, src, began); err != nil {
			return err
		}
		return replaceSuggestions(ctx, tx, src, found)
	})
}

// collect reads the evidence and returns the suggestions, the best first. A suite's cases are
// removed from what telemetry suggests, and those that fail in runs are added again.
func (s *Service) collect(ctx context.Context, src sources.Source) ([]Suggestion, error) {
	e := evidence{}
	if src.SkillID != nil {
		prompts, err := telemetry.ConsideredPrompts(ctx, s.DB, src.OrgID, *src.SkillID)
		if err != nil {
			return nil, err
		}
		for _, p := range prompts {
			e.addPrompt(p)
		}
	}
	cases, err := s.Suites.Cases(ctx, s.DB, src.OrgID, src.ID)
	if err != nil {
		return nil, err
	}
	// A case that is in a suite already is suggested only when a run fails on
	// it, so failures are added after the cases are removed.
	for _, raw := range cases {
		if key, ok := parseTriggerCase(raw); ok {
			delete(e, key)
		}
	}
	failed, err := runs.FailedCases(ctx, s.DB, src.OrgID, src.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range failed {
		c := e.of(f.Query, f.ShouldTrigger)
		// The text of the run is shown: it's the case's, whereas telemetry only has prompts like
		// it.
		c.query = f.Query
		c.mode = cmp.Or(f.Invocation, c.mode)
		p := RunFailure
		if f.Regression {
			p = RunRegression
		}
		c.add(p, f.Failed, f.Runs, &f.LastAt)
	}
	return e.suggestions(src.ID), nil
}

// evidence aggregates what was observed, by case.
type evidence map[caseKey]*caseEvidence

// caseEvidence is what was observed of one case. The prompts themselves aren't copied: ref is read
// when the suggestion is shown, so that deleted texts disappear.
type caseEvidence struct {
	tallies map[Provenance]*tally
	// ref names the newest prompt that went wrong, query is a run's.
	ref    string
	newest time.Time
	mode   string
	query  string
}

// A tally counts how often a case went wrong in one way. observed is the denominator of the
// confidence.
type tally struct {
	wrong, observed int
	last            time.Time
}

// of returns what was observed of a query, adding it if necessary.
func (e evidence) of(query string, shouldTrigger bool) *caseEvidence {
	key := caseKey{normalize(query), shouldTrigger}
	if e[key] == nil {
		e[key] = &caseEvidence{tallies: map[Provenance]*tally{}}
	}
	return e[key]
}

// add sums the counts of several prompts with the same key.
func (c *caseEvidence) add(p Provenance, wrong, observed int, last *time.Time) {
	if c.tallies[p] == nil {
		c.tallies[p] = &tally{}
	}
	t := c.tallies[p]
	t.wrong += wrong
	t.observed += observed
	if last != nil && last.After(t.last) {
		t.last = *last
	}
}

// addPrompt counts a prompt that went well, too: it lowers the share of those
// that went wrong.
func (e evidence) addPrompt(p telemetry.ConsideredPrompt) {
	c := e.of(p.Text, true)
	c.add(MissedQuery, p.Missed, p.Checks, p.LastMissedAt)
	c.add(FailedEvaluation, p.Failed, p.Graded, p.LastFailedAt)
	// The newest prompt that went wrong is shown, as it's the likeliest to be remembered.
	for _, at := range []*time.Time{p.LastMissedAt, p.LastFailedAt} {
		if at == nil || c.ref != "" && !at.After(c.newest) {
			continue
		}
		c.ref, c.newest, c.mode = p.Ref, *at, ""
		// Other modes say how the producer learned of a call, not how the
		// skill was called.
		if p.Mode == "explicit" || p.Mode == "implicit" {
			c.mode = p.Mode
		}
	}
}

// suggestions ranks the cases that went wrong, best first, and truncates the
// list to maxSuggestions.
func (e evidence) suggestions(sourceID string) []Suggestion {
	all := []Suggestion{}
	for key, c := range e {
		if key.query == "" {
			continue
		}
		if s, ok := c.suggestion(suggestionID(sourceID, key), key.shouldTrigger); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.ObservedCount, a.ObservedCount),
			b.LastObservedAt.Compare(a.LastObservedAt), cmp.Compare(b.ID, a.ID))
	})
	// The id is the last key, so that the order of equals, and with it the pages of
	// the API, is the same in every derivation.
	return all[:min(len(all), maxSuggestions)]
}

// suggestion sums up a case; ok is false if nothing went wrong. Its provenance
// is the one with the most failures. Confidence is over all of them together: a case with several
// kinds of failures is surer to be worth a test.
func (c *caseEvidence) suggestion(id string, shouldTrigger bool) (s Suggestion, ok bool) {
	s = Suggestion{ID: id, ShouldTrigger: shouldTrigger}
	observed, most := 0, 0
	for _, p := range []Provenance{RunRegression, RunFailure, FailedEvaluation, MissedQuery} {
		t := c.tallies[p]
		if t == nil || t.wrong == 0 {
			continue
		}
		s.ObservedCount += t.wrong
		observed += max(t.observed, t.wrong)
		if t.last.After(s.LastObservedAt) {
			s.LastObservedAt = t.last
		}
		if t.wrong > most {
			most = t.wrong
			s.Provenance, s.Rationale = p, p.rationale(*t)
		}
	}
	if s.ObservedCount == 0 {
		return s, false
	}
	s.Confidence, _ = stats.Wilson(float64(s.ObservedCount)/float64(observed), observed)
	if s.Provenance.evidence() == HostedRun {
		s.Query = c.query
	} else {
		s.Ref = &c.ref
	}
	if shouldTrigger && c.mode != "" {
		s.InvocationType = &c.mode
	}
	return s, true
}

func (p Provenance) rationale(t tally) string {
	switch p {
	case MissedQuery:
		return fmt.Sprintf("The skill did not fire in %d of %d observations of this query.", t.wrong, t.observed)
	case FailedEvaluation:
		return fmt.Sprintf("The session failed in %d of %d gradings after this query.", t.wrong, t.observed)
	case RunRegression:
		return "The case passed in the run before and fails now."
	case RunFailure:
		return fmt.Sprintf("The case failed in %d of %d runs.", t.wrong, t.observed)
	}
	return ""
}
