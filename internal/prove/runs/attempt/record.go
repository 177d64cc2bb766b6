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

// record tells what an agent did, step by step.
func record(t Task, r agents.Request, o agents.Outcome, started time.Time) recording.Recording {
	rec := recording.Recording{
		Agent: r.Agent, StartedAt: started, EndedAt: time.Now(), ToolCalls: len(o.Calls),
		Steps: []recording.Step{{Kind: recording.Prompt, At: started, Text: r.Instruction}},
	}
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
	// Subagents ask the model at the same time.
	slices.SortStableFunc(rec.Steps, func(a, b recording.Step) int { return a.At.Compare(b.At) })
	if f := o.Failure; f != nil {
		rec.Steps = append(rec.Steps, recording.Step{
			Kind: recording.Error, At: rec.EndedAt, Name: string(f.Kind), OK: new(bool), Text: f.Message,
		})
	}
	return rec
}

// steps are the call of a tool, and the activation of a skill by it.
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

// A tree is the folder whose changes are recorded. Not to know them is no reason
// against a verdict, so errors mean that they are incomplete.
type tree struct {
	dir, below string
	before     *workdir.Snapshot
}

// treeOf returns what an agent can change of a task: in an image, what overlays it,
// or the working folder if it is a copy.
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
