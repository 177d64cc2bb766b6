package grades

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// run is the job that grades the sessions of an organisation that wait for it.
type run struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (run) Kind() string { return "grades.run" }

// Org makes the job a run: it waits for a model.
func (r run) Org() string { return r.OrgID }

// backlog is the job that queues the sessions of the last days, after a grader was
// enabled.
type backlog struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (backlog) Kind() string { return "grades.backlog" }

// due is the job that starts runs for sessions that have waited long enough.
type due struct{}

// Kind names the job.
func (due) Kind() string { return "grades.due" }

// The times of the queue.
const (
	// settle is how long a session waits for more reports of it: an import sends a
	// long one in several.
	settle = 20 * time.Second
	// outage is how long the judge is left alone after it could not be reached.
	outage = 10 * time.Minute
	// retry is how long a session waits after an answer that was no verdict.
	retry = time.Hour
	// keep is how long a session waits for its turn in the sample.
	keep = 48 * time.Hour
	// lookback is which sessions are queued after a grader was enabled.
	lookback = 30 * 24 * time.Hour
	runTime  = 20 * time.Minute
)

// Register makes the queue run the jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, r run) error { return s.run(ctx, r.OrgID) }, jobs.Timeout(runTime))
	jobs.Handle(s.Jobs, func(ctx context.Context, b backlog) error { return s.queueBacklog(ctx, b.OrgID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ due) error { return s.startDue(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, l labelling) error { return s.LabelFailures(ctx, l.OrgID, l.SkillID) })
	s.Jobs.Every(time.Minute, due{})
}

// startDue starts a run for each organisation with sessions that are due.
func (s *Service) startDue(ctx context.Context) error {
	orgs, err := orgsWithDue(ctx, s.DB, store.Now())
	if err != nil || len(orgs) == 0 {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, orgID := range orgs {
			if err := s.Jobs.Enqueue(ctx, tx, run{OrgID: orgID}, jobs.Unique(orgID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A waiting is a row of grade_queue: a session that activated a skill, and waits
// for the skill's grader.
type waiting struct {
	sessionHash, skillID string
	orgID                string
	userID               string // whose session it is
	attempts             int
	queuedAt, dueAt      time.Time
}

// Reported implements sessions.Grader: sessions of which something was reported are
// graded, if the organisation has a grader.
func (s *Service) Reported(ctx context.Context, tx *store.Tx, orgID string, ids []string) error {
	enabled, err := hasGrader(ctx, tx, orgID)
	if err != nil || !enabled {
		return err
	}
	return s.enqueue(ctx, tx, orgID, ids, settle)
}

// enqueue queues the activated skills of sessions that have no better grade, to be
// graded after a time.
func (s *Service) enqueue(ctx context.Context, tx *store.Tx, orgID string, ids []string, after time.Duration) error {
	used, err := s.Sessions.Ungraded(ctx, tx, ids)
	if err != nil || len(used) == 0 {
		return err
	}
	now := store.Now()
	return insertQueued(ctx, tx, orgID, used, now, now.Add(after))
}

// queueBacklog queues the sessions of the last days, page by page, to be graded at
// once: whoever enabled a grader waits for it. It may run twice.
func (s *Service) queueBacklog(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "queue the backlog of organisation %s", orgID)
	since, ungraded := store.Now().Add(-lookback), false
	f := sessions.Filter{Graded: &ungraded, Since: &since, Limit: 200}
	for {
		page, next, err := s.Sessions.List(ctx, access.Caller{OrgID: orgID}, f)
		if err != nil {
			return err
		}
		var ids []string
		for _, one := range page {
			ids = append(ids, one.ID)
		}
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.enqueue(ctx, tx, orgID, ids, 0) }); err != nil {
			return err
		}
		if f.Cursor = next; next != "" {
			continue
		}
		// Sessions that have a grade by their outcomes wait for a better one.
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return hasten(ctx, tx, orgID, store.Now()) }); err != nil {
			return err
		}
		return s.startDue(ctx)
	}
}

// GradeNow grades sessions of an organisation without waiting for the jobs: for the demo, whose
// judge is gone when jobs run.
func (s *Service) GradeNow(ctx context.Context, orgID string, ids []string) error {
	if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.enqueue(ctx, tx, orgID, ids, 0) }); err != nil {
		return err
	}
	return s.run(ctx, orgID)
}

// chunk is how many sessions of a skill are graded at a time.
const chunk = 200

// run grades all sessions of an organisation that are due, skill by skill.
func (s *Service) run(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "grade sessions of organisation %s", orgID)
	names, err := skillsWithDue(ctx, s.DB, orgID, store.Now())
	if err != nil || len(names) == 0 {
		return err
	}
	bench := &bench{Service: s, orgID: orgID}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if err := bench.gradeSkill(ctx, id, names[id]); err != nil {
			return err
		}
	}
	return nil
}

// bench grades the sessions of one organisation.
type bench struct {
	*Service
	orgID string
	down  bool // the judge cannot be reached
}

// gradeSkill grades the sessions of a skill that are due, in the order of the
// sample. Each is taken off the queue or put back for later, so this ends. The grader is
// read after the queue: one that is enabled later queues its sessions once more.
func (b *bench) gradeSkill(ctx context.Context, skillID, name string) error {
	for graded := false; ; graded = true {
		all, err := dueSessions(ctx, b.DB, b.orgID, skillID, store.Now(), chunk)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			if !graded {
				return nil
			}
			return b.DB.InTx(ctx, func(tx *store.Tx) error { return b.enqueueLabels(ctx, tx, b.orgID, skillID) })
		}
		graders, err := gradersOf(ctx, b.DB, b.orgID, []string{skillID})
		if err != nil {
			return err
		}
		g := effective(graders, skillID)
		if !g.Enabled {
			if err := b.DB.InTx(ctx, func(tx *store.Tx) error { return drop(ctx, tx, all) }); err != nil {
				return err
			}
			continue
		}
		if len(g.Expectations) == 0 {
			if g.Expectations, err = b.draft(ctx, b.orgID, skillID, name); err != nil {
				return err
			}
		}
		if err := b.gradeChunk(ctx, all, name, g); err != nil {
			return err
		}
	}
}

// gradeChunk grades sessions by their outcomes, and then by the judge those whose
// text is kept.
func (b *bench) gradeChunk(ctx context.Context, all []waiting, name string, g Grader) error {
	ids, keys := make([]string, len(all)), make([]skills.Session, len(all))
	for i, w := range all {
		ids[i], keys[i] = w.sessionHash, skills.Session{SkillID: w.skillID, Hash: w.sessionHash}
	}
	known, err := b.Sessions.ByID(ctx, ids)
	if err != nil {
		return err
	}
	signals, err := b.Sessions.Signals(ctx, ids)
	if err != nil {
		return err
	}
	states, err := skills.SessionStates(ctx, b.DB, keys)
	if err != nil {
		return err
	}
	var finished []waiting
	for i, w := range all {
		of, ok := known[w.sessionHash]
		grade := states[keys[i]].Grade
		switch {
		case ok && grade != nil && grade.Basis == basis.Person && w.calibrates():
			// The judge reads it without what people said of it: no pass rate changes.
		case !ok, grade != nil && grade.Basis != basis.Outcome:
			finished = append(finished, w)
			continue
		case of.End(store.Now()) == nil:
			if err := b.postpone(ctx, []waiting{w}, of.LastAt.Add(sessions.Quiet)); err != nil {
				return err
			}
			continue
		}
		if grade == nil || grade.Basis == basis.Outcome {
			if err := b.gradeByOutcome(ctx, w, name, g, of, signals[w.sessionHash]); err != nil {
				return err
			}
		}
		judged, err := b.judgeSession(ctx, w, name, g, of)
		if err != nil {
			return err
		}
		if judged {
			finished = append(finished, w)
		}
	}
	return b.done(ctx, finished)
}

// calibrates reports whether the judge reads a session that a person graded first: every
// other one, by its hash. Else all pairs of the calibration would be sessions that people
// chose after they had seen the judge's verdict.
func (w waiting) calibrates() bool {
	hash := skills.ID("", "", "calibration", w.sessionHash+"\n"+w.skillID)
	return strings.IndexByte("02468ace", hash[len(hash)-1]) >= 0
}

func (b *bench) done(ctx context.Context, all []waiting) error {
	if len(all) == 0 {
		return nil
	}
	return b.DB.InTx(ctx, func(tx *store.Tx) error { return dequeue(ctx, tx, all) })
}

// postpone puts sessions back into the queue until a time, or drops those that have
// waited too long.
func (b *bench) postpone(ctx context.Context, all []waiting, until time.Time) error {
	late := func(w waiting) bool { return until.Sub(w.queuedAt) > keep }
	if err := b.done(ctx, slices.DeleteFunc(slices.Clone(all), func(w waiting) bool { return !late(w) })); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(all), late)
	if len(left) == 0 {
		return nil
	}
	return b.DB.InTx(ctx, func(tx *store.Tx) error { return requeue(ctx, tx, left, until) })
}
