package agents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

// A Service finds agents and runs them. Set its fields before the first call.
type Service struct {
	Sandbox sandbox.Sandbox
	Gateway *gateway.Gateway
	// Dir is searched for the agents' programs before PATH; may be empty.
	Dir string
	// Commands are agents of the operator's own, by name.
	Commands map[string]Command
	// Scratch is where the folders of trials are; the system's temporary one if
	// empty. The sandbox's user must be able to enter it.
	Scratch string
	Log     *slog.Logger

	mu    sync.Mutex
	found map[string]func() found // by name; each probes once

	folders sync.Map // in use, which Sweep must spare

	relayMu  sync.Mutex
	relay    string // the path of this program, or of a copy; "" until it is known
	relayDir string // of the copy; "" if there is none
}

// Paths inside the sandbox.
const (
	homeTarget   = "/home/agent"
	workTarget   = "/work"
	modelTarget  = "/run/model"       // the folder of the socket
	binaryTarget = "/run/model-relay" // this program
)

// Limits of an agent, where they differ from those of other programs. Agents are large programs
// themselves, and start compilers and test suites beside.
const (
	agentMemory    = 4 << 30
	agentProcesses = 512
	defaultTimeout = 15 * time.Minute
)

// A Request is a task for an agent.
type Request struct {
	Choice
	Instruction string
	MaxTurns    int           // 0 for no limit
	Timeout     time.Duration // 15 minutes if 0
	// Meter is the trial's.
	Meter *gateway.Meter
	// Work is the folder of the machine in which the agent works. It keeps what
	// the agent leaves there.
	Work string
	// Spec is the sandbox in which Work is the folder Dir. Without Dir, Work is
	// mounted at /work. An agent needs some memory and processes of its own, so that
	// those limits are raised to its usual ones.
	Spec sandbox.Spec
	// Skills are the folders of skills to install, by name.
	Skills map[string]string
	// Record is how many bytes of the conversation are kept.
	Record int
	// Ready, if not nil, is called when all is in place, before the agent is started.
	Ready func()
	// Answered, if not nil, is called with what the model said, each time.
	Answered func(gateway.Answer)
	// Prices, if not nil, replace those of the gateway.
	Prices *pricing.Table
}

// Run runs an agent until it ends. Whatever the agent does, failures included, is an Outcome. An
// error means that it was not run: a NotFound or an Unavailable if it cannot be, an Unsupported for
// a budget that cannot be enforced, or the context's own.
func (s *Service) Run(ctx context.Context, r Request) (_ Outcome, err error) {
	defer fault.Wrap(&err, "agent %s", r.Agent)
	f, err := s.agent(ctx, r.Agent)
	if err != nil {
		return Outcome{}, err
	}
	offer, err := s.Gateway.Offer(r.Model)
	if err != nil {
		return Outcome{}, err
	}
	dir, err := s.newFolder()
	if err != nil {
		return Outcome{}, err
	}
	defer func() {
		if err := s.removeFolder(dir); err != nil {
			s.Log.Warn("the folder of an agent is left over", "error", err)
		}
	}()
	if r.Spec.Dir == "" {
		r.Spec.Dir = workTarget
		r.Spec.Mounts = append(slices.Clone(r.Spec.Mounts), sandbox.Mount{Source: r.Work, Target: workTarget, Writable: true})
	}
	// The relay listens on the loopback address inside the sandbox, where there is no other
	// network, and forwards to the gateway's socket.
	start := f.adapter.start(task{
		instruction: r.Instruction, model: offer.ID, api: offer.API, url: "http://" + relay.Address,
		maxTurns: r.MaxTurns, home: homeTarget, dir: r.Spec.Dir,
	})
	home, socket := filepath.Join(dir, "home"), filepath.Join(dir, "model")
	if err := install(f.adapter, home, r, start.files); err != nil {
		return Outcome{}, err
	}
	if r.Ready != nil {
		r.Ready()
	}
	if err := os.Mkdir(socket, 0o700); err != nil {
		return Outcome{}, err
	}
	// Its own meter below the trial's: it counts the requests of this agent only, and may limit
	// them to the turns.
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, r.Meter)
	if !start.limitsTurns {
		meter = gateway.NewMeter(gateway.Budget{Requests: int64(r.MaxTurns)}, gateway.Usage{}, r.Meter)
	}
	session, err := s.Gateway.Open(socket, gateway.Conversation{
		Model: r.Model, Meter: meter, Record: r.Record, Answered: r.Answered, Prices: r.Prices,
	})
	if err != nil {
		return Outcome{}, err
	}
	spec, err := s.spec(f, r, start)
	if err != nil {
		return Outcome{}, errors.Join(err, session.Close())
	}
	spec.Mounts = append(spec.Mounts,
		sandbox.Mount{Source: home, Target: homeTarget, Writable: true},
		// It is the program's own, as nobody else may connect to the socket.
		sandbox.Mount{Source: socket, Target: modelTarget, Writable: true})
	stop, ended := make(chan struct{}), make(chan struct{})
	// A failing agent is stopped by the sandbox rather than by the context, so that its output is
	// still read.
	spec.Stop = stop
	go stopAfter(session.GaveUp(), ended, stop)
	result, err := s.Sandbox.Run(ctx, spec)
	close(ended)
	if err := errors.Join(err, session.Close()); err != nil {
		return Outcome{}, err
	}
	o := outcome(f.adapter, result, session.Answers())
	o.Usage, o.Exchanges, o.Failures = meter.Used(), session.Record(), session.Failures()
	o.installed, o.tellsSkills = slices.Collect(maps.Keys(r.Skills)), f.adapter.tellsSkills()
	o.Failure = failureOf(o, result.Exceeded, session)
	// The meter of this agent has no budget but the turns, so if it is spent, the refused request
	// was one turn too many.
	if meter.IsSpent() && o.Failure != nil && o.Failure.Kind == OutOfBudget {
		o.Failure = errOutOfTurns()
	}
	return o, nil
}

// lastWords is how long an agent may go on that cannot ask the model any more.
const lastWords = 5 * time.Second

// stopAfter closes stop a while after the gateway has given up, unless the agent
// has ended.
func stopAfter(gaveUp, ended <-chan struct{}, stop chan<- struct{}) {
	select {
	case <-gaveUp:
	case <-ended:
		return
	}
	select {
	case <-time.After(lastWords):
		close(stop)
	case <-ended:
	}
}

// folderPrefix begins the names of the folders of agents.
const folderPrefix = "whetstone-agent-"

func (s *Service) scratch() (string, error) {
	return filepath.EvalSymlinks(cmp.Or(s.Scratch, os.TempDir())) // the sandbox refuses paths with symbolic links
}

// newFolder creates a folder for one trial. The sandbox's user, who is another
// one, must be able to enter.
func (s *Service) newFolder() (string, error) {
	base, err := s.scratch()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return "", err
	}
	s.folders.Store(dir, nil)
	return dir, os.Chmod(dir, 0o711)
}

func (s *Service) removeFolder(dir string) error {
	err := sandbox.Remove(dir)
	s.folders.Delete(dir)
	return err
}

// Sweep removes folders that a killed process left behind. Folders in use by this process are
// spared.
func (s *Service) Sweep() error {
	base, err := s.scratch()
	if err != nil {
		return err
	}
	_, err = sandbox.Sweep(base, folderPrefix, &s.folders)
	return err
}

// spec adds to the sandbox of a request what the agent needs: its program, this binary as the relay
// to the gateway, and the home folder. The environment of the agent wins over that of the request.
func (s *Service) spec(f found, r Request, start invocation) (sandbox.Spec, error) {
	binary, err := s.relayBinary()
	if err != nil {
		return sandbox.Spec{}, err
	}
	spec := r.Spec
	spec.Env = map[string]string{}
	maps.Copy(spec.Env, r.Spec.Env)
	spec.Env["HOME"] = homeTarget
	maps.Copy(spec.Env, start.env)
	spec.Argv = relay.Argv(binaryTarget, modelTarget+"/"+gateway.SocketName, append([]string{f.program.path}, start.args...))
	spec.Stdin = []byte(start.stdin)
	spec.Mounts = append(slices.Clone(r.Spec.Mounts), f.program.mounts()...)
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: binary, Target: binaryTarget})
	l := &spec.Limits
	l.Wall = cmp.Or(r.Timeout, defaultTimeout)
	// The agent may keep four cores busy. Its whole output is read, and is larger than what other
	// programs may write.
	l.CPU, l.Output = 4*l.Wall, maxOutput
	l.Memory, l.Processes = max(l.Memory, agentMemory), max(l.Processes, agentProcesses)
	return spec, nil
}

// install fills the home folder of an agent: its settings and the skills.
func install(a adapter, home string, r Request, files map[string]string) error {
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(files[name]), 0o600); err != nil {
			return err
		}
	}
	to, ok := strings.CutPrefix(a.skillsDir(), "~/")
	root := home
	if !ok {
		root = r.Work
	}
	// The skill is copied, as an agent may write into its folder, which belongs to the registry's
	// cache.
	for name, from := range r.Skills {
		if a.skillsDir() == "" {
			return fault.New(fault.Unsupported, "agent %s has no folder for skills; set its skills_dir", r.Agent)
		}
		target := filepath.Join(root, to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.CopyFS(target, os.DirFS(from)); err != nil {
			return err
		}
	}
	return nil
}

// relayBinary returns the path of this program, or of a copy if the sandbox's user,
// who is another one if the service runs as root, cannot reach it. The copy is made
// again if the sweep of another process has removed it.
func (s *Service) relayBinary() (string, error) {
	s.relayMu.Lock()
	defer s.relayMu.Unlock()
	if s.relay != "" && (s.relayDir == "" || isReachable(s.relay)) {
		return s.relay, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	own, err := filepath.EvalSymlinks(self)
	if err != nil {
		return "", err
	}
	if isReachable(own) {
		s.relay = own
		return own, nil
	}
	if s.relayDir, err = s.newFolder(); err != nil {
		return "", err
	}
	s.relay = filepath.Join(s.relayDir, "relay")
	return s.relay, copyFile(s.relay, own)
}

// isReachable reports whether the sandbox's user can execute a program.
func isReachable(p string) bool {
	if os.Geteuid() != 0 {
		return true
	}
	// The path to the file needs execute permission on every folder up to the root.
	needs := fs.FileMode(0o005) // read and execute
	for {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm()&needs != needs {
			return false
		}
		if p == "/" {
			return true
		}
		p, needs = filepath.Dir(p), 0o001
	}
}

// copyFile copies a program. No process is started meanwhile: it would inherit the file, open
// for writing, until its exec, and the sandbox's exec of the copy would fail with ETXTBSY.
func copyFile(to, from string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) // the sandbox's user executes it
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Close removes the copy of this program.
func (s *Service) Close() error {
	s.relayMu.Lock()
	defer s.relayMu.Unlock()
	if s.relayDir == "" {
		return nil
	}
	return s.removeFolder(s.relayDir)
}

// outcome reads what an agent did from the answers of the model, and how it ended
// from its output.
func outcome(a adapter, result sandbox.Result, answers []gateway.Answer) Outcome {
	// If the beginning of the output is missing, so is half a line.
	output := result.Stdout.Tail
	if result.Stdout.Discarded > 0 {
		_, output, _ = bytes.Cut(output, []byte("\n"))
	}
	o := Outcome{
		ExitCode: result.ExitCode, Duration: result.Duration,
		Turns:  len(answers),
		Stdout: lastText(result.Stdout), Stderr: lastText(result.Stderr),
	}
	o.Answers, o.Calls = readAnswers(a, answers)
	if t := a.read(output); t != nil {
		o.SessionID, o.Failure, o.Final = t.sessionID, t.failure, t.final
	} else {
		o.Final = string(bytes.TrimSpace(output))
	}
	// A program that the agent starts can write to its stdout, but not into the model's answers. A
	// Command whose calls aren't understood keeps its own output.
	if len(answers) > 0 && a.tellsSkills() { // another one may write what no model said
		o.Final = answers[len(answers)-1].Text
	}
	o.Final = strings.Clone(text.Clean(text.Truncate(o.Final, maxFinal)))
	return o
}

// failureOf decides how an agent failed. What the sandbox and the gateway have
// seen counts more than what the agent tells.
func failureOf(o Outcome, exceeded sandbox.Limit, session *gateway.Session) *Failure {
	// The order of the cases is that of trust: limits that the sandbox enforced, refusals by the
	// gateway, and only then what the agent says.
	problem, failed := session.Problem(), o.Failure != nil || o.ExitCode != 0
	switch {
	case exceeded == sandbox.WallLimit || exceeded == sandbox.CPULimit:
		return &Failure{TimedOut, "the agent did not end in time"}
	case exceeded != "" && exceeded != sandbox.Stopped:
		return &Failure{Crashed, fmt.Sprintf("the agent exceeded its limit of %s", exceeded)}
	case session.Refused():
		return &Failure{OutOfBudget, "the budget was spent before the agent ended"}
	case failed && problem != nil:
		return &Failure{ModelError, problem.Message}
	case o.Failure != nil:
		return o.Failure
	case failed:
		said := text.Ellipsis(text.PlainLine(o.Stderr), 300)
		return &Failure{Crashed, fmt.Sprintf("the agent ended with status %d: %s", o.ExitCode, said)}
	}
	return nil
}
