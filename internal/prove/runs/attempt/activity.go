package attempt

import (
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
)

// activityEvent is the name of the events that show, while a run goes on, what its
// agents are doing.
const activityEvent = "agent"

// activityData is the data of an activity event: one answer of the model.
type activityData struct {
	CaseID  string   `json:"case_id"`
	Variant string   `json:"variant"`
	N       int      `json:"n"`
	Turn    int      `json:"turn"`
	Text    string   `json:"text"` // redacted, then truncated
	Tools   []string `json:"tools"`
}

// Limits of activity events, each of which is a row: per trial, and per turn of the
// job.
const (
	maxTrialEvents = 100
	maxAgentEvents = 5_000 // of one turn of the job
	maxEventText   = 200
	maxRedacted    = 16 << 10 // bytes of a text
)

// An Activity collects what the agents of a run do, as events. Trials report
// concurrently; the events are stored with the next batch of trials.
type Activity struct {
	// Redact removes secrets from what is stored.
	Redact func(string) string

	mu     sync.Mutex
	events []sse.Event
	total  int
}

// Of returns a function that reports the answers of the model in a trial.
func (a *Activity) Of(caseID, variant string, n int) func(gateway.Answer) {
	turn := 0
	return func(answer gateway.Answer) {
		a.mu.Lock()
		defer a.mu.Unlock()
		turn++
		if a.total++; turn > maxTrialEvents || a.total > maxAgentEvents {
			return
		}
		data := activityData{
			CaseID: caseID, Variant: variant, N: n, Turn: turn, Tools: []string{},
			// Redact before shortening: half a secret isn't recognised.
			Text: text.Ellipsis(text.PlainLine(a.Redact(text.Truncate(answer.Text, maxRedacted))), maxEventText),
		}
		for _, c := range answer.Calls[:min(len(answer.Calls), 10)] {
			data.Tools = append(data.Tools, text.PlainLine(a.Redact(c.Tool)))
		}
		a.events = append(a.events, sse.New(activityEvent, data))
	}
}

// Take returns the events since the last call.
func (a *Activity) Take() []sse.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.events
	a.events = nil
	return events
}
