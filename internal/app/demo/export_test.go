package demo

import (
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A Verdict is a grading that the demo would push.
type Verdict struct {
	PassRate float64
	Age      time.Duration
}

// Verdicts returns the gradings by skill that a filling would have, and how
// many records it would push.
func Verdicts(now time.Time, thin int) (map[string][]Verdict, int) {
	f := &filling{Filler: &Filler{Progress: io.Discard, Thin: thin}, now: now, random: newRandom(), spending: newSpending(), people: make([]access.Caller, 5), kept: read[map[string]keptSkill]("sessions.yaml")}
	for _, s := range read[[]skill]("skills.yaml") {
		f.skills = append(f.skills, &published{skill: s, hashes: make([]string, len(s.Releases))})
	}
	all, records := map[string][]Verdict{}, 0
	err := f.sessions(func(p *batch) error {
		for _, g := range p.records["grading_results"] {
			at, err := time.Parse(time.RFC3339, g["graded_at"].(string))
			if err != nil {
				return err
			}
			name := g["skill_name"].(string)
			all[name] = append(all[name], Verdict{g["pass_rate"].(float64), now.Sub(at)})
		}
		records += p.size
		p.clear()
		return nil
	})
	if err != nil {
		panic(err) // we made the times
	}
	return all, records
}
