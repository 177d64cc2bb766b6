package attempt

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
)

// record converts an agent's outcome into a Recording: the prompt, then answers, tool
// calls and failed requests by time, and at the end why the agent failed, if it did.
func record(t Task, r agents.Request, o agents.Outcome, started time.Time) recording.Recording {
	rec := recording.Recording{
		Agent: r.Agent, StartedAt: started, EndedAt: time.Now(), ToolCalls: len(o.Calls),
		Steps: []recording.Step{{Kind: recording.Prompt, At: started, Text: r.Instruction}},
	}
	// Without a price for each request the sum would look like a low cost.
	if o.Usage.Unpriced == 0 {
		rec.Micros = &o.Usage.Micros
	}
	for _, a := range o.Answers {
		rec.Steps = append(rec.Steps, recording.Step{
			Kind: recording.Response, At: a.At, Name: r.Model, Took: &a.Took, Tokens: &a.Tokens, Micros: a.Micros, Text: a.Text,
		})
		for _, c := range a.Calls {
			rec.Steps = append(rec.Steps, steps(t, c, a.At.Add(a.Took))...)
			if c.OK != nil && !*c.OK {
				rec.ToolErrors++
			}
		}
	}
	for _, f := range o.Failures {
		rec.Steps = append(rec.Steps, recording.Step{
			Kind: recording.Error, At: f.At, Name: string(agents.ModelError), Took: &f.Took, OK: new(bool), Text: f.Message,
		})
	}
	// Subagents ask the model concurrently, so answers and failures interleave.
	slices.SortStableFunc(rec.Steps, func(a, b recording.Step) int { return a.At.Compare(b.At) })
	if f := o.Failure; f != nil {
		rec.Steps = append(rec.Steps, recording.Step{
			Kind: recording.Error, At: rec.EndedAt, Name: string(f.Kind), OK: new(bool), Text: f.Message,
		})
	}
	return rec
}

// steps returns the step of a tool call, followed by the activation if the call loaded
// an installed skill.
func steps(t Task, c agents.Call, at time.Time) []recording.Step {
	all := []recording.Step{{
		Kind: recording.Tool, At: at, Name: c.Tool, Took: c.Took, OK: c.OK, Text: strings.TrimSpace(c.Input + "\n\n" + c.Output),
	}}
	if _, installed := t.Skills[c.Skill]; installed && c.Loads {
		activated := true
		all = append(all, recording.Step{Kind: recording.Activation, At: at, Name: c.Skill, OK: &activated})
	}
	return all
}

// A tree is the folder whose changes are recorded. Recording is best effort: an error
// makes the list incomplete, and doesn't affect the verdict.
type tree struct {
	// below is the read-only image under an overlay; "" if dir has all files.
	dir, below string
	before     *workdir.Snapshot
}

// treeOf returns the folder in which an agent's changes show: the task's root without
// an image, the upper layer of an image's overlay, or else the copied working folder.
func treeOf(w taskpkg.Workplace) tree {
	image := w.Spec.Root
	switch {
	case image == nil:
		return tree{dir: w.Root}
	case image.Changes != "":
		return tree{dir: image.Written(), below: image.Dir}
	}
	return tree{dir: w.Dir}
}

func (t *tree) begin() { t.before, _ = workdir.Take(t.dir, t.below) } // see tree

func (t *tree) changes() (files []workdir.File, more bool) {
	if t.before == nil {
		return nil, true
	}
	files, complete, err := t.before.Changes()
	return files, !complete || err != nil
}
