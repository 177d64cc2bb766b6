package capture

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// gradingOutput is how the caller's sessions were graded, as --json prints it.
// Skills is never null: scripts iterate over it.
type gradingOutput struct {
	// Enabled is whether the organisation has a grader; without one only people and
	// producers grade.
	Enabled  bool         `json:"enabled"`
	Ungraded int          `json:"ungraded_sessions"` // sessions that used a skill and have no grade
	Skills   []skillGrade `json:"skills"`
}

// skillGrade is the pass rate of a skill, with who graded it; see term.Basis.
type skillGrade struct {
	Name             string             `json:"name"`
	PassRate         float64            `json:"pass_rate"`
	PassRateInterval *[2]float64        `json:"pass_rate_interval"`
	Basis            string             `json:"pass_rate_basis"`
	GradedSessions   int64              `json:"graded_sessions"`
	GradedByBasis    map[string]int64   `json:"graded_by_basis"`
	PassRatesByBasis map[string]float64 `json:"pass_rates_by_basis"`
}

// gradeSessions switches the organisation's grader on, waits until it has graded the
// sessions that the caller reported, and returns the pass rates of all skills. Sessions
// that stay ungraded are counted, not an error.
func (c *importCommand) gradeSessions(ctx context.Context, p *term.Program, s *server.Session) (*gradingOutput, error) {
	out := &gradingOutput{Skills: []skillGrade{}}
	var err error
	if out.Enabled, err = enableGrader(ctx, s); err != nil {
		return nil, err
	}
	if out.Enabled {
		if err := awaitGrades(ctx, p, s, time.Duration(c.Wait)); err != nil {
			return nil, err
		}
	}
	left, err := ungraded(ctx, s)
	if err != nil {
		return nil, err
	}
	out.Ungraded = left
	all, err := s.Skills(ctx, client.SkillFilter{})
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		// A skill without a graded session has no pass rate; it is left out.
		if k.PassRate == nil {
			continue
		}
		// The list has no interval and no counts by basis.
		detail, err := s.Skill(ctx, k.SkillID, 1)
		if err != nil {
			return nil, err
		}
		d := detail.Skill
		out.Skills = append(out.Skills, skillGrade{
			k.Name, *k.PassRate, d.PassRateInterval, orEmpty(d.PassRateBasis), d.GradedSessions, d.GradedByBasis,
			d.PassRatesByBasis,
		})
	}
	return out, nil
}

// enableGrader switches the grader on, which also grades existing sessions, and reports
// whether it is on. A caller who may not change it uses the setting as it is. All
// other fields of the grader are sent back as they were.
func enableGrader(ctx context.Context, s *server.Session) (bool, error) {
	g, err := s.Grader(ctx)
	if err != nil {
		return false, err
	}
	on := g.Enabled
	g.Enabled = true
	switch err := s.SetGrader(ctx, g); {
	case client.Status(err) == http.StatusForbidden:
		return on, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// The intervals of awaitGrades.
const (
	pollInterval = time.Second
	// idle is how long without a new grade means that there will be none: sessions wait
	// up to a minute and a half for the grader.
	idle = 100 * time.Second
)

// awaitGrades waits until every session of the caller that used a skill is graded, and
// none is queued for a better grade. It also returns, without an error, after wait or
// when no grade has arrived for a while: a session may be outside the sample or the
// daily budget, or have nothing to judge by.
func awaitGrades(ctx context.Context, p *term.Program, s *server.Session, wait time.Duration) error {
	progress := p.Progress()
	defer progress.Clear()
	deadline := time.Now().Add(wait)
	total, last, changed := 0, -1, time.Now()
	for {
		left, err := ungraded(ctx, s)
		if err != nil {
			return err
		}
		waiting, err := s.WaitingSessions(ctx)
		if err != nil {
			return err
		}
		// A session with a first grade may still wait for that of the judge.
		left = max(left, waiting)
		total = max(total, left)
		if left != last {
			last, changed = left, time.Now()
		}
		if left == 0 || time.Now().After(deadline) || time.Since(changed) > idle {
			return nil
		}
		progress.Show("%s  graded %d of %s", term.Bar(int64(total-left), int64(total)), total-left, term.Count(total, "session"))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// maxUngraded limits how many sessions are polled, and so waited for.
const maxUngraded = 1000

// ungraded counts the caller's newest sessions that used a skill and have no grade.
// Sessions without a skill have nothing to grade.
func ungraded(ctx context.Context, s *server.Session) (n int, err error) {
	all, err := s.Sessions(ctx, client.SessionFilter{User: "me", Graded: "false"}, maxUngraded)
	for _, one := range all {
		if slices.ContainsFunc(one.Skills, func(k client.SessionSkill) bool { return k.Activated }) {
			n++
		}
	}
	return n, err
}

// print prints the pass rates as a table, and why there are none if the judge could not
// work.
func (o gradingOutput) print(w io.Writer) {
	fmt.Fprintln(w)
	if !o.Enabled {
		fmt.Fprintln(w, "The organisation has no grader, and only an admin can switch it on: see Settings, Grading.")
	}
	if len(o.Skills) == 0 {
		fmt.Fprintln(w, "No skill has a graded session.")
	} else {
		fmt.Fprintln(w, "SKILL\tPASS RATE\tGRADED SESSIONS\tBASIS")
		for _, k := range o.Skills {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", term.Plain(k.Name), term.Rate(&k.PassRate, k.PassRateInterval), k.GradedSessions,
				term.Basis(k.GradedByBasis, k.PassRatesByBasis))
		}
	}
	if o.Ungraded > 0 {
		fmt.Fprintf(w, "Not graded: %s.\n", term.Count(o.Ungraded, "session"))
	}
	// A person's or a producer's grade says nothing about whether the judge works.
	judged := slices.ContainsFunc(o.Skills, func(k skillGrade) bool { return k.GradedByBasis["judge"] > 0 })
	if o.Enabled && !judged {
		fmt.Fprintln(w, "No session was judged: the judge needs a model (--judge-api of the server) and the content of sessions "+
			"(Settings, Content; then import --with-content). What happened in a session, e.g. failed tool calls, is only "+
			"a hint.")
	}
}
