package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

const (
	days = 90
	// judgedDays is how far back alerts look, and a little more.
	judgedDays = 9
	// traceDays is of how many days the sessions have tool calls.
	traceDays = 10
	// gradedDays is of how many days all sessions that used a skill are graded. It is how far
	// back the graders look, which would grade the others by their outcomes.
	gradedDays = 31
	// mostlyPasses is the pass rate of a release from which on not only its kept sessions are
	// as recent as those.
	mostlyPasses = .8
	// perPush is the number of records in a push.
	perPush = 500
	// weekend is the number of sessions on a weekend day relative to a working day.
	weekend = .25
	// hardShare is the share of prompts that are hard to recognise, and missShare the
	// share of those for which the skill does not trigger.
	hardShare, missShare = .16, .7
	gradedShare          = .55
	expectations         = 5 // of a grading
)

// namespace makes ids that are the same in every demo.
var namespace = uuid.MustParse("0b8b5f5c-6c86-4c0b-9a43-7f3f2f8d9f21")

func idOf(format string, args ...any) string {
	return uuid.NewSHA1(namespace, fmt.Appendf(nil, format, args...)).String()
}

type object = map[string]any

// A batch holds the records of one person that were not pushed yet.
type batch struct {
	by      access.Caller
	number  int
	records map[string][]object
	size    int
}

func (p *batch) add(kind string, record object) {
	p.records[kind] = append(p.records[kind], record)
	p.size++
}

// clear empties the batch for the next push.
func (p *batch) clear() { *p = batch{by: p.by, number: p.number + 1, records: map[string][]object{}} }

func (f *filling) pushSessions(ctx context.Context) error {
	return f.sessions(func(p *batch) error { return f.push(ctx, p) })
}

// sessions generates the sessions of all people, oldest first, and sends them in
// batches.
func (f *filling) sessions(send func(*batch) error) error {
	batches := make([]*batch, len(f.people))
	for i, who := range f.people {
		batches[i] = &batch{by: who, records: map[string][]object{}}
	}
	for ago := days - 1; ago >= 0; ago-- {
		for _, s := range f.skills {
			for i, at := range f.times(s, ago) {
				if f.Thin > 1 && ago >= judgedDays && s.OnlySessions == 0 && (ago+i)%f.Thin != 0 {
					continue
				}
				p := batches[f.random.IntN(len(batches))] // a record belongs to the person who pushes it
				f.session(p, s, ago, at)
				if p.size < perPush {
					continue
				}
				if err := send(p); err != nil {
					return err
				}
			}
		}
		if ago%15 == 0 {
			fmt.Fprintf(f.Progress, "filling the demo organisation: sessions up to %d days ago\n", ago)
		}
	}
	for _, p := range batches {
		if err := send(p); err != nil {
			return err
		}
	}
	return nil
}

// dayStart returns the start of the day so many days ago.
func (f *filling) dayStart(ago int) time.Time {
	return f.now.Truncate(24*time.Hour).AddDate(0, 0, -ago)
}

// times returns when the sessions of a skill began on a day, none in the future.
// They are between 7:00 and 18:00 UTC and fewer on weekends, so that charts look like
// those of a team.
func (f *filling) times(s *published, ago int) []time.Time {
	if s.inUse(ago) < 0 || ago < s.QuietSince {
		return nil
	}
	if s.OnlySessions > 0 {
		if ago >= s.OnlySessions {
			return nil
		}
		return []time.Time{f.now.AddDate(0, 0, -ago).Add(-time.Hour)}
	}
	day := f.dayStart(ago)
	rate := s.PerDay * (.7 + .6*f.random.Float64())
	if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
		rate *= weekend
	}
	last := f.now
	if len(f.kept[s.Name].Sessions) > 0 && s.Releases[s.inUse(ago)].PassRate < mostlyPasses {
		last = last.Add(-keptFor)
	}
	var all []time.Time
	for range int(rate + f.random.Float64()) {
		at := day.Add(7*time.Hour + time.Duration(f.random.Int64N(int64(11*time.Hour))))
		if at.Before(last) {
			all = append(all, at)
		}
	}
	return all
}

// session adds the records of one session: which skills were on offer, one or two
// prompts, whether the skill triggered, model requests, execution facts, and often a
// grading.
func (f *filling) session(p *batch, s *published, ago int, at time.Time) {
	number := s.inUse(ago)
	id := idOf("session\n%s\n%s", s.Name, at)
	p.add("sessions", object{
		"session_id": id, "platform": "claude_code", "started_at": at.Format(time.RFC3339),
		"normalized_at": at.Format(time.RFC3339),
	})
	f.offer(p, s, id, ago, at)
	triggered := false
	for n := range 1 + f.random.IntN(4)/3 {
		later := at.Add(time.Duration(n) * 6 * time.Minute)
		if f.ask(p, s, turn{
			session: id, number: n, at: later, version: s.hashes[number], tokenShare: s.Releases[number].TokenShare,
		}) {
			triggered = true
		}
	}
	if ago < traceDays {
		f.callTools(p, id, at)
	}
	p.add("execution_facts", object{
		"execution_fact_id": id, "session_id": id, "occurred_at": at.Format(time.RFC3339),
		"total_tool_calls": 3 + f.random.IntN(20), "errors_encountered": f.random.IntN(3),
		"assistant_turns": 2 + f.random.IntN(9),
	})
	if triggered && (f.random.Float64() < gradedShare || s.OnlySessions > 0 || ago < gradedDays) {
		rate := s.Releases[number].PassRate
		if len(f.kept[s.Name].Sessions) > 0 && f.now.Sub(at) < keptFor {
			rate = 1
		}
		f.grade(p, s, id, rate, at.Add(20*time.Minute))
	}
}

// callTools adds the tool calls of a session's first turn. Every ninth session has
// one that fails.
func (f *filling) callTools(p *batch, session string, at time.Time) {
	tools := []string{"Read", "Grep", "Bash", "Edit", "Write", "Bash"}
	began, seed := at.Add(8*time.Second), int(at.Unix())
	for i := range 3 + seed%4 {
		took := time.Duration(120+(seed/7+i*977)%9000) * time.Millisecond
		p.add("tool_calls", object{
			"tool_call_id": fmt.Sprintf("%s-%d", session, i), "session_id": session, "platform": "claude_code",
			"occurred_at": began.Format(time.RFC3339Nano), "tool_name": tools[i%len(tools)], "duration_ms": took.Milliseconds(),
			"success": seed%9 > 0 || i != 2,
		})
		began = began.Add(took + 2*time.Second)
	}
}

// A turn is a prompt of a session.
type turn struct {
	session string
	number  int
	at      time.Time
	version string // content hash of the version in use
	// tokenShare is how many tokens that version takes, relative to the others; 0 means as many.
	tokenShare float64
}

// ask adds a prompt, and reports whether the skill triggered.
func (f *filling) ask(p *batch, s *published, t turn) bool {
	text, triggered := s.Asks[f.random.IntN(len(s.Asks))], true
	if f.random.Float64() < hardShare {
		text, triggered = s.Missed[f.random.IntN(len(s.Missed))], f.random.Float64() > missShare
	}
	id, at := fmt.Sprintf("%s-%d", t.session, t.number), t.at.Format(time.RFC3339)
	p.add("prompts", object{
		"prompt_id": id, "session_id": t.session, "occurred_at": at, "normalized_at": at,
		"prompt_text": text, "prompt_kind": "user", "prompt_index": t.number,
	})
	invocation := object{
		"skill_invocation_id": id, "session_id": t.session, "occurred_at": at, "normalized_at": at, "matched_prompt_id": id,
		"skill_name": s.Name, "invocation_mode": "implicit", "triggered": triggered,
	}
	if f.spending.IntN(6) > 0 { // not every agent reports which version it has
		invocation["skill_version_hash"] = t.version
	}
	if triggered && f.random.IntN(10) > 0 { // not every agent reports its confidence
		invocation["confidence"] = min(.99, max(.3, .84+.09*f.random.NormFloat64()))
	}
	p.add("skill_invocations", invocation)
	f.spend(p, s, t, id, triggered)
	return triggered
}

func (f *filling) grade(p *batch, s *published, session string, rate float64, at time.Time) {
	if at.After(f.now) {
		at = f.now
	}
	passed := 0
	for range expectations {
		if f.random.Float64() < rate {
			passed++
		}
	}
	p.add("grading_results", object{
		"grading_id": session, "session_id": session, "skill_name": s.Name, "graded_at": at.Format(time.RFC3339),
		"passed_count": passed, "failed_count": expectations - passed, "total_count": expectations,
		"pass_rate": float64(passed) / expectations,
	})
}

// push sends a batch. A rejected record is a bug of the demo.
func (f *filling) push(ctx context.Context, p *batch) error {
	if p.size == 0 {
		return nil
	}
	body, err := json.Marshal(object{
		"schema_version": "2.0", "push_id": idOf("push\n%s\n%d", p.by.UserID, p.number), "canonical": p.records,
	})
	if err != nil {
		return err
	}
	result, err := f.Telemetry.Push(ctx, p.by, body)
	if err != nil {
		return err
	}
	if len(result.Rejected) > 0 {
		return fmt.Errorf("a %s was rejected: %s", result.Rejected[0].Kind, result.Rejected[0].Message)
	}
	p.clear()
	return nil
}
