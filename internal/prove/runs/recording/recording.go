// Package recording stores what an agent did in a trial (prompts, answers, tool calls,
// changed files), so that a trial opens like a session. A recording is a blob of
// gzipped JSON; rows of eval_trial_recordings, a table of package runs, refer to them.
package recording

import (
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
)

// A Recording is what an agent did in a trial.
type Recording struct {
	Agent     string    `json:"agent"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// ToolCalls, ToolErrors and Micros count all steps, also those beyond the limits.
	// Micros is the cost in millionths of a dollar, nil if a price is unknown.
	ToolCalls  int    `json:"tool_calls"`
	ToolErrors int    `json:"tool_errors"`
	Micros     *int64 `json:"micros"`
	Steps      []Step `json:"steps"` // oldest first
	// MoreSteps and MoreFiles report that a list is not complete.
	MoreSteps bool `json:"more_steps,omitempty"`
	// Files are the files that differ from the start of the trial, sorted by path.
	Files     []workdir.File `json:"files"`
	MoreFiles bool           `json:"more_files,omitempty"`
}

// A Kind is the kind of a step. The values are those of session events, so the same
// page shows both.
type Kind string

// The kinds of steps.
const (
	Prompt     Kind = "prompt"     // the instruction of the case, or of a step of its task
	Response   Kind = "response"   // an answer of the model
	Tool       Kind = "tool"       // a call of a tool
	Activation Kind = "activation" // of a skill
	Error      Kind = "error"      // a request without an answer, or how the agent failed
)

// A Step is one thing that happened in a trial.
type Step struct {
	Kind   Kind           `json:"kind"`
	At     time.Time      `json:"at"`
	Name   string         `json:"name,omitempty"` // of the model, tool, skill or error
	Took   *time.Duration `json:"took,omitempty"`
	OK     *bool          `json:"ok,omitempty"`
	Tokens *int64         `json:"tokens,omitempty"`
	Micros *int64         `json:"micros,omitempty"`
	Text   string         `json:"text,omitempty"`
}

// Limits of a recording: steps, and bytes of text.
const (
	maxSteps = 20_000 // as of a session
	maxText  = 16 << 10
	minText  = 8 // less cannot be read
	// maxTexts bounds the texts of one recording, and maxRun those of all recordings of
	// a run: a run of many trials keeps less of each, but at least minTexts.
	maxTexts = 1 << 20
	maxRun   = 256 << 20
	minTexts = 32 << 10
)

// TextLimit returns how many bytes of text are kept of each trial in a run of so many.
func TextLimit(trials int) int { return min(maxTexts, max(minTexts, maxRun/max(1, trials))) }

// Then appends what an agent did in the next step of a task. The cost of both is
// unknown if that of either is.
func (r Recording) Then(next Recording) Recording {
	if r.StartedAt.IsZero() {
		return next
	}
	r.EndedAt = next.EndedAt
	r.ToolCalls += next.ToolCalls
	r.ToolErrors += next.ToolErrors
	if r.Micros != nil && next.Micros != nil {
		sum := *r.Micros + *next.Micros
		r.Micros = &sum
	} else {
		r.Micros = nil
	}
	r.Steps = slices.Concat(r.Steps, next.Steps)
	r.Files = workdir.Merge(r.Files, next.Files)
	r.MoreSteps, r.MoreFiles = r.MoreSteps || next.MoreSteps, r.MoreFiles || next.MoreFiles
	return r
}

// MovedTo returns the recording as if it had begun at another time.
func (r Recording) MovedTo(start time.Time) Recording {
	by := start.Sub(r.StartedAt)
	r.StartedAt, r.EndedAt, r.Steps = start, r.EndedAt.Add(by), slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].At = r.Steps[i].At.Add(by)
	}
	return r
}

// limited returns the recording as it may be stored: without secrets, and with at most
// limit bytes of text, a quarter of which is for files. Secrets are removed before
// truncating: half a secret isn't recognised.
func (r Recording) limited(redact func(string) string, limit int) Recording {
	left := limit / 4
	keep := func(s string) string {
		most := min(maxText, left)
		if most < minText {
			return ""
		}
		// Only twice of what is kept is redacted: a text may have megabytes.
		s = text.EllipsisBytes(text.Clean(redact(text.Truncate(s, 2*most))), most)
		left -= len(s)
		return s
	}
	r.Files = slices.Clone(r.Files)
	for i, f := range r.Files {
		r.Files[i].Path, r.Files[i].Diff = text.Clean(redact(f.Path)), keep(f.Diff)
		if f.Text != nil {
			kept := keep(*f.Text)
			r.Files[i].Text, r.Files[i].Truncated = &kept, f.Truncated || len(kept) < len(*f.Text)
		}
	}
	if len(r.Steps) > maxSteps {
		r.Steps, r.MoreSteps = r.Steps[:maxSteps], true
	}
	// What the files left of their quarter is for the steps.
	left += limit - limit/4
	r.Steps = slices.Clone(r.Steps)
	for i, s := range r.Steps {
		r.Steps[i].Name, r.Steps[i].Text = redact(s.Name), keep(s.Text)
	}
	return r
}
