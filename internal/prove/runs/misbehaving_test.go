//go:build linux

package runs_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestMisbehavingAgents: whatever agents, environments and models do, each trial says
// what it was, the run goes on, and the machine is clean afterwards.
func TestMisbehavingAgents(t *testing.T) {
	t.Parallel()
	w := newHostileWorld(t)
	w.Work()
	const ask = `exec 3<>/dev/tcp/127.0.0.1/8787
		printf 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}' >&3
		head -n 1 <&3
		exit 1`
	broken := runstest.Pack(
		runstest.File{Name: "task.toml", Text: "version = \"1.0\"\n", Mode: 0o644},
		runstest.File{Name: "tests/test.sh", Text: "#!/bin/bash\n", Mode: 0o755},
		runstest.File{Name: "environment/Dockerfile", Text: "FROM debian:12\nRUN echo no such package; exit 7\n", Mode: 0o644})
	bash, brief := object{"name": "bash"}, object{"name": "bash", "timeout_s": 2}
	var cases []object
	var wants []string // how the errors begin
	add := func(c object, want string) { cases, wants = append(cases, c), append(wants, want) }
	prompt := func(instruction string, agent object) object {
		return with(assertion(instruction, "true"), object{"agent": agent})
	}
	add(prompt("sleep "+w.marker, object{"name": "bash", "timeout_s": 1}), "agent_timeout: the agent did not end in time")
	add(prompt("trap '' TERM HUP INT; while :; do sleep "+w.marker+"; done", brief), "agent_timeout: ")
	add(prompt("for i in {1..2000}; do sleep "+w.marker+" & done; wait", brief), "agent_timeout: ")
	add(prompt("f() { sleep "+w.marker+" & f | f & }; f; wait", brief), "agent_")
	add(prompt("for i in 1 2 3; do setsid nohup sleep "+w.marker+" >/dev/null 2>&1 & done; disown -a; exit 0", bash), "")
	add(prompt("kill -9 $$", bash), "agent_failed: the agent ended with status 137")
	add(prompt("echo no such command >&2; exit 5", bash), "agent_failed: the agent ended with status 5: no such command")
	add(prompt(ask, object{"name": "bash", "model": "away"}), "model_unreachable: the model cannot be reached")
	add(prompt("hello", object{"name": "missing"}), "agent_unavailable: Agent missing is not available")
	add(prompt("hello", object{"name": "clippy"}), `agent_unavailable: Agent "clippy" is not known`)
	add(object{
		"case_kind": "task_package", "environment_ref": w.storeTask(t, broken), "instruction": "true", "agent": bash,
	}, "environment_failed: the image of the task cannot be built: the build ended with status 7; the build wrote \"no such package")
	add(prompt("echo well", object{"name": "bash"}), "")

	run := w.client.Finish(w.client.Create(deterministic(cases...)))
	for i, want := range wants {
		trial := trialOf(t, run, i, "skill", 1)
		message, _ := trial["error"].(string)
		verdict := map[bool]string{true: "pass", false: "error"}[want == ""]
		if trial["verdict"] != verdict || !strings.HasPrefix(message, want) {
			t.Errorf("%v: %v %q, want %q", cases[i]["prompt"], trial["verdict"], message, want)
		}
	}
	if run["status"] != "succeeded" {
		t.Errorf("status %v", run["status"])
	}
	w.checkClean(t)
}

// TestTalkativeAgents: little is kept of agents that print gigabytes, of whatever
// lines. It is alone, since it looks at the memory of the whole program.
func TestTalkativeAgents(t *testing.T) {
	w := newHostileWorld(t)
	w.Work()
	var cases []object
	for _, instruction := range []string{
		"yes 'much to say' | head -c 1G", "yes '' | head -c 64M", "head -c 64M /dev/zero >&2",
		`yes '{"type":"assistant"}' | head -c 64M`,
	} {
		cases = append(cases, with(assertion(instruction, "exit_code == 0"), object{"agent": object{"name": "bash"}}))
	}
	peak := watchHeap(t)
	run := w.client.Finish(w.client.Create(deterministic(cases...)))
	if got := peak(); got > 64<<20 {
		t.Errorf("the service kept %d MiB more than before", got>>20)
	}
	if diff := cmp.Diff([]any{"pass", "pass", "pass", "pass"}, verdicts(t, run)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if body := w.client.Get(runsPath + run["id"].(string)).Body; len(body) > 1<<20 {
		t.Errorf("the run has %d bytes", len(body))
	}
	w.checkClean(t)
}

// watchHeap returns a function that returns how much the heap grew at most until it
// is called.
func watchHeap(t *testing.T) (peak func() uint64) {
	t.Helper()
	percent := debug.SetGCPercent(100) // that of the program; scripts/test sets a higher one
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before, most := stats.HeapAlloc, stats.HeapAlloc
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		t.Logf("the heap grew by %d MiB", (most-before)>>20)
		return most - before
	}
}
