package runs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		assert := func(assertion string, argv ...string) object {
			return object{"case_kind": "boolean_assertion", "command": argv, "assertion": assertion}
		}
		suite := c.Create(with(deterministic(
			object{
				"case_kind": "exact_match", "command": []string{"/skill/scripts/hello.sh"}, "expected": "hello",
				"normalize": []string{"trim"},
			},
			assert(`exit_code == 3 && output == ""`, "sh", "-c", "exit 3"),
			assert(`files["out/a.txt"] == "done\n" && !("link" in files)`, "sh", "-c",
				"mkdir out; echo done > out/a.txt; ln -s /etc/passwd link"),
			assert(`output == "no\n"`, "sh", "-c", "touch $SKILL_DIR/x 2>/dev/null || echo no"),
			assert(`output.contains("no_skill")`, "sh", "-c", "echo $SKILL_MODE $SKILL_DIR"),
		), object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "no_skill"})
		if diff := cmp.Diff([]any{"pass", "pass", "pass", "pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, run["cases"])
		}
		cases := apptest.List(t, run, "cases")
		for i, want := range []any{"fail", "pass", "pass", "pass", "pass"} { // without the skill there is no /skill/scripts
			if got := cases[i]["baseline_verdict"]; got != want {
				t.Errorf("baseline of case %d is %v, want %v", i, got, want)
			}
		}
	})
}

// TestCommandLimits: the limits of a suite are those of its commands.
func TestCommandLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(with(
			deterministic(object{"case_kind": "exact_match", "command": []string{"sleep", "60"}, "expected": ""}),
			object{"resource_limits_json": object{"timeout_ms": 200, "memory_mb": "ignored"}},
		)))
		trial := apptest.List(t, apptest.List(t, run, "cases")[0], "trials")[0]
		if trial["verdict"] != "fail" || !strings.Contains(fmt.Sprint(trial["evidence"]), "timeout") {
			t.Errorf("the trial is %v", trial)
		}
	})
}

// TestCommandDefects: what a program causes is a fail, whatever the case expects,
// since a skill that cannot pass must not be able to leave the rate. Only what is
// missing on the machine is an error.
func TestCommandDefects(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		tests := []struct {
			argv          []string
			verdict, code string
		}{
			{[]string{"sh", "-c", "exit 127"}, "fail", "command_not_started"},
			{[]string{"sh", "-c", "no-such-program"}, "fail", "command_not_started"},
			{[]string{"/skill/scripts/missing.sh"}, "fail", "command_not_started"},
			{[]string{"/skill/SKILL.md"}, "fail", "command_not_started"},
			{[]string{"sh", "-c", "yes | head -c 3000000"}, "fail", "output_too_large"},
			{[]string{"sh", "-c", "for i in $(seq 150); do mkdir d; cd d; done; sleep 60"}, "fail", "limit_exceeded"},
			{[]string{"sh", "-c", "chmod 000 /work"}, "pass", ""},
			{[]string{"sh", "-c", "echo 'bwrap: setting up uid map: Permission denied' >&2; kill -9 $$"}, "pass", ""}, // a status like others
			{[]string{"no-such-program"}, "error", "command_not_started"},
			{[]string{"/no/such/program"}, "error", "command_not_started"},
			{[]string{"/usr/bin/no-such-program"}, "error", "command_not_started"},
		}
		var cases []object
		for _, test := range tests {
			cases = append(cases, object{"case_kind": "boolean_assertion", "command": test.argv, "assertion": "true"})
		}
		run := c.Finish(c.Create(deterministic(cases...)))
		for i, got := range apptest.List(t, run, "cases") {
			trial := apptest.List(t, got, "trials")[0]
			summary, _ := trial["evidence"].(object)["summary"].(string)
			problem, _ := trial["error"].(string)
			if got["verdict"] != tests[i].verdict || !strings.HasPrefix(summary, tests[i].code) ||
				(problem != "") != (tests[i].verdict == "error") {
				t.Errorf("%q: %v, error %q, %s; want %s %s", tests[i].argv, got["verdict"], problem, summary, tests[i].verdict, tests[i].code)
			}
			if strings.Contains(summary, "userns") {
				t.Errorf("%q: what the program says is shown as advice: %s", tests[i].argv, summary)
			}
		}
		if run["trial_errors"] != 3.0 || run["reliable"] != false {
			t.Errorf("%v trials ended as error, reliable: %v", run["trial_errors"], run["reliable"])
		}
	})
}

// TestChecksThatGiveUp: an output that is too expensive for the check fails,
// since the skill made it.
func TestChecksThatGiveUp(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(deterministic(object{
			"case_kind": "boolean_assertion", "command": []string{"sh", "-c", `echo "[$(seq -s, 1 20000)]"`},
			"assertion": "json.all(a, json.all(b, json.all(c, a + b + c > 0.0)))",
		})))
		if diff := cmp.Diff([]any{"fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, run["cases"])
		}
	})
}

// TestTaskPackages runs packages that look for the skill.
func TestTaskPackages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		environment := func(script string) object {
			content := runstest.Pack(runstest.File{Name: "tests/test.sh", Text: "#!/bin/bash\n" + script, Mode: 0o755})
			sum := sha256.Sum256(content)
			key := fmt.Sprintf("evals/%s/%x.tar.gz", c.Org.ID, sum)
			if err := w.Blobs.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
				t.Fatal(err)
			}
			return object{"case_kind": "task_package", "environment_ref": "blob://" + key}
		}
		shared := func(orgID, script string) object {
			content := runstest.Pack(runstest.File{Name: "tests/test.sh", Text: "#!/bin/bash\n" + script, Mode: 0o755})
			key := "environments/" + orgID + "/task.tar.gz"
			if err := w.Blobs.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
				t.Fatal(err)
			}
			return object{"case_kind": "task_package", "environment_ref": "s3://skills/" + key}
		}
		w.Suites.Bucket = "skills"
		others := c.Finish(c.Create(deterministic(
			shared(c.Org.ID, "true"), shared(w.Org("other").Org.ID, "true"),
			object{"case_kind": "task_package", "environment_ref": "s3://elsewhere/environments/" + c.Org.ID + "/task.tar.gz"},
			object{"case_kind": "task_package", "environment_ref": "s3://skills/evals/../registry/x.tar.gz"},
		)))
		if diff := cmp.Diff([]any{"pass", "error", "error", "error"}, verdicts(t, others)); diff != "" {
			t.Errorf("verdicts of s3 references (-want +got):\n%s\n%v", diff, others["cases"])
		}
		suite := c.Create(with(deterministic(
			environment("echo looking; grep -q 'version two' $SKILL_DIR/SKILL.md"),
			environment("echo 0.25 > /logs/verifier/reward.txt"),
			environment("exec no-such-program"),
		), object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "no_skill"})
		if diff := cmp.Diff([]any{"pass", "fail", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, run["cases"])
		}
		cases := apptest.List(t, run, "cases")
		if cases[0]["baseline_verdict"] != "fail" || cases[1]["score"] != 0.25 {
			t.Errorf("got %v", cases)
		}
		trial := apptest.List(t, cases[0], "trials")[0]
		if !strings.Contains(trial["output_tail"].(string), "looking") || trial["evidence"].(object)["package"] == nil {
			t.Errorf("trial is %v", trial)
		}
	})
}

// TestNoSandbox: without a sandbox commands neither pass nor fail.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box, err := sandbox.New(sandbox.Options{Program: "/nowhere/bwrap"})
		if err != nil {
			t.Fatal(err)
		}
		w := runstest.New(t, db, func(w *runstest.World) { w.Runs.Sandbox = box })
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(deterministic(
			object{"case_kind": "exact_match", "command": []string{"true"}, "expected": ""})))
		wantErrors(t, run, "unavailable")
	})
}

// TestBrokenCases: a check that cannot be compiled or evaluated is an error.
func TestBrokenCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(deterministic(
			object{"case_kind": "boolean_assertion", "output": "a", "assertion": "output =="},
			object{"case_kind": "json_schema", "output": "{}", "schema": object{"type": "strin"}},
		)))
		wantErrors(t, run, "case_broken")
		run = c.Finish(c.Create(deterministic(object{
			"case_kind": "boolean_assertion", "output": "a",
			"assertion": "exit_code == 0",
		})))
		wantErrors(t, run, "check_failed")
		run = c.Finish(c.Create(deterministic(
			object{"case_kind": "boolean_assertion", "output": strings.Repeat("a", 100_000), "assertion": `output.matches("(a?){900}b")`},
			object{
				"case_kind": "json_schema", "output": `"` + strings.Repeat("a", 100_000) + `"`,
				"schema": object{"pattern": "(a?){900}b"},
			},
		)))
		wantErrors(t, run, "check_failed")
	})
}

// TestHugeNumbers: an output with numbers out of range fails.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		w.Work()
		c := w.Org("acme")
		run := c.Finish(c.Create(deterministic(
			object{"case_kind": "json_schema", "output": "1e9999999", "schema": object{"minimum": 1}},
			object{"case_kind": "json_schema", "output": json.Number("1e-9999999"), "schema": object{"type": "integer"}},
			object{"case_kind": "json_schema", "output": "[1e-999999]", "schema": object{"items": object{"multipleOf": 2}}},
		)))
		if diff := cmp.Diff([]any{"fail", "fail", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
	})
}
