package runs_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestAgentInImages runs whole suites of tasks with images: one of two steps, whose
// cost is that of both, and one whose image has the skill already, so that there is
// nothing to compare with.
func TestAgentInImages(t *testing.T) {
	t.Parallel()
	images := environmentstest.New(t)
	w := runstest.New(t, storetest.Open(t, "sqlite"), withAgents(t, map[string][]modeltest.Reply{
		"first":  {useSkill("pdf"), shell("cat /etc/os-release >/app/first.txt"), say("Done.")},
		"second": {shell("cp /app/first.txt /app/second.txt"), say("Done.")},
		"read":   {say("Done.")},
	}), func(w *runstest.World) { w.Runs.Packages.Environments = images })
	c := w.Org("acme")
	w.Work()
	task := func(instruction string, files ...runstest.File) object {
		archive := runstest.Pack(files...)
		key := fmt.Sprintf("evals/%s/%x.tar.gz", c.Org.ID, sha256.Sum256(archive))
		if err := w.Blobs.Put(t.Context(), key, bytes.NewReader(archive), int64(len(archive))); err != nil {
			t.Fatal(err)
		}
		return object{"case_kind": "task_package", "environment_ref": "blob://" + key, "instruction": instruction}
	}
	text := func(name, content string) runstest.File { return runstest.File{Name: name, Text: content, Mode: 0o644} }
	program := func(name, content string) runstest.File { return runstest.File{Name: name, Text: content, Mode: 0o755} }
	verifier := func(name string) string {
		return "#!/bin/bash\ngrep -q ID=small /app/" + name + "\necho $((1 - $?)) >/logs/verifier/reward.txt\n"
	}
	run := c.Finish(c.Create(with(deterministic(
		task("whole", text("task.toml", "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n"),
			text("environment/Dockerfile", "FROM debian:12\nWORKDIR /app\n"),
			text("steps/one/instruction.md", "first"), program("steps/one/tests/test.sh", verifier("first.txt")),
			text("steps/two/instruction.md", "second"), program("steps/two/tests/test.sh", verifier("second.txt"))),
		task("read", text("task.toml", "version = '1.0'\n"), program("tests/test.sh", "#!/bin/bash\nexit 0\n"),
			text("environment/Dockerfile", "FROM debian:12\nWORKDIR /app\nCOPY skill.md /srv/skills/pdf/SKILL.md\n"),
			text("environment/skill.md", "Reads files.\n")),
	), object{"supports_no_skill": true})), claude, object{"baseline": "no_skill"})
	got := trialOf(t, run, 0, "skill", 1)
	want := apptest.Plain(t, object{"verdict": "pass", "activated": true, "turns": 5, "tool_calls": 3, "cost_usd": 5 * answerUSD})
	if diff := cmp.Diff(want, apptest.Pick(got, want)); diff != "" {
		t.Errorf("two steps (-want +got):\n%s\n%v", diff, got)
	}
	if got := trialOf(t, run, 1, "skill", 1); got["verdict"] != "pass" {
		t.Errorf("with the skill: %v", got)
	}
	got = trialOf(t, run, 1, "no_skill", 1)
	const contaminated = "contaminated: the environment has the file srv/skills/pdf/SKILL.md"
	if !strings.HasPrefix(fmt.Sprint(got["error"]), contaminated) {
		t.Errorf("without the skill: %v", got)
	}
}

// TestSilentAgent: an agent that asks no model has cost nothing, in its trial as in
// its run.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	w := runstest.New(t, storetest.Open(t, "sqlite"), withAgents(t, nil), func(w *runstest.World) {
		w.Runs.Agents.Commands["idle"] = agents.Command{Argv: []string{"/bin/true"}, SkillsDir: "~/skills"}
	})
	c := w.Org("acme")
	w.Work()
	silent := with(assertion("hello", "cost_usd == 0.0 && tokens == 0"), object{"agent": object{"name": "idle"}})
	run := c.Finish(c.Create(deterministic(silent, exact("given", "given"))))
	if got := trialOf(t, run, 0, "skill", 1); got["cost_usd"] != 0.0 {
		t.Errorf("a trial without requests: %v", got)
	}
	if got := trialOf(t, run, 1, "skill", 1); got["cost_usd"] != nil {
		t.Errorf("a trial without models: %v", got)
	}
	if cost := run["cost"].(object); cost["usd"] != 0.0 || cost["requests"] != 0.0 {
		t.Errorf("cost %v", cost)
	}
}
