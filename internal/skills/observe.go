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

// Versions is a hook for the registry, which is above this package and fulfils
// it: observations are attributed to the version that was in use.
type Versions interface {
	// Timelines returns the version history of each skill that has one.
	Timelines(ctx context.Context, q store.Querier, skillIDs []string) (map[string]Timeline, error)
}

// A Timeline is the registry versions of a skill over time.
type Timeline struct {
	ByHash   map[string]string // version id by content hash
	Currents []Current         // oldest first
}

// A Current is a version that became current.
type Current struct {
	VersionID string
	Since     time.Time
}

// versionAt returns the version that something at a time is attributed to: the
// one with the content hash if that is known, else the one that was current.
func (t Timeline) versionAt(hash *string, at time.Time) *string {
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

// Observe adds a report to the metrics, each observation and grading once, and
// returns the ids of the skills whose metrics may have changed. It must run in
// the transaction that stores the report.
func (s *Service) Observe(ctx context.Context, tx *store.Tx, r Report) (skillIDs []string, err error) {
	defer fault.Wrap(&err, "observe")
	if len(r.Observations)+len(r.Gradings) == 0 {
		return nil, nil
	}
	in := ingestion{tx: tx, report: r, tally: &tally{
		days: map[dayKey]*dayCount{}, sessions: map[string]*sessionTally{}, totals: map[string]*totalCount{},
	}}
	if err := in.loadKnown(ctx); err != nil {
		return nil, err
	}
	skillIDs = in.affectedSkills()
	if in.timelines, err = s.Versions.Timelines(ctx, tx, skillIDs); err != nil {
		return nil, err
	}
	if err := in.ingestObservations(ctx); err != nil {
		return nil, err
	}
	if err := in.ingestGradings(ctx); err != nil {
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

// ingestion is the processing of one report.
type ingestion struct {
	tx        *store.Tx
	report    Report
	skillIDs  map[string]string // by name
	timelines map[string]Timeline
	tally     *tally

	canonical     map[string]string      // canonical id by reported id
	known         map[string]observation // as stored, by id
	retired       map[string]observation // deleted, since their ids became aliases
	knownGradings map[string]grading
}

// loadKnown reads everything stored that the report may change. It first locks
// the user, which serialises the reports of one user.
func (in *ingestion) loadKnown(ctx context.Context) (err error) {
	if err := lockUser(ctx, in.tx, in.report.UserID); err != nil {
		return err
	}
	if in.skillIDs, err = ensureSkills(ctx, in.tx, in.report.OrgID, in.report.names()); err != nil {
		return err
	}
	retired, err := in.resolveAliases(ctx)
	if err != nil {
		return err
	}
	if in.retired, err = deleteObservations(ctx, in.tx, retired); err != nil {
		return err
	}
	if in.known, err = observationsByID(ctx, in.tx, slices.Collect(maps.Values(in.canonical))); err != nil {
		return err
	}
	in.knownGradings, err = gradingsByID(ctx, in.tx, columnsOf(in.report.Gradings, func(g Grading) string { return g.ID }))
	return err
}

// affectedSkills returns the skills that the report names, and those that it may
// remove observations from, sorted.
func (in *ingestion) affectedSkills() []string {
	ids := slices.Collect(maps.Values(in.skillIDs))
	for _, all := range []map[string]observation{in.known, in.retired} {
		for _, o := range all {
			ids = append(ids, o.skillID)
		}
	}
	for _, g := range in.knownGradings {
		ids = append(ids, g.skillID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// observation is a row of skill_observations.
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

func (in *ingestion) stored(o Observation) observation {
	s := observation{
		id: o.ID, skillID: in.skillIDs[o.SkillName], sessionHash: sessionHash(in.report.UserID, o.Session),
		versionHash: orNull(o.VersionHash), isCheck: !o.Offered, triggered: o.Triggered && !o.Offered,
		confidence: scaled(o.Confidence), weight: max(1, o.Weight), mode: orNull(o.Mode),
		// Both databases store microseconds; equalObservations compares with them.
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

// merge combines a stored observation with one more report of it: the fields of
// the newer one, and of the older where the newer has none. At equal times the
// report counts as newer.
func merge(known, report observation) observation {
	a, b := known, report
	if b.normalizedAt.Before(a.normalizedAt) {
		a, b = b, a
	}
	b.promptHash = cmp.Or(b.promptHash, a.promptHash)
	b.versionHash = cmp.Or(b.versionHash, a.versionHash)
	b.confidence = cmp.Or(b.confidence, a.confidence)
	b.mode = cmp.Or(b.mode, a.mode)
	b.sessionHash = cmp.Or(b.sessionHash, a.sessionHash)
	if !b.isCheck { // an offer does not say whether the skill was activated
		b.isCheck, b.triggered = a.isCheck, a.triggered
	}
	return b
}

// ingestObservations inserts new observations, updates merged ones, and tallies
// the difference.
func (in *ingestion) ingestObservations(ctx context.Context) error {
	merged := in.merged()
	var fresh, changed []observation
	for _, id := range slices.Sorted(maps.Keys(merged)) {
		o := merged[id]
		o.versionID = in.timelines[o.skillID].versionAt(o.versionHash, o.at)
		old, isKnown := in.known[id]
		switch {
		case !isKnown:
			fresh = append(fresh, o)
		case !equalObservations(old, o):
			changed = append(changed, o)
			in.tally.observed(old, -1)
		default:
			continue // a retry: idempotent
		}
		in.tally.observed(o, +1)
	}
	for _, o := range in.retired {
		in.tally.observed(o, -1)
	}
	if err := insertObservations(ctx, in.tx, in.report, fresh); err != nil {
		return err
	}
	return updateObservations(ctx, in.tx, changed)
}

// merged returns the stored observations with those of the report merged in one
// by one, so that the result does not depend on how reports are split. It is
// keyed by canonical id.
func (in *ingestion) merged() map[string]observation {
	all := maps.Clone(in.known)
	join := func(o observation, id string) {
		if earlier, ok := all[id]; ok {
			o = merge(earlier, o)
		}
		o.id = id
		all[id] = o
	}
	for id, o := range in.retired {
		join(o, in.canonical[id])
	}
	for _, o := range in.report.Observations {
		join(in.stored(o), in.canonical[o.ID])
	}
	return all
}

// equalObservations compares everything that an update writes.
func equalObservations(a, b observation) bool {
	return a.skillID == b.skillID && equal(a.versionID, b.versionID) && a.sessionHash == b.sessionHash &&
		equal(a.promptHash, b.promptHash) && equal(a.versionHash, b.versionHash) && a.isCheck == b.isCheck &&
		a.triggered == b.triggered && equal(a.confidence, b.confidence) && a.weight == b.weight &&
		equal(a.mode, b.mode) && a.at.Equal(b.at) && a.normalizedAt.Equal(b.normalizedAt)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
