package skills

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// Changes are what a report may have changed.
type Changes struct {
	SkillIDs []string // whose metrics
	// Sessions are those of skills whose grade or version may be another one.
	Sessions []Session
	// Touched are all sessions of skills that the report is about, and Checks all
	// checks of sessions, changed or not: who follows them may not know them yet.
	Touched []Session
	Checks  []Check
	// Removed are checks that are no more, or were different before.
	Removed []Check

	written written
}

// Observe adds a report to the metrics, each observation and grading once. It
// must run in the transaction that stores the report. It calls follow, which may
// be nil, for what follows the changes in that transaction, and only then counts
// them: users share the counters, and wait for each other from there on.
func (s *Service) Observe(ctx context.Context, tx *store.Tx, r Report, follow func(Changes) error) (err error) {
	defer fault.Wrap(&err, "observe")
	in, changes := newIngestion(tx, r), Changes{}
	// An empty report does not take the user's lock: most batches of telemetry name
	// no skill.
	if len(r.Observations)+len(r.Gradings)+len(r.Reloaded)+len(r.Withdrawn) > 0 {
		// Offers are per day: a session that lasts past midnight is offered the skill on both days.
		for i := range in.report.Observations {
			o := &in.report.Observations[i]
			if o.SessionHash == "" {
				o.SessionHash = SessionHash(in.report.UserID, o.Session)
			}
			if o.Offered {
				o.ID = ID(in.report.OrgID, in.report.UserID, "offered",
					o.SessionHash+"\n"+o.At.UTC().Format(time.DateOnly)+"\n"+o.SkillName)
			}
		}
		if err := in.loadKnown(ctx); err != nil {
			return err
		}
		if changes, err = in.run(ctx, s); err != nil {
			return err
		}
	}
	if follow != nil {
		if err := follow(changes); err != nil {
			return err
		}
	}
	// Last in the transaction: rows of skill_days are shared by all users of an
	// organisation, and their locks are held until the commit.
	return in.tally.writeCounts(ctx, tx)
}

// Reingest attributes stored rows of a user anew: to the skill that theirs is
// merged into, and to the version that was in use. Their sessions and the costs
// of these follow. The caller has locked the user.
func (s *Service) Reingest(ctx context.Context, tx *store.Tx, of Report, observations, gradings []string) error {
	in := newIngestion(tx, of)
	c, err := in.rerun(ctx, s, observations, gradings)
	if err != nil {
		return err
	}
	return s.finish(ctx, tx, in.tally, map[string][]Session{of.OrgID: c.Sessions})
}

// rerun is run on stored rows alone: nothing is reported, so that the only
// difference is in what the rows are attributed to.
func (in *ingestion) rerun(ctx context.Context, s *Service, observations, gradings []string) (c Changes, err error) {
	if in.known, err = observationsByID(ctx, in.tx, observations); err != nil {
		return c, err
	}
	if in.knownGradings, err = gradingsByID(ctx, in.tx, gradings); err != nil {
		return c, err
	}
	if err := in.loadSkills(ctx); err != nil {
		return c, err
	}
	if c, err = in.run(ctx, s); err != nil || s.OnAttributed == nil {
		return c, err
	}
	return c, s.OnAttributed.Follow(ctx, in.tx, in.report.OrgID, in.report.UserID, c)
}

// finish lets the costs of sessions, by organisation, follow what was tallied, and
// writes the counters.
func (s *Service) finish(ctx context.Context, tx *store.Tx, t *tally, changed map[string][]Session) error {
	if s.Costs != nil {
		// In a fixed order, so that two transactions lock the costs in the same
		// order.
		for _, orgID := range slices.Sorted(maps.Keys(changed)) {
			if err := s.Costs.Follow(ctx, tx, orgID, changed[orgID]); err != nil {
				return err
			}
		}
	}
	return t.writeCounts(ctx, tx)
}

// run merges the report with what is known and writes the difference, except to
// the counters.
func (in *ingestion) run(ctx context.Context, s *Service) (c Changes, err error) {
	in.merge()
	c.SkillIDs = in.affectedSkills()
	if err := in.loadVersions(ctx, s); err != nil {
		return c, err
	}
	if err := in.ingestObservations(ctx); err != nil {
		return c, err
	}
	// Gradings read the session's activations back from the database, see
	// lastActivated.
	if err := in.tally.writeSessions(ctx, in.tx); err != nil { // which gradings follow
		return c, err
	}
	if err := in.ingestGradings(ctx); err != nil {
		return c, err
	}
	for session, moved := range in.touched {
		c.Touched = append(c.Touched, session)
		if moved {
			c.Sessions = append(c.Sessions, session)
		}
	}
	c.Checks, c.Removed = in.checks, in.removed
	c.written = in.written()
	return c, nil
}

// names returns the names of skills, with whether the report confirms them.
func (r *Report) names() map[string]bool {
	names := map[string]bool{}
	for _, o := range r.Observations {
		// One confirming observation is enough, whatever the others say.
		names[o.SkillName] = names[o.SkillName] || !o.Unconfirmed
	}
	for _, g := range r.Gradings {
		// Only what was used is graded, so a grading confirms.
		names[g.SkillName] = true
	}
	return names
}

// ingestion is the processing of one report. It reads everything first, merges in
// memory, and then writes differences, so that a report of any size takes the same
// number of statements.
type ingestion struct {
	tx        *store.Tx
	report    Report
	skillIDs  map[string]string     // by name, of the report
	skills    map[string]knownSkill // by id, of the report and of stored rows
	versions  inuse.History
	ofPlugins map[string]bool   // the affected skills that are of a plugin
	pluginIDs map[string]string // of the skills that are named like those plugins
	tally     *tally
	touched   map[Session]bool // to whether the grade or version may be another one
	checks    []Check
	removed   []Check

	canonical     map[string]string      // canonical id by reported id
	known         map[string]observation // as stored, by id
	merged        map[string]observation // as they will be stored, by canonical id
	retired       map[string]observation // deleted, since their ids became aliases
	knownGradings map[string]grading
	grades        map[string]*SessionGrade // as they are stored now, by session key
}

func newIngestion(tx *store.Tx, r Report) *ingestion {
	return &ingestion{
		tx: tx, report: r, tally: newTally(), touched: map[Session]bool{},
		skillIDs: map[string]string{}, skills: map[string]knownSkill{},
	}
}

// loadKnown reads everything stored that the report may change. It first locks
// the user, which serialises the reports of one user. Everything after the lock sees
// the committed state of earlier reports.
func (in *ingestion) loadKnown(ctx context.Context) (err error) {
	if err := LockUser(ctx, in.tx, in.report.UserID); err != nil {
		return err
	}
	named, err := ensureSkills(ctx, in.tx, in.report.OrgID, in.report.names())
	if err != nil {
		return err
	}
	for name, k := range named {
		in.skillIDs[name], in.skills[k.id] = k.id, k
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
	if err := in.loadReloaded(ctx); err != nil {
		return err
	}
	// Withdrawn gradings are read, too: their values must leave the rollups.
	ids := columnsOf(in.report.Gradings, func(g Grading) string { return g.ID })
	in.knownGradings, err = gradingsByID(ctx, in.tx, append(ids, in.report.Withdrawn...))
	if err != nil {
		return err
	}
	return in.loadSkills(ctx)
}

// loadReloaded adds the observations of sessions whose plugins are news, which are
// attributed again.
func (in *ingestion) loadReloaded(ctx context.Context) error {
	if len(in.report.Reloaded) == 0 {
		return nil
	}
	all, err := observationsOfPlugins(ctx, in.tx, in.report.Reloaded)
	for _, o := range all {
		in.known[o.id] = o
	}
	return err
}

// loadSkills reads the skills of the stored rows. Ties between reports are broken
// by the name, since ids depend on which skill was heard of first.
func (in *ingestion) loadSkills(ctx context.Context) error {
	others := map[string]bool{}
	for _, all := range []map[string]observation{in.known, in.retired} {
		for _, o := range all {
			others[o.originID] = true
		}
	}
	for _, g := range in.knownGradings {
		others[g.originID] = true
	}
	// Those that the report names are loaded and locked already.
	maps.DeleteFunc(others, func(id string, _ bool) bool { return in.skills[id].id != "" })
	found, err := skillsByID(ctx, in.tx, slices.Collect(maps.Keys(others)))
	if err != nil {
		return err
	}
	for _, k := range found {
		in.skills[k.id] = k
	}
	for _, all := range []map[string]observation{in.known, in.retired} {
		for id, o := range all {
			o.skillName = in.skills[o.originID].name
			all[id] = o
		}
	}
	for id, g := range in.knownGradings {
		g.skillName = in.skills[g.originID].name
		in.knownGradings[id] = g
	}
	return nil
}

// loadVersions reads what observations and gradings are attributed by.
func (in *ingestion) loadVersions(ctx context.Context, s *Service) (err error) {
	if err := in.loadPluginIDs(ctx); err != nil {
		return err
	}
	skillIDs := append(in.affectedSkills(), slices.Collect(maps.Values(in.pluginIDs))...)
	uses := make([]inuse.Use, 0, len(in.merged))
	for _, o := range in.merged {
		uses = append(uses, in.use(o))
	}
	in.versions, err = inuse.Sources{Versions: s.Versions, Installations: s.Installations, Plugins: s.Plugins}.
		Load(ctx, in.tx, in.report.OrgID, in.report.UserID, skillIDs, uses)
	return err
}

// use is what an observation says about the version.
func (in *ingestion) use(o observation) inuse.Use {
	u := inuse.Use{
		SkillID: o.skillID, Session: o.sessionHash, Hash: o.versionHash, Version: o.versionName, Plugin: o.plugin,
		Device: o.device, At: o.at,
	}
	if o.plugin != nil {
		u.PluginID = in.pluginIDs[*o.plugin]
	}
	return u
}

// loadPluginIDs finds the skills that are named like the plugins of this report's
// skills: a plugin may be an entry of the registry itself, and then its version is
// that of all its skills.
func (in *ingestion) loadPluginIDs(ctx context.Context) error {
	plugins := map[string]bool{}
	in.ofPlugins = map[string]bool{}
	note := func(skillID string, plugin *string) {
		if plugin != nil {
			plugins[*plugin], in.ofPlugins[skillID] = true, true
		}
	}
	for name, id := range in.skillIDs {
		note(id, pluginOf(name))
	}
	for _, o := range in.merged {
		note(o.skillID, o.plugin)
	}
	for _, g := range in.knownGradings {
		note(g.skillID, pluginOf(g.skillName))
	}
	if len(plugins) == 0 {
		return nil
	}
	found, err := skillsByName(ctx, in.tx, in.report.OrgID, slices.Collect(maps.Keys(plugins)))
	in.pluginIDs = map[string]string{}
	for name, k := range found {
		in.pluginIDs[name] = k.id
	}
	return err
}

// affectedSkills returns the skills that the report counts for, and those that it
// may remove observations from, sorted.
func (in *ingestion) affectedSkills() []string {
	var ids []string
	for _, k := range in.skills {
		ids = append(ids, k.countsFor)
	}
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

// ingestObservations inserts new observations, updates merged ones, and tallies
// the difference.
func (in *ingestion) ingestObservations(ctx context.Context) error {
	var fresh, changed []observation
	for _, id := range slices.Sorted(maps.Keys(in.merged)) {
		o := in.merged[id]
		// The attribution depends on the merged fields, so it is derived anew every
		// time.
		o.versionID, o.basis = in.versions.Attribute(in.use(o))
		in.merged[id] = o
		old, isKnown := in.known[id]
		switch {
		case !isKnown:
			fresh = append(fresh, o)
		case !equalObservations(old, o):
			changed = append(changed, o)
			in.tally.observed(old, -1)
			in.noteSession(old, true, &in.removed)
		// Unchanged: no write and no tally, but followers may not have seen the
		// session yet.
		default:
			in.noteSession(o, false, &in.checks)
			continue
		}
		in.tally.observed(o, +1)
		in.noteSession(o, true, &in.checks)
	}
	// Their merged successors were tallied above; the rows themselves are deleted
	// already.
	for _, o := range in.retired {
		in.tally.observed(o, -1)
		in.noteSession(o, true, &in.removed)
	}
	if err := insertObservations(ctx, in.tx, in.report, fresh); err != nil {
		return err
	}
	return updateObservations(ctx, in.tx, changed)
}

// noteSession notes what a session has to do with a skill, for those who follow
// sessions: its checks, and that its version may be another one.
func (in *ingestion) noteSession(o observation, changed bool, checks *[]Check) {
	if o.sessionHash == "" {
		return
	}
	of := Session{SkillID: o.skillID, Hash: o.sessionHash}
	// Only an activation with a known version decides a session's version.
	in.touched[of] = in.touched[of] || changed && o.versionID != nil && o.triggered
	if o.isCheck && o.weight > 0 {
		*checks = append(*checks, Check{ID: o.id, Session: o.sessionHash, Skill: o.skillName, Triggered: o.triggered, At: o.at})
	}
}

// merge merges the observations of the report into the stored ones, one by one, so
// that the result does not depend on how reports are split.
func (in *ingestion) merge() {
	in.merged = maps.Clone(in.known)
	// The rows that became aliases of another observation are merged like reports.
	join := func(o observation, id string) {
		if earlier, ok := in.merged[id]; ok {
			o = merge(earlier, o)
		}
		o.id = id
		in.merged[id] = o
	}
	for id, o := range in.retired {
		join(o, in.canonical[id])
	}
	for _, o := range in.report.Observations {
		join(in.stored(o), in.canonical[o.ID])
	}
	// After the merge, since the winner's name decides which skill counts.
	for id, o := range in.merged {
		o.skillID = in.skills[o.originID].countsFor
		in.merged[id] = o
	}
}
