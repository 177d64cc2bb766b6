package taskpkg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// TestReward has a case for each way to write a reward.
func TestReward(t *testing.T) {
	const dir = "cd \"$LOGS_DIR/verifier\"\n"
	number := func(v float64) map[string]float64 { return map[string]float64{"reward": v} }
	tests := []struct {
		name, script string
		verdict      taskpkg.Verdict
		code         taskpkg.Code
		score, raw   float64
		metrics      map[string]float64
	}{
		{"json with reward", `echo '{"reward": 1, "speed": 0.5, "ok": true, "note": "x", "list": [1]}' > reward.json; echo 0 > reward.txt`, "pass", "", 1, 1, map[string]float64{"reward": 1, "speed": 0.5}},
		{"text", `echo ' 1.0 ' > reward.txt; exit 3`, "pass", "", 1, 1, number(1)},
		{"text below the threshold", `echo 0.99 > reward.txt`, "fail", "", 0.99, 0.99, number(0.99)},
		{"text beside json without reward", `echo 0.25 > reward.txt; echo '{"speed": 1}' > reward.json`, "fail", "", 0.25, 0.25, map[string]float64{"reward": 0.25, "speed": 1}},
		{"text beside broken json", `echo 1 > reward.txt; echo '{' > reward.json`, "pass", "", 1, 1, number(1)},
		{"text beside a boolean", `echo 0 > reward.txt; echo '{"reward": true}' > reward.json`, "fail", "", 0, 0, number(0)},
		{"single number", `echo '{"accuracy": 1}' > reward.json`, "pass", "", 1, 1, map[string]float64{"accuracy": 1}},
		{"mean of numbers", `echo '{"a": 1, "b": 0.5}' > reward.json`, "fail", "", 0.75, 0.75, map[string]float64{"a": 1, "b": 0.5}},
		{"over 1", `echo 7 > reward.txt`, "pass", "", 1, 7, number(7)},
		{"below 0", `echo -2e0 > reward.txt`, "fail", "", 0, -2, number(-2)},
		{"no file, status 0", `true`, "pass", "", 1, 1, nil},
		{"no file, status 1", `exit 1`, "fail", "", 0, 0, nil},
		{"no file, status 2", `exit 2`, "fail", "", 0, 0, nil},
		{"reward and status 127", `echo 1 > reward.txt; exit 127`, "pass", "", 1, 1, number(1)},
		{"empty text", `: > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"words", `echo passed > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"two numbers", `echo 1 2 > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"not a number", `echo NaN > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"infinite", `echo -Infinity > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"hexadecimal", `echo 0x1p0 > reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"too large for a number", `echo '{"reward": 1e999}' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"empty object", `echo '{}' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"list", `echo '[1]' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"boolean only", `echo '{"reward": true}' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"text as number", `echo '{"reward": "1"}' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"two documents", `echo '{"reward": 1} {"reward": 0}' > reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"link", `echo 1 > /tmp/r; echo 1 > r; ln -s r reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"link to the system", `ln -s /proc/self/status reward.json`, "error", "reward_unreadable", 0, 0, nil},
		{"linked folder", `cd ..; rm -r verifier; mkdir other; echo 1 > other/reward.txt; ln -s other verifier`, "error", "reward_unreadable", 0, 0, nil},
		{"pipe", `mkfifo reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"folder", `mkdir reward.txt`, "error", "reward_unreadable", 0, 0, nil},
		{"huge", `head -c 1000000 /dev/zero | tr '\0' ' ' > reward.txt; echo 1 >> reward.txt`, "error", "reward_unreadable", 0, 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newWorld(t).run(t, verifier("#!/bin/bash\n"+dir+test.script+"\n"), taskpkg.Task{})
			check(t, o, test.verdict, test.code)
			if o.Score != test.score || o.Raw != test.raw || !cmp.Equal(o.Metrics, test.metrics) {
				t.Errorf("got score %v, raw %v, metrics %v", o.Score, o.Raw, o.Metrics)
			}
		})
	}
}

// TestForeignReward: only the verifier gives rewards.
func TestForeignReward(t *testing.T) {
	w := newWorld(t)
	shipped := verifier("#!/bin/sh\nexit 1\n").with(files{"logs/verifier/reward.txt": "1\n", "logs/verifier/deep/x": ""})
	check(t, w.run(t, shipped, taskpkg.Task{}), taskpkg.Fail, "")
	oracle := verifier("#!/bin/sh\nexit 1\n").with(files{"solve.sh": "echo 1 > /logs/verifier/reward.txt\nmkdir -p /logs/verifier/a/b\nchmod 0 /logs/verifier/a\n"})
	check(t, w.run(t, oracle, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Fail, "")
	linked := verifier("#!/bin/sh\nexit 1\n").with(files{"solve.sh": "mkdir /tmp/v; echo 1 > reward.txt; rm -r /logs/verifier; ln -s .. /logs/verifier\n"})
	check(t, w.run(t, linked, taskpkg.Task{OracleRef: "solve.sh"}), taskpkg.Fail, "")
}
