package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

const (
	trialCount  = 40
	trialLimit  = 150 // milliseconds
	agentTime   = 100 * time.Millisecond
	largeFiles  = 100
	largeFile   = 10 << 20
	busyLimit   = 50 // milliseconds
	busyAgents  = 8
	busySeconds = 12
)

// benchTrial measures a whole trial of a task package with an agent, in an
// environment of 1 GB that is there: the archive is fetched and unpacked, the agent
// gets a root, a home and a door to its model, and the verifier runs.
func benchTrial(ctx context.Context, l *lab) ([]row, error) {
	if err := needSandbox(ctx); err != nil {
		return nil, err
	}
	dir, err := l.openFolder("trial")
	if err != nil {
		return nil, err
	}
	runner, maker, err := newTrials(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = maker.Agents.Close() }()
	task := taskpkg.Task{
		EnvironmentRef: "blob://task", BlobKey: func(string) (string, bool) { return "task", true },
		NeedsImage: true, Instruction: "Work.",
		Agent: func(ctx context.Context, w taskpkg.Workplace) error {
			_, err := maker.Package(ctx, attempt.Task{Agent: suites.Agent{Name: "worker"}}, w)
			return err
		},
	}
	var times []time.Duration
	for n := range trialCount + 1 {
		start := time.Now()
		outcome := runner.Run(ctx, task, nil)
		if outcome.Verdict != taskpkg.Pass {
			return nil, fmt.Errorf("a trial: %s %s: %s", outcome.Verdict, outcome.Code, outcome.Message)
		}
		if n > 0 { // the first one builds the environment
			times = append(times, time.Since(start)-agentTime)
		}
	}
	slices.Sort(times)
	return []row{
		{
			Name: "trial: beyond the agent's time, 1 GB, p50", Figure: millis(times[len(times)/2]), Unit: "ms",
			Beside: limit, Other: trialLimit, AtMost: 1,
		},
		{
			Name: "trial: beyond the agent's time, 1 GB, p95", Figure: millis(times[len(times)*95/100]), Unit: "ms",
			Beside: limit, Other: trialLimit,
		},
	}, nil
}

func needSandbox(ctx context.Context) error {
	s, err := sandbox.New(sandbox.Options{})
	if err == nil {
		_, err = s.Check(ctx)
	}
	if err != nil {
		return fmt.Errorf("bubblewrap: %w", errMissing)
	}
	return nil
}

// openFolder makes a folder that the user of sandboxed programs can enter.
func (l *lab) openFolder(name string) (string, error) {
	dir, err := l.folder(name)
	if err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chmod(dir, 0o755), os.Chmod(l.dir, 0o755))
}

// newTrials makes what runs trials, in a folder: a task in an image, and an agent
// that works for agentTime.
func newTrials(ctx context.Context, dir string) (*taskpkg.Runner, *attempt.Maker, error) {
	box, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, nil, err
	}
	images, program := filepath.Join(dir, "images"), filepath.Join(dir, "buildah")
	err = errors.Join(os.Mkdir(images, 0o755), // the build's user reads it
		writeImage(ctx, filepath.Join(images, "large_1.tar")),
		os.WriteFile(program, []byte(imageBuilder), 0o755)) // and runs it
	if err != nil {
		return nil, nil, err
	}
	blobs, err := blob.Open(ctx, blob.Options{
		Dir: filepath.Join(dir, "blobs"), Secret: make([]byte, 32), PublicURL: func() string { return "" },
	})
	if err != nil {
		return nil, nil, err
	}
	task := packTask(map[string]string{
		"task.toml": "[environment]\ndocker_image = 'large:1'\n", "tests/test.sh": "#!/bin/bash\nexit 0\n", "instruction.md": "Work.\n",
	})
	if err := blobs.Put(ctx, "task", bytes.NewReader(task), int64(len(task))); err != nil {
		return nil, nil, err
	}
	g, err := gateway.New(gateway.Options{
		Models: []gateway.Model{{Name: "model", API: gateway.Anthropic, URL: "http://127.0.0.1:9"}},
		Prices: pricing.Embedded(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	service := &agents.Service{
		Sandbox: box, Gateway: g, Scratch: dir, Log: slog.New(slog.DiscardHandler),
		Commands: map[string]agents.Command{"worker": {Argv: []string{"/bin/sleep", fmt.Sprint(agentTime.Seconds())}}},
	}
	runner := &taskpkg.Runner{Sandbox: box, Blobs: blobs, Dir: dir, Environments: &environments.Service{
		Builder: &builder.Builder{Program: program, Dir: dir}, Dir: filepath.Join(dir, "environments"), Images: images,
		MaxBytes: 10 << 30,
	}}
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	return runner, &attempt.Maker{Agents: service, Meter: meter, Prices: pricing.Embedded(), Dir: dir}, nil
}

// imageBuilder stands in for buildah, which takes minutes for an image of this size:
// only the trials are measured.
const imageBuilder = `#!/bin/sh
set -e
[ "$1" = --version ] && { echo buildah version 0; exit; }
while [ "${1#--}" != "$1" ]; do shift 2; done
case $1 in
pull) exit 1 ;;
bud) [ -d /build/root ] || { mkdir /build/root; tar -xf /images/0.tar -C /build/root; } ;;
from) echo container ;;
mount) echo /build/root ;;
inspect) echo '{}' ;;
esac
`

func packTask(files map[string]string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range files { // a buffer takes everything
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	_ = z.Close()
	return out.Bytes()
}

var library = regexp.MustCompile(`/\S+\.so\S*`)

// writeImage writes an image of 1 GB: a few programs of this machine with their
// libraries, and large files.
func writeImage(ctx context.Context, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	add := func(name string, content []byte) error {
		header := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	files := map[string]string{}
	for _, name := range []string{"bash", "sh", "sleep"} {
		program, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		files["/usr/bin/"+name] = program
		needs, err := exec.CommandContext(ctx, "ldd", program).Output()
		if err != nil {
			return err
		}
		for _, found := range library.FindAllString(string(needs), -1) {
			files[found] = found
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin", Mode: 0o777}); err != nil {
		return err
	}
	for name, from := range files {
		content, err := os.ReadFile(from)
		if err == nil {
			err = add(name, content)
		}
		if err != nil {
			return err
		}
	}
	content := make([]byte, largeFile)
	_, _ = rand.Read(content) // it never fails
	for n := range largeFiles {
		if err := add(fmt.Sprintf("data/%d", n), content); err != nil {
			return err
		}
	}
	return nil
}

// benchBusyTrials measures the API while trials want more processors than there are.
func benchBusyTrials(ctx context.Context, l *lab) ([]row, error) {
	if err := needSandbox(ctx); err != nil {
		return nil, err
	}
	scratch, err := l.openFolder("busy")
	if err != nil {
		return nil, err
	}
	agent := fmt.Sprintf(`{"argv":["/bin/sh","-c","timeout %d sh -c 'while :\ndo :\ndone'\ntrue"],"skills_dir":"~/skills"}`, busySeconds)
	ours, err := l.startEvaluator(ctx, "--sandbox-scratch", scratch, "--agent-command", "busy="+agent,
		"--model", "model=http://127.0.0.1:9", "--model-api", "model=anthropic")
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	cases := make([]map[string]any, busyAgents)
	for i := range cases {
		cases[i] = map[string]any{"case_kind": "boolean_assertion", "prompt": fmt.Sprintf("bench %d", i), "assertion": "true"}
	}
	suite, err := ours.suite(ctx, "deterministic", cases)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"subject": map[string]string{"entry_id": ours.entries[0]}, "agent": map[string]string{"name": "busy"}}
	for range 2 { // one run has half of them at once on a machine with two processors
		if err := ours.ask(ctx, "/api/v1/eval-suites/"+suite+"/runs", http.StatusAccepted, body, nil); err != nil {
			return nil, err
		}
	}
	for start := time.Now(); busyProcesses() < busyAgents; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > busySeconds*time.Second {
			return nil, fmt.Errorf("%d trials at once, not %d", busyProcesses(), busyAgents)
		}
	}
	req, err := ours.request(ctx, http.MethodGet, "/api/v1/me", nil)
	if err != nil {
		return nil, err
	}
	request, err := wire(req)
	if err != nil {
		return nil, err
	}
	met, err := load{addr: ours.addr, conns: 4, next: again(request), span: 5 * time.Second, status: http.StatusOK}.run(ctx)
	if err != nil {
		return nil, err
	}
	if n := busyProcesses(); n < busyAgents {
		return nil, fmt.Errorf("only %d trials lasted", n)
	}
	return []row{{
		Name: "busy-trials: GET /api/v1/me, 8 trials, p99", Figure: millis(met.quantile(0.99)), Unit: "ms",
		Beside: limit, Other: busyLimit, AtMost: 1,
	}}, nil
}

// busyProcesses counts the loops of the agents.
func busyProcesses() (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(line), "sh\x00-c\x00while :\n") {
			n++
		}
	}
	return n
}
