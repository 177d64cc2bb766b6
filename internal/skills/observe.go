package skills

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Versions knows the registry versions of skills.
type Versions interface {
	// Timelines returns the history of each skill that has one.
	Timelines(ctx context.Context, q store.Querier, skillIDs []string) (map[string]Timeline, error)
}

// A Timeline says which registry version of a skill was current when.
type Timeline struct {
	ByHash   map[string]string // version id by content hash
	Currents []Current         // oldest first
}

// A Current is a version that became the current one.
type Current struct {
	VersionID string
	Since     time.Time
}

// at binds something said at a time to a version: to that whose content it
// names, else to the one that was current then.
func (t Timeline) at(hash *string, at time.Time) *string {
	if hash != nil {
		if id, ok := t.ByHash[*hash]; ok {
			return &id
		}
	}
	i, _ := slices.BinarySearchFunc(t.Currents, at, func(c Current, at time.Time) int {
		if c.Since.After(at) {
			return 1
		}
		return -1
	})
	if i == 0 {
		return nil
	}
	return &t.Currents[i-1].VersionID
}

// Observe takes a report into the numbers, each observation and grading once,
// and returns the ids of the skills whose numbers it may have changed. It must
// run in the transaction that stores the report.
func (s *Service) Observe(ctx context.Context, tx *store.Tx, r Report) (skillIDs []string, err error) {
	defer fault.Wrap(&err, "observe")
	if len(r.Observations)+len(r.Gradings) == 0 {
		return nil, nil
	}
	ids, err := resolveAll(ctx, tx, r.OrgID, r.names())
	if err != nil {
		return nil, err
	}
	skillIDs = slices.Sorted(maps.Values(ids))
	if err := lockTotals(ctx, tx, skillIDs); err != nil {
		return nil, err
	}
	timelines, err := s.Versions.Timelines(ctx, tx, skillIDs)
	if err != nil {
		return nil, err
	}
	in := intake{tx: tx, report: r, skillIDs: ids, timelines: timelines, tally: newTally()}
	if err := in.observations(ctx); err != nil {
		return nil, err
	}
	if err := in.gradings(ctx); err != nil {
		return nil, err
	}
	return skillIDs, in.tally.write(ctx, tx)
}

func (r *Report) names() []string {
	names := map[string]bool{}
	for _, o := range r.Observations {
		names[o.SkillName] = true
	}
	for _, g := range r.Gradings {
		names[g.SkillName] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// intake is one report on its way into the numbers.
type intake struct {
	tx        *store.Tx
	report    Report
	skillIDs  map[string]string // by name
	timelines map[string]Timeline
	tally     *tally
}

// observation is an Observation as it is stored.
type observation struct {
	id           string
	skillID      string
	versionID    *string
	sessionHash  string
	promptHash   *string
	versionHash  *string
	isCheck      bool
	triggered    bool
	confidence   *int64
	weight       int64
	mode         *string
	at           time.Time
	normalizedAt time.Time
}

func (in *intake) stored(o Observation) observation {
	s := observation{
		id: o.ID, skillID: in.skillIDs[o.SkillName], sessionHash: sessionHash(in.report.UserID, o.Session),
		versionHash: orNull(o.VersionHash), isCheck: !o.Offered, triggered: o.Triggered && !o.Offered,
		confidence: scaled(o.Confidence), weight: max(1, o.Weight), mode: orNull(o.Mode),
		at: o.At.UTC().Truncate(time.Microsecond), normalizedAt: o.NormalizedAt.UTC().Truncate(time.Microsecond),
	}
	if o.PromptID != "" {
		hash := PromptHash(in.report.OrgID, in.report.UserID, o.PromptID)
		s.promptHash = &hash
	}
	return s
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// merge joins two reports of one observation: what the newer one says, and
// from the older what the newer leaves open. It does not matter which came
// first, except where both were made at the same time and disagree.
func merge(a, b observation) observation {
	if b.normalizedAt.Before(a.normalizedAt) {
		a, b = b, a
	}
	b.promptHash = cmp.Or(b.promptHash, a.promptHash)
	b.versionHash = cmp.Or(b.versionHash, a.versionHash)
	b.confidence = cmp.Or(b.confidence, a.confidence)
	b.mode = cmp.Or(b.mode, a.mode)
	b.sessionHash = cmp.Or(b.sessionHash, a.sessionHash)
	b.isCheck = b.isCheck || a.isCheck
	return b
}

// observations stores what is new and merges what is known, and tallies the
// difference.
func (in *intake) observations(ctx context.Context) error {
	batch, err := in.batch(ctx)
	if err != nil || len(batch) == 0 {
		return err
	}
	known, err := observationsByID(ctx, in.tx, slices.Collect(maps.Keys(batch)))
	if err != nil {
		return err
	}
	var fresh, changed []observation
	for _, id := range slices.Sorted(maps.Keys(batch)) {
		o := batch[id]
		old, isKnown := known[id]
		if isKnown {
			o = merge(old, o)
			o.id = id
		}
		o.versionID = in.timelines[o.skillID].at(o.versionHash, o.at)
		switch {
		case !isKnown:
			fresh = append(fresh, o)
		case !same(old, o):
			changed = append(changed, o)
			in.tally.observed(old, -1)
		default:
			continue
		}
		in.tally.observed(o, +1)
	}
	if err := insertObservations(ctx, in.tx, in.report, fresh); err != nil {
		return err
	}
	return updateObservations(ctx, in.tx, changed)
}

// batch resolves aliases and joins reports of one observation within the
// report. The result is by id.
func (in *intake) batch(ctx context.Context) (map[string]observation, error) {
	canonical, retired, err := in.resolveAliases(ctx)
	if err != nil {
		return nil, err
	}
	batch := map[string]observation{}
	join := func(o observation, id string) {
		if earlier, ok := batch[id]; ok {
			o = merge(earlier, o)
		}
		o.id = id
		batch[id] = o
	}
	for _, o := range in.report.Observations {
		join(in.stored(o), canonical[o.ID])
	}
	old, err := takeObservations(ctx, in.tx, retired)
	for id, o := range old {
		in.tally.observed(o, -1)
		join(o, canonical[id])
	}
	return batch, err
}

// same compares all that an update writes.
func same(a, b observation) bool {
	return a.skillID == b.skillID && equal(a.versionID, b.versionID) && a.sessionHash == b.sessionHash &&
		equal(a.promptHash, b.promptHash) && equal(a.versionHash, b.versionHash) && a.isCheck == b.isCheck &&
		a.triggered == b.triggered && equal(a.confidence, b.confidence) && a.weight == b.weight &&
		equal(a.mode, b.mode) && a.at.Equal(b.at) && a.normalizedAt.Equal(b.normalizedAt)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
