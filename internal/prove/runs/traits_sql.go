package runs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// Traits are what the trials of a run were made with, as far as only the trials know: a run
// says which model was asked, they say which one answered.
type Traits struct {
	Passed, Decided, Errors int // trials with the skill
	// These are sorted, each once. Agents have their versions, e.g. "claude-code 2.1.0".
	Agents, Models, Images, Judges []string
}

// TraitsOf reads the traits of a run.
func TraitsOf(ctx context.Context, q store.Querier, runID string) (t Traits, err error) {
	rows, err := q.Query(ctx, `SELECT variant, verdict, evidence FROM eval_run_trials WHERE run_id = $1`, runID)
	err = store.Each(rows, err, func(row store.Row) error {
		var arm Arm
		var verdict Verdict
		var raw string
		if err := row.Scan(&arm, &verdict, &raw); err != nil {
			return err
		}
		if arm == WithSkill {
			switch verdict {
			case Pass:
				t.Passed, t.Decided = t.Passed+1, t.Decided+1
			case Fail:
				t.Decided++
			case Error:
				t.Errors++
			case Skipped:
			}
		}
		var e struct {
			Agent    *attempt.Evidence `json:"agent"`
			Producer *judge.Record     `json:"producer"`
			Judge    *judge.Record     `json:"judge"`
			Package  *taskpkg.Evidence `json:"package"`
		}
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			return err
		}
		if a := e.Agent; a != nil {
			t.Agents, t.Models = with(t.Agents, a.Name+" "+a.Version), with(t.Models, a.Answered)
		}
		if e.Producer != nil {
			t.Models = with(t.Models, e.Producer.Model)
		}
		if e.Judge != nil {
			t.Judges = with(t.Judges, e.Judge.Model)
		}
		if p := e.Package; p != nil {
			t.Images = with(with(t.Images, p.Image), p.Digest)
		}
		return nil
	})
	return t, err
}

// with adds a name to a sorted list that has each once.
func with(all []string, name string) []string {
	name = strings.TrimSpace(name)
	at, found := slices.BinarySearch(all, name)
	if found || name == "" {
		return all
	}
	return slices.Insert(all, at, name)
}
