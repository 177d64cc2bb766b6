package agents

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// An Agent is what is known of an agent on this machine.
type Agent struct {
	Name      string   `json:"name" example:"claude-code"`
	Version   *string  `json:"version" example:"2.1.325" doc:"Null: not found, or it does not tell"`
	Available bool     `json:"available"`
	Reason    *string  `json:"reason" doc:"Why it is not available"`
	Models    []string `json:"models" doc:"Models of the settings whose wire format it speaks; the first one is the default"`
}

// programTarget is where the folder of an agent's program is in the sandbox.
const programTarget = "/opt/agent"

// A program is the executable of an agent.
type program struct {
	path  string         // inside the sandbox
	mount *sandbox.Mount // nil if the sandbox has it anyway
}

// find looks for an agent's program in the folder of agents, in its bin and node_modules/.bin, and
// then in PATH. Relative entries of PATH are skipped: they depend on where the server was started.
// The error is an Unavailable.
func (s *Service) find(a adapter) (program, error) {
	name := a.program()
	if filepath.IsAbs(name) {
		return locate(name)
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if s.Dir != "" {
		dirs = append([]string{s.Dir, filepath.Join(s.Dir, "bin"), filepath.Join(s.Dir, "node_modules", ".bin")}, dirs...)
	}
	for _, dir := range dirs {
		if p := filepath.Join(dir, name); filepath.IsAbs(dir) && isExecutable(p) {
			return locate(p)
		}
	}
	return program{}, fault.New(fault.Unavailable,
		"there is no program %s on this machine; install it, or set --agents to the folder that has it", name)
}

func isExecutable(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// locate finds what must be mounted to run a program: nothing if it is the
// system's, all of node_modules if it comes from npm, else the file.
func locate(p string) (program, error) {
	// The mount needs the file itself: the sandbox refuses symbolic links, and those of npm's bin
	// folder lead out of it.
	file, err := filepath.EvalSymlinks(p)
	if err != nil {
		return program{}, fault.New(fault.Unavailable, "%s cannot be read", p).Because(err)
	}
	if strings.HasPrefix(file, "/usr/") {
		return program{path: file}, nil
	}
	const modules = "/node_modules"
	source, target := file, filepath.Join(programTarget, filepath.Base(file))
	if before, _, ok := strings.Cut(file, modules+"/"); ok {
		source, target = before+modules, programTarget+modules
	}
	return program{target + strings.TrimPrefix(file, source), &sandbox.Mount{Source: source, Target: target}}, nil
}

// versionTimeout limits how long an agent may take to tell its version.
const versionTimeout = 30 * time.Second

// versionNumber does not end in a full stop, as sentences do.
var versionNumber = regexp.MustCompile(`\d+(\.\d+)+([-+.]?\w)*`)

// NoModel is why an agent cannot work that is installed.
const NoModel = "no model is configured whose wire format it speaks; set --model and --model-api"

// probe finds an agent and asks it for its version, in the sandbox.
func (s *Service) probe(ctx context.Context, name string, a adapter) (agent Agent, p program) {
	agent = Agent{Name: name, Models: s.Gateway.Models(a.apis()...)}
	unavailable := func(reason string) (Agent, program) {
		agent.Reason = &reason
		return agent, program{}
	}
	if !s.Sandbox.Binds() {
		return unavailable("agents need --sandbox bubblewrap or docker")
	}
	p, err := s.find(a)
	if err != nil {
		return unavailable(publicReason(err))
	}
	result, err := s.Sandbox.Run(ctx, sandbox.Spec{
		Argv: []string{p.path, "--version"}, Mounts: p.mounts(),
		Limits: sandbox.Limits{Wall: versionTimeout, Memory: agentMemory},
	})
	if err != nil {
		return unavailable(publicReason(err))
	}
	_, isOwn := a.(command)
	if result.ExitCode != 0 && !isOwn { // a command of one's own need not know --version
		said := text.Ellipsis(text.PlainLine(string(result.Stderr.Tail)), 200)
		return unavailable("it does not run in the sandbox: " + said)
	}
	if v := versionNumber.FindString(string(result.Stdout.Tail)); v != "" && result.ExitCode == 0 {
		agent.Version = new(text.Truncate(v, 40))
	}
	if len(agent.Models) == 0 {
		// The program is kept all the same: only the models are missing.
		agent, _ := unavailable(NoModel)
		return agent, p
	}
	agent.Available = true
	return agent, p
}

// publicReason returns the message of an error that was written for people, and only the kind of
// cause of any other.
func publicReason(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	if errors.Is(err, fs.ErrPermission) {
		return "its program may not be read"
	}
	return "it could not be run"
}

func (p program) mounts() []sandbox.Mount {
	if p.mount == nil {
		return nil
	}
	return []sandbox.Mount{*p.mount}
}

// found is the result of a probe.
type found struct {
	Agent
	adapter adapter
	program program
}

// List returns all agents that there are adapters for, by name. Each is looked for
// once.
func (s *Service) List(ctx context.Context) []Agent {
	names := s.Names()
	all := make([]Agent, len(names))
	var probes sync.WaitGroup
	for i, name := range names {
		probes.Go(func() {
			f, _ := s.look(ctx, name) // it has an adapter
			all[i] = f.Agent
		})
	}
	probes.Wait()
	return all
}

// Models lists the models that an agent can ask, and reports whether there is an
// adapter for it. It looks for no program.
func (s *Service) Models(agent string) ([]string, bool) {
	a, ok := s.adapters()[agent]
	if !ok {
		return nil, false
	}
	return s.Gateway.Models(a.apis()...), true
}

// Names lists all agents, whether they can be run here or not.
func (s *Service) Names() []string { return slices.Sorted(maps.Keys(s.adapters())) }

// Usable lists the agents that can be run here, by name. Those without a model are
// not looked for.
func (s *Service) Usable(ctx context.Context) (usable []Agent) {
	for _, name := range s.Names() {
		if models, _ := s.Models(name); len(models) == 0 {
			continue
		}
		if f, _ := s.look(ctx, name); f.Available {
			usable = append(usable, f.Agent)
		}
	}
	return usable
}

func (s *Service) adapters() map[string]adapter {
	all := builtins()
	for name, c := range s.Commands {
		all[name] = command{c}
	}
	return all
}

// look probes an agent on first use and caches the result, also that it is missing, until the
// server restarts. Callers at the same time wait for one probe; the mutex isn't held while it runs,
// as a program may take seconds to start.
func (s *Service) look(ctx context.Context, name string) (found, bool) {
	a, ok := s.adapters()[name]
	if !ok {
		return found{}, false
	}
	s.mu.Lock()
	find, ok := s.found[name]
	if !ok {
		find = sync.OnceValue(func() found {
			// The first caller may give up, but the result is everyone's.
			f := found{adapter: a}
			f.Agent, f.program = s.probe(context.WithoutCancel(ctx), name, a)
			return f
		})
		if s.found == nil {
			s.found = map[string]func() found{}
		}
		s.found[name] = find
	}
	s.mu.Unlock()
	return find(), true
}

// agent returns an agent that can be run. The error is a NotFound for an unknown
// name, and an Unavailable.
func (s *Service) agent(ctx context.Context, name string) (found, error) {
	f, ok := s.look(ctx, name)
	if !ok {
		return f, fault.New(fault.NotFound, "Agent %q is not known", name)
	}
	if !f.Available {
		return f, fault.New(fault.Unavailable, "Agent %s is not available: %s", name, *f.Reason)
	}
	return f, nil
}

// Choice is an agent and a model that go together.
type Choice struct{ Agent, Version, Model string }

// Choose checks that an agent is available and speaks the wire format of a model,
// by default the first one. The error is a NotFound, an Unavailable, or Malformed.
func (s *Service) Choose(ctx context.Context, agent, model string) (Choice, error) {
	f, err := s.agent(ctx, agent)
	if err != nil {
		return Choice{}, err
	}
	if model == "" {
		model = f.Models[0]
	}
	if !slices.Contains(f.Models, model) {
		return Choice{}, fault.Invalid("agent.model", "agent.model must be one of %s", strings.Join(f.Models, ", "))
	}
	c := Choice{Agent: agent, Model: model}
	if f.Version != nil {
		c.Version = *f.Version
	}
	return c, nil
}
