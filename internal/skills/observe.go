package skills

import (
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

// Installations is a hook for what users have installed, likewise.
type Installations interface {
	// Installed returns what a user had installed of the skills, oldest first: on
	// all devices taken together, and on each of some devices.
	Installed(ctx context.Context, q store.Querier, userID string, devices, skillIDs []string) ([]Installed, error)
}

// An Installed is the content of a skill that was installed from a time on.
type Installed struct {
	SkillID string
	Device  string // see DeviceHash; "": all of the user's
	Hash    string // "" when unknown: nothing, or different versions
	Since   time.Time
}

// Plugins is a hook for what agents report about the plugins that they loaded.
type Plugins interface {
	// Loaded returns the plugins that sessions, by their hashes, loaded, in the order
	// of time. Those that are not from the organisation's registry are left out.
	Loaded(ctx context.Context, q store.Querier, orgID string, sessions []string) ([]Loaded, error)
}

// A Loaded is a plugin that a session loaded at a time.
type Loaded struct {
	Session string // its hash
	Plugin  string
	Version string
	// Own means that it is from the organisation's own marketplace, whose plugins
	// are the entries of its registry. Else nothing says where it is from.
	Own bool
	At  time.Time
}

// A Timeline is the registry versions of a skill over time.
type Timeline struct {
	ByHash   map[string]string // version id by content hash
	ByName   map[string]string // version id by version, e.g. "1.2.0"
	Currents []Current         // oldest first
	// Installed are the versions that the user had installed, by device as in
	// Installed, oldest first. Those that are no version of the registry have an
	// empty VersionID.
	Installed map[string][]Current
}

// A Current is a version that became current.
type Current struct {
	VersionID string
	Since     time.Time
}

// The bases of an attribution to a version, best first. The last one is stored
// as NULL.
const (
	byHash         = "hash"         // the record names the content hash
	byPlugin       = "plugin"       // the agent named the version that it loaded
	byInstallation = "installation" // the user had it installed
	byTime         = "time"         // it was the current one
)

// attribute finds the version that an observation counts for, and the basis. A
// skill without an entry may be a plugin that is one.
func (in *ingestion) attribute(o observation) (versionID, basis *string) {
	loads := in.loads[o.sessionHash]
	if t, ok := in.timelines[o.skillID]; ok || o.plugin == nil {
		return t.attribute(o, loads)
	}
	if l := o.loaded(loads); l != nil && l.Own {
		if id, ok := in.timelines[in.pluginIDs[*o.plugin]].ByName[l.Version]; ok {
			basis := byPlugin
			return &id, &basis
		}
	}
	return nil, nil
}

// attribute finds the version that an observation counts for, and the basis.
func (t Timeline) attribute(o observation, loads []Loaded) (versionID, basis *string) {
	named := func(byName map[string]string, name *string, basis string) (*string, *string) {
		if name != nil {
			if id, ok := byName[*name]; ok {
				return &id, &basis
			}
		}
		return nil, nil
	}
	if id, basis := named(t.ByHash, o.versionHash, byHash); id != nil {
		return id, basis
	}
	if id, basis := named(t.ByName, o.versionName, byPlugin); id != nil {
		return id, basis
	}
	if l := o.loaded(loads); l != nil {
		if id, basis := named(t.ByName, &l.Version, byPlugin); id != nil {
			return id, basis
		}
	}
	if id := t.installedAt(o); id != nil && *id != "" {
		basis := byInstallation
		return id, &basis
	}
	return versionAt(t.Currents, o.at), nil
}

// installedAt returns the version that was installed on the observation's device,
// or on all devices if nothing is on record for that one.
func (t Timeline) installedAt(o observation) *string {
	if o.device != nil {
		if id := versionAt(t.Installed[*o.device], o.at); id != nil {
			return id
		}
	}
	return versionAt(t.Installed[""], o.at)
}

// loaded returns the observation's plugin as its session had loaded it by then,
// nil if that is not known.
func (o observation) loaded(loads []Loaded) (found *Loaded) {
	for _, l := range loads {
		// The first one counts even if clocks say that it came later.
		if o.plugin != nil && *o.plugin == l.Plugin && (found == nil || !l.At.After(o.at)) {
			found = &l
		}
	}
	return found
}

// versionAt returns the version that was current at a time, nil before the first.
func versionAt(currents []Current, at time.Time) *string {
	i, _ := slices.BinarySearchFunc(currents, at, func(c Current, at time.Time) int {
		if c.Since.After(at) {
			return 1
		}
		return -1
	})
	if i == 0 {
		return nil
	}
	return &currents[i-1].VersionID
}

// Changes are what a report may have changed.
type Changes struct {
	SkillIDs []string // whose metrics
	// Sessions are those of skills whose grade or version may be another one.
	Sessions []Session
}

// Observe adds a report to the metrics, each observation and grading once. It
// must run in the transaction that stores the report.
func (s *Service) Observe(ctx context.Context, tx *store.Tx, r Report) (c Changes, err error) {
	defer fault.Wrap(&err, "observe")
	if len(r.Observations)+len(r.Gradings)+len(r.Reloaded) == 0 {
		return c, nil
	}
	r.identify()
	in := newIngestion(tx, r)
	if err := in.loadKnown(ctx); err != nil {
		return c, err
	}
	return in.run(ctx, s)
}

// reingest attributes stored rows of a user anew: to the skill that theirs is
// merged into, and to the version that was in use. The caller has locked the user.
func (s *Service) reingest(ctx context.Context, tx *store.Tx, of Report, observations, gradings []string) (c Changes, err error) {
	in := newIngestion(tx, of)
	if in.known, err = observationsByID(ctx, tx, observations); err != nil {
		return c, err
	}
	if in.knownGradings, err = gradingsByID(ctx, tx, gradings); err != nil {
		return c, err
	}
	if err := in.loadSkills(ctx); err != nil {
		return c, err
	}
	return in.run(ctx, s)
}

// run merges the report with what is known and writes the difference.
func (in *ingestion) run(ctx context.Context, s *Service) (c Changes, err error) {
	in.merge()
	c.SkillIDs = in.affectedSkills()
	if err := in.loadVersions(ctx, s); err != nil {
		return c, err
	}
	if err := in.ingestObservations(ctx); err != nil {
		return c, err
	}
	if err := in.tally.writeSessions(ctx, in.tx); err != nil { // which gradings follow
		return c, err
	}
	if err := in.ingestGradings(ctx); err != nil {
		return c, err
	}
	c.Sessions = slices.Collect(maps.Keys(in.moved))
	return c, in.tally.writeCounts(ctx, in.tx)
}

// names returns the names of skills, with whether the report confirms them.
func (r *Report) names() map[string]bool {
	names := map[string]bool{}
	for _, o := range r.Observations {
		names[o.SkillName] = names[o.SkillName] || !o.Unconfirmed
	}
	for _, g := range r.Gradings {
		names[g.SkillName] = true
	}
	return names
}

// ingestion is the processing of one report.
type ingestion struct {
	tx        *store.Tx
	report    Report
	skillIDs  map[string]string     // by name, of the report
	skills    map[string]knownSkill // by id, of the report and of stored rows
	timelines map[string]Timeline
	loads     map[string][]Loaded // by session
	ofPlugins map[string]bool     // the affected skills that are of a plugin
	pluginIDs map[string]string   // of the skills that are named like those plugins
	tally     *tally
	moved     map[Session]bool // see Changes.Sessions

	canonical     map[string]string      // canonical id by reported id
	known         map[string]observation // as stored, by id
	merged        map[string]observation // as they will be stored, by canonical id
	retired       map[string]observation // deleted, since their ids became aliases
	knownGradings map[string]grading
}

func newIngestion(tx *store.Tx, r Report) *ingestion {
	return &ingestion{
		tx: tx, report: r, tally: newTally(), moved: map[Session]bool{}, skillIDs: map[string]string{}, skills: map[string]knownSkill{},
	}
}

// loadKnown reads everything stored that the report may change. It first locks
// the user, which serialises the reports of one user.
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
	in.knownGradings, err = gradingsByID(ctx, in.tx, columnsOf(in.report.Gradings, func(g Grading) string { return g.ID }))
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

// loadVersions reads what observations are attributed by: the versions of the
// affected skills, which of them the user had installed, and which plugins the
// sessions had loaded.
func (in *ingestion) loadVersions(ctx context.Context, s *Service) (err error) {
	if err := in.loadPluginIDs(ctx); err != nil {
		return err
	}
	skillIDs := append(in.affectedSkills(), slices.Collect(maps.Values(in.pluginIDs))...)
	in.timelines, err = s.Versions.Timelines(ctx, in.tx, skillIDs)
	if err != nil || len(in.timelines) == 0 {
		return err
	}
	if err := in.loadInstalled(ctx, s); err != nil {
		return err
	}
	return in.loadPlugins(ctx, s)
}

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

func (in *ingestion) loadInstalled(ctx context.Context, s *Service) error {
	if s.Installations == nil {
		return nil
	}
	devices := map[string]bool{}
	for _, o := range in.merged {
		if o.device != nil {
			devices[*o.device] = true
		}
	}
	all, err := s.Installations.Installed(ctx, in.tx, in.report.UserID,
		slices.Collect(maps.Keys(devices)), slices.Collect(maps.Keys(in.timelines)))
	for _, i := range all {
		t := in.timelines[i.SkillID]
		if t.Installed == nil {
			t.Installed = map[string][]Current{}
		}
		t.Installed[i.Device] = append(t.Installed[i.Device], Current{t.ByHash[i.Hash], i.Since})
		in.timelines[i.SkillID] = t
	}
	return err
}

func (in *ingestion) loadPlugins(ctx context.Context, s *Service) error {
	sessions := map[string]bool{}
	for _, o := range in.merged {
		if o.plugin != nil {
			sessions[o.sessionHash] = true
		}
	}
	if s.Plugins == nil || len(sessions) == 0 {
		return nil
	}
	all, err := s.Plugins.Loaded(ctx, in.tx, in.report.OrgID, slices.Collect(maps.Keys(sessions)))
	in.loads = map[string][]Loaded{}
	for _, l := range all {
		in.loads[l.Session] = append(in.loads[l.Session], l)
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
		o.versionID, o.basis = in.attribute(o)
		old, isKnown := in.known[id]
		switch {
		case !isKnown:
			fresh = append(fresh, o)
		case !equalObservations(old, o):
			changed = append(changed, o)
			in.tally.observed(old, -1)
			in.noteVersion(old)
		default:
			continue
		}
		in.tally.observed(o, +1)
		in.noteVersion(o)
	}
	for _, o := range in.retired {
		in.tally.observed(o, -1)
		in.noteVersion(o)
	}
	if err := insertObservations(ctx, in.tx, in.report, fresh); err != nil {
		return err
	}
	return updateObservations(ctx, in.tx, changed)
}

// noteVersion notes that the version of an observation's session may change.
func (in *ingestion) noteVersion(o observation) {
	if o.versionID != nil && o.triggered && o.sessionHash != "" {
		in.moved[Session{o.skillID, o.sessionHash}] = true
	}
}

// merge merges the observations of the report into the stored ones, one by one, so
// that the result does not depend on how reports are split.
func (in *ingestion) merge() {
	in.merged = maps.Clone(in.known)
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
	for id, o := range in.merged {
		o.skillID = in.skills[o.originID].countsFor
		in.merged[id] = o
	}
}
