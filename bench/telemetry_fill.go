package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	readSkills = 50
	readDays   = 30
	readGrowth = 1.5 // from few observations to many
)

// benchSkillsRead measures how soon somebody sees how a skill does. The answer
// must not slow down as observations come in.
func benchSkillsRead(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.readOn)
}

// A readSize is a number of observations.
type readSize struct {
	name  string
	count int
}

func (l *lab) readSizes() []readSize {
	sizes := []readSize{{"10 k", 10_000}, {"1 M", 1_000_000}, {"10 M", 10_000_000}}
	if l.quick {
		return sizes[:2]
	}
	return sizes
}

// readOn measures servers of all sizes, which take turns.
func (l *lab) readOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	reads := []struct{ name, path string }{{"one skill", "/v1/skills/observed-007"}, {"all skills", "/v1/skills"}}
	sizes := l.readSizes()
	var sides []side
	for _, size := range sizes {
		s, err := l.serveObserved(ctx, fresh, observer{count: size.count, skills: readSkills, days: readDays})
		if err != nil {
			return nil, err
		}
		defer s.stop()
		for _, read := range reads {
			req, err := s.request(ctx, http.MethodGet, read.path, nil)
			if err != nil {
				return nil, err
			}
			request, err := wire(req)
			if err != nil {
				return nil, err
			}
			// One client, for the time that it waits is the figure.
			sides = append(sides, l.steady(s, request, 1))
		}
	}
	sums, err := l.compare(ctx, sides...)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, read := range reads {
		few := sums[i]
		for j, size := range sizes[1:] {
			many := sums[(j+1)*len(reads)+i]
			name := fmt.Sprintf("skills-read: %s, %s, %s observations, ", database, read.name, size.name)
			rows = append(rows,
				row{Name: name + "p50", Figure: many.p50, Unit: "ms", Beside: sizes[0].name, Other: few.p50},
				row{Name: name + "p99", Figure: many.p99, Unit: "ms", Beside: sizes[0].name, Other: few.p99, AtMost: readGrowth})
		}
	}
	return rows, nil
}

// serveObserved starts a server on a database with what the observer writes.
func (l *lab) serveObserved(ctx context.Context, fresh func() (string, error), o observer) (*server, error) {
	url, err := fresh()
	if err != nil {
		return nil, err
	}
	data, err := l.folder("read")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return nil, err
	}
	if err := o.observe(ctx, s, url); err != nil {
		s.stop()
		return nil, fmt.Errorf("fill %d observations: %w", o.count, err)
	}
	return s, nil
}

// An observer writes observations and their numbers straight into the database
// of a running server.
type observer struct {
	db            *store.DB
	orgID, userID string
	count         int   // of observations
	skills, days  int   // that they are about
	firstDay      int64 // since the epoch
}

// dayMicros is a day as the databases count it.
const dayMicros = int64(24 * time.Hour / time.Microsecond)

func (o observer) observe(ctx context.Context, s *server, url string) error {
	if o.count == 0 {
		return nil
	}
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	o.db, o.orgID, o.userID = db, me.Organisation.ID, me.User.ID
	o.firstDay = store.Micros(time.Now())/dayMicros - int64(o.days) + 1
	if err := o.name(ctx); err != nil {
		return err
	}
	for first := 0; first < o.count; first += observedChunk {
		if err := o.observations(ctx, first, min(first+observedChunk, o.count)); err != nil {
			return err
		}
	}
	if err := o.numbers(ctx); err != nil {
		return err
	}
	return settle(ctx, db)
}

func (o *observer) name(ctx context.Context) error {
	for i := range o.skills {
		_, err := o.db.Exec(ctx, `INSERT INTO skills (id, org_id, name, created_at) VALUES ($1, $2, $3, $4)`,
			newID(), o.orgID, fmt.Sprintf("observed-%03d", i), store.Micros(time.Now()))
		if err != nil {
			return err
		}
	}
	return nil
}

// observedChunk bounds a transaction, and so SQLite's write-ahead log.
const observedChunk = 200_000

// counted is a list of the numbers n from $1 up to, not including, $2.
const counted = `WITH RECURSIVE counted (n) AS (
	SELECT CAST($1 AS BIGINT) UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < CAST($2 AS BIGINT)) `

// observations writes those from first up to end, in the order of time and of
// all skills by turns. Ten of a skill, one after the other, make a session.
func (o *observer) observations(ctx context.Context, first, end int) error {
	const (
		skills  = `CAST($5 AS BIGINT)`
		session = `'session------' || CAST(1000000000000000000 + n / (10 * ` + skills + `) * ` + skills + ` + n % ` + skills + ` AS TEXT)`
	)
	step := int64(o.days) * dayMicros / int64(o.count)
	_, err := o.db.Exec(ctx, counted+`
		INSERT INTO skill_observations (id, org_id, user_id, skill_id, session_hash, is_check, triggered, confidence,
			weight, mode, occurred_at, normalized_at)
		SELECT 'observation--' || CAST(1000000000000000000 + n AS TEXT), $3, $4, skills.id, `+session+`, TRUE, n % 3 > 0,
			n % 100 * 10000000, 1, 'implicit', CAST($6 AS BIGINT) + n * CAST($7 AS BIGINT), CAST($6 AS BIGINT)
		FROM counted JOIN skills ON skills.org_id = $3 AND skills.name = 'observed-' || substr(CAST(1000 + n % `+skills+` AS TEXT), 2)`,
		first, end, o.orgID, o.userID, o.skills, o.firstDay*dayMicros, step)
	if err != nil {
		return err
	}
	_, err = o.db.Exec(ctx, counted+`
		INSERT INTO skill_session_days (session_key, day, seen, triggers)
		SELECT `+session+`, CAST($3 AS BIGINT) + n * CAST($4 AS BIGINT) / CAST($6 AS BIGINT), 10, 6
		FROM counted WHERE n % (10 * `+skills+`) < `+skills,
		first, end, o.firstDay, step, o.skills, dayMicros)
	return err
}

// numbers counts the observations: every skill has as many on every day, and
// one in ten fails often.
func (o *observer) numbers(ctx context.Context) error {
	_, err := o.db.Exec(ctx, counted+`
		INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions,
			checks, triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
		SELECT skills.id, n, s, s, s, s, s * 10, s * 6, s * 3000000000, s * 6, s,
			s * CASE WHEN skills.name LIKE '%7' THEN 500000000 ELSE 900000000 END
		FROM counted CROSS JOIN skills CROSS JOIN (SELECT CAST($3 AS BIGINT) AS s) AS sessions`,
		o.firstDay, o.firstDay+int64(o.days), int64(max(1, o.count/o.skills/o.days/10)))
	if err != nil {
		return err
	}
	_, err = o.db.Exec(ctx, `
		INSERT INTO skill_totals (subject_id, unique_sessions, graded_sessions, first_seen_at, last_seen_at)
		SELECT subject_id, CAST(SUM(sessions) AS BIGINT), CAST(SUM(graded_sessions) AS BIGINT), $1, $2
		FROM skill_days GROUP BY subject_id`,
		o.firstDay*dayMicros, store.Micros(time.Now()))
	return err
}
