package runs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

func requiring(name, needs string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\nmetadata:\n  requires: \"" + needs + "\"\n---\nThe words of " + name + ".\n"
}

// TestRequired has the skills that a skill requires in all arms, with their content,
// and goes on without those that are missing.
func TestRequired(t *testing.T) {
	t.Parallel()
	scripts := map[string][]modeltest.Reply{
		"list": {shell("grep -rhl 'The words of' ~/.claude/skills | wc -l >n.txt; grep -rh 'The words of' ~/.claude/skills | sort >words.txt"), say("Done.")},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, withAgents(t, scripts))
		c := w.Org("acme")
		w.Work()
		fonts := c.Publish("fonts", requiring("fonts", "report")) // leads back
		c.Publish("charts", requiring("charts", "fonts"))
		c.Publish("colours", requiring("colours", ""))
		report := c.Publish("report", requiring("report", "colours >= 2"), requiring("report", "charts, none >= 1"))
		body := deterministic(assertion("list",
			`files["words.txt"] == "The words of charts.\nThe words of colours.\nThe words of fonts.\nThe words of report.\n"`))
		suite := c.Create(with(body, object{"supports_no_skill": true}))
		run := c.Finish(suite, claude, object{"subject": object{"entry_id": report}, "baseline": "previous"})
		if diff := cmp.Diff([]any{"pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, trialOf(t, run, 0, "skill", 1))
		}
		if got := trialOf(t, run, 0, "previous", 1); got["verdict"] != "pass" {
			t.Errorf("the previous version has other skills beside it: %v", got)
		}
		var states []string
		for _, r := range apptest.List(t, run, "requires") {
			states = append(states, apptest.Text(r, "name")+" "+apptest.Text(r, "state"))
		}
		if diff := cmp.Diff([]string{"charts met", "none missing", "fonts met", "colours unmet"}, states); diff != "" {
			t.Errorf("requires (-want +got):\n%s", diff)
		}
		without := deterministic(assertion("list", `files["words.txt"] == "The words of charts.\nThe words of fonts.\n"`))
		run = c.Finish(c.Create(with(without, object{"supports_no_skill": true})), claude,
			object{"subject": object{"entry_id": report}, "baseline": "no_skill"})
		if got := trialOf(t, run, 0, "no_skill", 1); got["verdict"] != "pass" {
			t.Errorf("without the skill: %v", got)
		}

		// A source names its skill by the same rules; the pins stay when others are pushed.
		source := c.SourceOf(requiring("pdf", "fonts"))
		routed := c.Finish(c.Create(judged(trigger("does fonts"))), object{"subject": object{"source_id": source}})
		want := apptest.Plain(t, []object{
			{"name": "fonts", "organisation": "acme", "entry_id": fonts, "version": "1.0.0", "state": "met"},
			{"name": "report", "version": "2.0.0"},
			{"name": "charts"},
			{"name": "none", "state": "missing"},
		})
		for i, r := range apptest.List(t, routed, "requires") {
			if diff := cmp.Diff(want.([]any)[i], apptest.Pick(r, want.([]any)[i])); diff != "" {
				t.Errorf("of a source (-want +got):\n%s", diff)
			}
		}
		if got := trialOf(t, routed, 0, "skill", 1); got["verdict"] != "fail" { // the required skill is offered, and chosen
			t.Errorf("trial %v", got)
		}
	})
}
