package report

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// What a report reads of runs and sessions at most, and shows of it.
const (
	maxRuns     = 50
	maxTrials   = 1_000 // of a run
	maxRequests = 500
	maxSessions = 1_000 // of each outcome
	maxOverlaps = 50
	maxChanges  = 50
)

// readTests fills in what runs and sessions tell: which skills take each other's
// requests, and which requests find their skill in the listing.
func (s *Service) readTests(ctx context.Context, orgID string, r *Report, since time.Time) error {
	runs, err := newestRuns(ctx, s.DB, orgID, since, maxTrials, maxRuns)
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		skillOf, ids := map[string]string{}, make([]string, len(runs))
		for i, run := range runs {
			skillOf[run.id], ids[i] = run.skill, run.id
		}
		choices, err := choicesOf(ctx, s.DB, ids)
		if err != nil {
			return err
		}
		r.Overlaps = overlapsOfRuns(choices, skillOf)
		requests, err := requestsOf(ctx, s.DB, ids, maxRequests)
		if err != nil {
			return err
		}
		// Other runs have the skill alone, without a choice to make.
		chose := map[string]bool{} // runs with trigger cases
		for _, c := range choices {
			chose[c.runID] = true
		}
		for _, run := range runs {
			if chose[run.id] {
				r.Suites = append(r.Suites, Suite{run.suiteID, run.suite, run.skill})
			}
		}
		r.route(slices.DeleteFunc(requests, func(q request) bool { return !chose[q.runID] }), skillOf)
	}
	pairs, err := pairsOf(ctx, s.DB, orgID, since, maxSessions, maxOverlaps)
	if err != nil || len(pairs) == 0 {
		return err
	}
	of, err := sessionsOf(ctx, s.DB, orgID, since, maxSessions)
	for _, p := range pairs {
		r.Overlaps = append(r.Overlaps, Overlap{
			Skill: p.skill, TakenBy: p.other, From: FromSessions, Taken: p.taken, Together: p.together, Of: of[p.skill],
		})
	}
	return err
}

// overlapsOfRuns counts which skills were chosen for the requests of others, the most
// frequent pairs first.
func overlapsOfRuns(choices []choice, skillOf map[string]string) (all []Overlap) {
	type key struct{ skill, chosen string }
	pairs, of := map[key]*Overlap{}, map[string]int{}
	for _, c := range choices {
		skill := skillOf[c.runID]
		// A case that should not trigger passes if the skill is not chosen.
		if c.passed != (c.chosen == skill) { // a request that is not the skill's
			continue
		}
		of[skill]++
		if c.chosen == skill || c.chosen == "" {
			continue
		}
		k := key{skill, c.chosen}
		if pairs[k] == nil {
			pairs[k] = &Overlap{Skill: skill, TakenBy: c.chosen, From: FromRuns}
		}
		pairs[k].Taken++
		// Ids are UUIDv7: the greatest is the newest.
		pairs[k].RunID = max(pairs[k].RunID, c.runID)
	}
	for k, o := range pairs {
		o.Of = of[k.skill]
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b Overlap) int {
		return cmp.Or(cmp.Compare(b.Taken, a.Taken), cmp.Compare(a.Skill, b.Skill), cmp.Compare(a.TakenBy, b.TakenBy))
	})
	return all[:min(len(all), maxOverlaps)]
}

// route chooses the skill of each request twice, by the router that runs without a
// model use: by the whole descriptions, and by what the agent's model sees. It is a
// cheap prediction of what truncation does; Measured has what it did.
func (r *Report) route(requests []request, skillOf map[string]string) {
	lines := map[string]listing.Line{}
	var whole, cut []judge.Skill
	for _, k := range r.Skills {
		if !k.InRegistry || k.Line.Form == listing.Hidden {
			continue
		}
		lines[k.Name] = k.Line
		whole = append(whole, judge.Skill{Name: k.Name, Description: k.Line.Text})
		if k.Line.Form != listing.Omitted {
			cut = append(cut, judge.Skill{Name: k.Name, Description: k.Line.Seen()})
		}
	}
	before, after := judge.NewLexicalRouter(whole), judge.NewLexicalRouter(cut)
	for _, q := range requests {
		skill := skillOf[q.runID]
		// The skill may be gone, or hidden, since the run.
		line, ok := lines[skill]
		if !ok {
			continue
		}
		r.Routing.Cases++
		was, _, _ := before.Route(q.query)
		is, _, _ := after.Route(q.query)
		if was == skill {
			r.Routing.Right++
		}
		if is == skill {
			r.Routing.Cut++
		}
		if was == is {
			continue
		}
		r.Routing.ChangedInTotal++
		if len(r.Routing.Changed) < maxChanges {
			r.Routing.Changed = append(r.Routing.Changed, Change{
				Skill: skill, Query: q.query, Before: was, After: is, RunID: q.runID, Lost: lost(q.query, skill, line),
			})
		}
	}
}

// lost returns the words of a request that the description has only in the part that
// is cut. Stems, so that "tables" in the request matches "table" in the description.
func lost(query, name string, line listing.Line) (all []string) {
	seen, cut := map[string]bool{}, map[string]bool{}
	for _, w := range judge.Stems(name + " " + line.Seen()) {
		seen[w] = true
	}
	for _, w := range judge.Stems(line.Cut()) {
		cut[w] = true
	}
	for _, w := range judge.Words(query) {
		if stem := judge.Stem(w); cut[stem] && !seen[stem] && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}
