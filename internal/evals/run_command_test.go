package evals_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, builtin(t))
		sandboxtest.Bubblewrap(t)
		w.work()
		c := w.org("acme")
		assert := func(assertion string, argv ...string) object {
			return object{"case_kind": "boolean_assertion", "command": argv, "assertion": assertion}
		}
		suite := c.create(with(deterministic(
			object{"case_kind": "exact_match", "command": []string{"/skill/scripts/hello.sh"}, "expected": "hello", "normalize": []string{"trim"}},
			assert(`exit_code == 3 && output == ""`, "sh", "-c", "exit 3"),
			assert(`files["out/a.txt"] == "done\n" && !("link" in files)`, "sh", "-c", "mkdir out; echo done > out/a.txt; ln -s /etc/passwd link"),
			assert(`output == "no\n"`, "sh", "-c", "touch $SKILL_DIR/x 2>/dev/null || echo no"),
			assert(`output.contains("no_skill")`, "sh", "-c", "echo $SKILL_MODE $SKILL_DIR"),
			assert(`true`, "no-such-program"),
			assert(`true`, "sh", "-c", "yes | head -c 3000000"),
		), "supports_no_skill", true))
		run := c.finished(suite, "baseline", "no_skill")
		if diff := cmp.Diff([]any{"pass", "pass", "pass", "pass", "fail", "error", "error"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, run["cases"])
		}
		cases := list(t, run, "cases")
		for i, want := range []any{"error", "pass", "pass", "pass", "pass", "error", "error"} {
			if got := cases[i]["baseline_verdict"]; got != want {
				t.Errorf("baseline of case %d is %v, want %v", i, got, want)
			}
		}
		for i, code := range map[int]string{5: "command_not_started", 6: "output_too_large"} {
			if text, _ := list(t, cases[i], "trials")[0]["error"].(string); !strings.HasPrefix(text, code+": ") {
				t.Errorf("case %d: error %q, want %s", i, text, code)
			}
		}
	})
}

// TestTaskPackages runs packages that look for the skill.
func TestTaskPackages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, builtin(t))
		sandboxtest.Bubblewrap(t)
		w.work()
		c := w.org("acme")
		environment := func(script string) object {
			content := packed(member{"tests/test.sh", "#!/bin/bash\n" + script, 0o755})
			sum := sha256.Sum256(content)
			key := fmt.Sprintf("evals/%s/%x.tar.gz", c.org.ID, sum)
			if err := w.blobs.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
				t.Fatal(err)
			}
			return object{"case_kind": "task_package", "environment_ref": "blob://" + key}
		}
		shared := func(orgID, script string) object {
			content := packed(member{"tests/test.sh", "#!/bin/bash\n" + script, 0o755})
			key := "environments/" + orgID + "/task.tar.gz"
			if err := w.blobs.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
				t.Fatal(err)
			}
			return object{"case_kind": "task_package", "environment_ref": "s3://skills/" + key}
		}
		w.evals.Bucket = "skills"
		others := c.finished(c.create(deterministic(
			shared(c.org.ID, "true"), shared(w.org("other").org.ID, "true"),
			object{"case_kind": "task_package", "environment_ref": "s3://elsewhere/environments/" + c.org.ID + "/task.tar.gz"},
			object{"case_kind": "task_package", "environment_ref": "s3://skills/evals/../registry/x.tar.gz"},
		)))
		if diff := cmp.Diff([]any{"pass", "error", "error", "error"}, verdicts(t, others)); diff != "" {
			t.Errorf("verdicts of s3 references (-want +got):\n%s\n%v", diff, others["cases"])
		}
		suite := c.create(with(deterministic(
			environment("echo looking; grep -q 'version two' $SKILL_DIR/SKILL.md"),
			environment("echo 0.25 > /logs/verifier/reward.txt"),
			environment("exec no-such-program"),
		), "supports_no_skill", true))
		run := c.finished(suite, "baseline", "no_skill")
		if diff := cmp.Diff([]any{"pass", "fail", "error"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s\n%v", diff, run["cases"])
		}
		cases := list(t, run, "cases")
		if cases[0]["baseline_verdict"] != "fail" || cases[1]["score"] != 0.25 {
			t.Errorf("got %v", cases)
		}
		trial := list(t, cases[0], "trials")[0]
		if !strings.Contains(trial["output_tail"].(string), "looking") || trial["evidence"].(object)["package"] == nil {
			t.Errorf("trial is %v", trial)
		}
	})
}

// TestNoSandbox says how to get one, and neither passes nor fails.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box, err := sandbox.New(sandbox.Options{Program: "/nowhere/bwrap"})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, db, builtin(t), func(s *evals.Service) { s.Sandbox = box })
		w.work()
		c := w.org("acme")
		run := c.finished(c.create(deterministic(
			object{"case_kind": "exact_match", "command": []string{"true"}, "expected": ""})))
		wantErrors(t, run, "unavailable")
	})
}

// TestBrokenCases have no verdict: what decides them cannot be understood.
func TestBrokenCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, builtin(t))
		w.work()
		c := w.org("acme")
		run := c.finished(c.create(deterministic(
			object{"case_kind": "boolean_assertion", "output": "a", "assertion": "output =="},
			object{"case_kind": "json_schema", "output": "{}", "schema": object{"type": "strin"}},
		)))
		wantErrors(t, run, "case_broken")
		run = c.finished(c.create(deterministic(object{"case_kind": "boolean_assertion", "output": "a", "assertion": "exit_code == 0"})))
		wantErrors(t, run, "check_failed")
		run = c.finished(c.create(deterministic(
			object{"case_kind": "boolean_assertion", "output": strings.Repeat("a", 100_000), "assertion": `output.matches("(a?){900}b")`},
			object{"case_kind": "json_schema", "output": `"` + strings.Repeat("a", 100_000) + `"`, "schema": object{"pattern": "(a?){900}b"}},
		)))
		wantErrors(t, run, "check_failed")
	})
}

// TestHugeNumbers fail an output: nothing is computed with them.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, builtin(t))
		w.work()
		c := w.org("acme")
		run := c.finished(c.create(deterministic(
			object{"case_kind": "json_schema", "output": "1e9999999", "schema": object{"minimum": 1}},
			object{"case_kind": "json_schema", "output": json.Number("1e-9999999"), "schema": object{"type": "integer"}},
			object{"case_kind": "json_schema", "output": "[1e-999999]", "schema": object{"items": object{"multipleOf": 2}}},
		)))
		if diff := cmp.Diff([]any{"fail", "fail", "fail"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
	})
}
