package sources

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// maxSuggestions is how many a source keeps: the best.
const maxSuggestions = 10_000

// derive makes the suggestions of a source what its telemetry, its runs and
// its suites say now. What is read is read before the transaction, so that
// nobody waits for it; of two derivations at once the one that began later
// wins. A source that is gone is not an error.
func (s *Service) derive(ctx context.Context, orgID, sourceID string) (err error) {
	defer fault.Wrap(&err, "suggestions of source %s", sourceID)
	began := store.Now()
	src, err := own(ctx, s.DB, orgID, sourceID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	suggestions, err := s.collect(ctx, src)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		src, err := lock(ctx, tx, orgID, sourceID)
		if fault.Is(err, fault.NotFound) || err == nil && src.SuggestedAt.After(began) {
			return nil
		}
		if err != nil {
			return err
		}
		src.SuggestedAt = began
		if err := updateSource(ctx, tx, src); err != nil {
			return err
		}
		return replaceSuggestions(ctx, tx, src, suggestions)
	})
}

// collect reads the evidence and returns the suggestions, the best first.
func (s *Service) collect(ctx context.Context, src Source) ([]Suggestion, error) {
	e := evidenceByCase{}
	if src.SkillID != nil {
		prompts, err := s.Prompts.Considered(ctx, s.DB, src.OrgID, *src.SkillID)
		if err != nil {
			return nil, err
		}
		for _, p := range prompts {
			e.addPrompt(p)
		}
	}
	standing, err := s.Suites.Cases(ctx, s.DB, src.OrgID, src.ID)
	if err != nil {
		return nil, err
	}
	for _, raw := range standing {
		if c, ok := readCase(raw); ok {
			delete(e, c) // what a run makes of it comes below
		}
	}
	failures, err := s.Runs.Failures(ctx, s.DB, src.OrgID, src.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		e.addFailure(f)
	}
	return e.suggestions(src.ID), nil
}

// evidenceByCase is all that was seen of each query.
type evidenceByCase map[caseKey]*sightings

// sightings are what was seen of one query.
type sightings struct {
	by map[Provenance]*sighting
	// ref names the newest prompt that went wrong; query is of a run's case.
	ref    string
	newest time.Time
	mode   string
	query  string
}

// A sighting counts how often a query went wrong in one way.
type sighting struct {
	wrong, seen int
	last        time.Time
}

func (e evidenceByCase) at(query string, shouldTrigger bool) *sightings {
	key := caseKey{normalize(query), shouldTrigger}
	if e[key] == nil {
		e[key] = &sightings{by: map[Provenance]*sighting{}}
	}
	return e[key]
}

func (s *sightings) add(p Provenance, wrong, seen int, last *time.Time) {
	if s.by[p] == nil {
		s.by[p] = &sighting{}
	}
	one := s.by[p]
	one.wrong += wrong
	one.seen += seen
	if last != nil && last.After(one.last) {
		one.last = *last
	}
}

// addPrompt also takes a prompt with which all went well: it makes the share of
// those that did not smaller.
func (e evidenceByCase) addPrompt(p Prompt) {
	s := e.at(p.Text, true)
	s.add(MissedQuery, p.Missed, p.Checks, p.LastMissedAt)
	s.add(FailedEvaluation, p.Failed, p.Graded, p.LastFailedAt)
	for _, at := range []*time.Time{p.LastMissedAt, p.LastFailedAt} {
		if at != nil && (s.ref == "" || at.After(s.newest)) {
			s.ref, s.newest, s.mode = p.Ref, *at, invocationType(p.Mode)
		}
	}
}

// invocationType leaves out the modes that say how a producer came to know of
// a call, not how the skill was called.
func invocationType(mode string) string {
	if mode == "explicit" || mode == "implicit" {
		return mode
	}
	return ""
}

func (e evidenceByCase) addFailure(f Failure) {
	s := e.at(f.Query, f.ShouldTrigger)
	s.query = f.Query
	s.mode = cmp.Or(f.InvocationType, s.mode)
	p := RunFailure
	if f.Regression {
		p = RunRegression
	}
	s.add(p, f.Failed, f.Runs, &f.LastFailedAt)
}

func (e evidenceByCase) suggestions(sourceID string) []Suggestion {
	all := []Suggestion{}
	for key, s := range e {
		if key.query == "" {
			continue
		}
		if one, ok := s.suggestion(suggestionID(sourceID, key), key.shouldTrigger); ok {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.ObservedCount, a.ObservedCount),
			b.LastObservedAt.Compare(a.LastObservedAt), cmp.Compare(b.ID, a.ID))
	})
	return all[:min(len(all), maxSuggestions)]
}

// suggestion sums up what was seen of a query; ok is false if nothing of it
// went wrong. It is told by the way in which most went wrong.
func (s *sightings) suggestion(id string, shouldTrigger bool) (one Suggestion, ok bool) {
	one = Suggestion{ID: id, ShouldTrigger: shouldTrigger}
	seen, most := 0, 0
	for _, p := range []Provenance{RunRegression, RunFailure, FailedEvaluation, MissedQuery} {
		sighting := s.by[p]
		if sighting == nil || sighting.wrong == 0 {
			continue
		}
		one.ObservedCount += sighting.wrong
		seen += max(sighting.seen, sighting.wrong)
		if sighting.last.After(one.LastObservedAt) {
			one.LastObservedAt = sighting.last
		}
		if sighting.wrong > most {
			most = sighting.wrong
			one.Provenance, one.Rationale = p, p.rationale(*sighting)
		}
	}
	if one.ObservedCount == 0 {
		return one, false
	}
	one.Confidence, _ = stats.Wilson(float64(one.ObservedCount)/float64(seen), seen)
	if one.Provenance.evidence() == HostedRun {
		one.Query = s.query
	} else {
		one.Ref = &s.ref
	}
	if shouldTrigger && s.mode != "" {
		one.InvocationType = &s.mode
	}
	return one, true
}

func (p Provenance) rationale(s sighting) string {
	switch p {
	case MissedQuery:
		return fmt.Sprintf("The skill did not fire in %d of %d observations of this query.", s.wrong, s.seen)
	case FailedEvaluation:
		return fmt.Sprintf("The session failed in %d of %d gradings after this query.", s.wrong, s.seen)
	case RunRegression:
		return "The case passed in the run before and fails now."
	case RunFailure:
		return fmt.Sprintf("The case failed in %d of %d runs.", s.wrong, s.seen)
	}
	return ""
}
