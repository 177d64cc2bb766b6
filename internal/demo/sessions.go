package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
)

const (
	days = 90
	// perPush is how many records one push carries.
	perPush = 500
	// weekend is the share of a working day's sessions that a day off has.
	weekend = .25
	// hardShare is how many of the prompts are worded so that skills do not
	// come by themselves, and missShare is how often they then do not.
	hardShare, missShare = .16, .7
	gradedShare          = .55
	expectations         = 5 // of a grading
)

// namespace makes names that are the same whenever the demo is filled.
var namespace = uuid.MustParse("0b8b5f5c-6c86-4c0b-9a43-7f3f2f8d9f21")

func nameOf(format string, args ...any) string {
	return uuid.NewSHA1(namespace, fmt.Appendf(nil, format, args...)).String()
}

type object = map[string]any

// A parcel is what one person's machine has not pushed yet.
type parcel struct {
	by      access.Caller
	number  int
	records map[string][]object
	size    int
}

func (p *parcel) add(kind string, record object) {
	p.records[kind] = append(p.records[kind], record)
	p.size++
}

// clear makes room for the next push.
func (p *parcel) clear() { *p = parcel{by: p.by, number: p.number + 1, records: map[string][]object{}} }

func (f *filling) pushSessions(ctx context.Context) error {
	return f.sessions(func(p *parcel) error { return f.push(ctx, p) })
}

// sessions sends what everybody's sessions left behind, oldest first.
func (f *filling) sessions(send func(*parcel) error) error {
	parcels := make([]*parcel, len(f.people))
	for i, who := range f.people {
		parcels[i] = &parcel{by: who, records: map[string][]object{}}
	}
	for ago := days - 1; ago >= 0; ago-- {
		for _, s := range f.skills {
			for i, at := range f.times(s, ago) {
				if f.Thin > 1 && s.onlySessions == 0 && (ago+i)%f.Thin != 0 {
					continue
				}
				p := parcels[f.random.IntN(len(parcels))]
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
	for _, p := range parcels {
		if err := send(p); err != nil {
			return err
		}
	}
	return nil
}

// dayStart is the first moment of a day.
func (f *filling) dayStart(ago int) time.Time {
	return f.now.Truncate(24*time.Hour).AddDate(0, 0, -ago)
}

// times are when the sessions of a skill began on a day. Nothing is in the
// future.
func (f *filling) times(s *published, ago int) []time.Time {
	if s.inUse(ago) < 0 || ago < s.quietSince {
		return nil
	}
	if s.onlySessions > 0 {
		if ago >= s.onlySessions {
			return nil
		}
		return []time.Time{f.now.AddDate(0, 0, -ago).Add(-time.Hour)}
	}
	day := f.dayStart(ago)
	rate := s.perDay * (.7 + .6*f.random.Float64())
	if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
		rate *= weekend
	}
	var all []time.Time
	for range int(rate + f.random.Float64()) {
		at := day.Add(7*time.Hour + time.Duration(f.random.Int64N(int64(11*time.Hour))))
		if at.Before(f.now) {
			all = append(all, at)
		}
	}
	return all
}

// session writes down one session: one or two prompts, whether the skill came,
// what was done, and often a verdict.
func (f *filling) session(p *parcel, s *published, ago int, at time.Time) {
	number := s.inUse(ago)
	id := nameOf("session\n%s\n%s", s.name, at)
	p.add("sessions", object{
		"session_id": id, "platform": "claude_code", "started_at": at.Format(time.RFC3339), "normalized_at": at.Format(time.RFC3339),
	})
	came := false
	for n := range 1 + f.random.IntN(4)/3 {
		if f.ask(p, s, turn{session: id, number: n, at: at.Add(time.Duration(n) * 6 * time.Minute), version: s.hashes[number]}) {
			came = true
		}
	}
	p.add("execution_facts", object{
		"execution_fact_id": id, "session_id": id, "occurred_at": at.Format(time.RFC3339),
		"total_tool_calls": 3 + f.random.IntN(20), "errors_encountered": f.random.IntN(3), "assistant_turns": 2 + f.random.IntN(9),
	})
	if came && (s.onlySessions > 0 || f.random.Float64() < gradedShare) {
		f.grade(p, s, id, s.releases[number].passRate, at.Add(20*time.Minute))
	}
}

// A turn is a prompt of a session.
type turn struct {
	session string
	number  int
	at      time.Time
	version string // content hash of the version in use
}

// ask writes down a prompt, and reports whether the skill came.
func (f *filling) ask(p *parcel, s *published, t turn) bool {
	text, came := s.asks[f.random.IntN(len(s.asks))], true
	if f.random.Float64() < hardShare {
		text, came = s.missed[f.random.IntN(len(s.missed))], f.random.Float64() > missShare
	}
	id, at := fmt.Sprintf("%s-%d", t.session, t.number), t.at.Format(time.RFC3339)
	p.add("prompts", object{
		"prompt_id": id, "session_id": t.session, "occurred_at": at, "normalized_at": at, "prompt_text": text, "prompt_kind": "user", "prompt_index": t.number,
	})
	invocation := object{
		"skill_invocation_id": id, "session_id": t.session, "occurred_at": at, "normalized_at": at, "matched_prompt_id": id,
		"skill_name": s.name, "skill_version_hash": t.version, "invocation_mode": "implicit", "triggered": came,
	}
	if came && f.random.IntN(10) > 0 { // not every agent says how sure it was
		invocation["confidence"] = min(.99, max(.3, .84+.09*f.random.NormFloat64()))
	}
	p.add("skill_invocations", invocation)
	return came
}

func (f *filling) grade(p *parcel, s *published, session string, rate float64, at time.Time) {
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
		"grading_id": session, "session_id": session, "skill_name": s.name, "graded_at": at.Format(time.RFC3339),
		"passed_count": passed, "failed_count": expectations - passed, "total_count": expectations, "pass_rate": float64(passed) / expectations,
	})
}

// push sends what a parcel holds. A record that is refused is a mistake of ours.
func (f *filling) push(ctx context.Context, p *parcel) error {
	if p.size == 0 {
		return nil
	}
	body, err := json.Marshal(object{
		"schema_version": "2.0", "push_id": nameOf("push\n%s\n%d", p.by.UserID, p.number), "canonical": p.records,
	})
	if err != nil {
		return err
	}
	result, err := f.Telemetry.Push(ctx, p.by, body)
	if err != nil {
		return err
	}
	if len(result.Rejected) > 0 {
		return fmt.Errorf("a %s was refused: %s", result.Rejected[0].Kind, result.Rejected[0].Message)
	}
	p.clear()
	return nil
}
