package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// A Look is how a skill stood at a time; its pass rate is that of WindowDays.
type Look struct {
	At time.Time
	skills.Standing
}

// Replay reports for each of a skill's looks, oldest first, whether the rule
// would have been firing then. Between two of them rules look many times.
func (r Rule) Replay(looks []Look) []bool {
	state := State{State: ok}
	fired := make([]bool, len(looks))
	for i, l := range looks {
		found := r.judge(l.Standing, l.At)
		for range goodToResolve {
			state, _, _ = state.next(found, l.At)
		}
		fired[i] = state.State == firing
	}
	return fired
}
