package capture

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/hook"
	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

// hookCommands are the commands `whetstone hook`.
type hookCommands struct {
	Install   hookInstall   `cmd:"" help:"Let an agent report its session after every turn."`
	Uninstall hookUninstall `cmd:"" help:"Remove the hook from the settings of an agent."`
	Status    hookStatus    `cmd:"" help:"Show which agents report their sessions, and what waits to be sent."`

	// The agents call these, so they are not in the help.
	Queue hookQueue `cmd:"" hidden:"" help:"Queue the session of a hook's payload."`
	Send  hookSend  `cmd:"" hidden:"" help:"Send the queued sessions."`
}

// agentFlags select a settings file of an agent. The scope project exists for Claude
// Code only; SettingsOf refuses the rest.
type agentFlags struct {
	Agent string `arg:"" enum:"claude-code,codex" help:"claude-code or codex."`
	Scope string `env:"-" enum:"user,project" default:"user" placeholder:"SCOPE" help:"user: all your projects; project: .claude/settings.json of the current folder, which others may share (Claude Code only)."`
}

// hookInstall installs the hook.
type hookInstall struct {
	server.Flags `embed:""`
	agentFlags   `embed:""`
	Prompts      bool `default:"true" negatable:"" help:"Send the texts of the prompts, which only you can read on the server."`
}

// Run adds the hook to the settings of an agent, after trying the login that the hook
// will use. The settings of an agent are often shared, so the key is not part of them:
// it goes to the credentials of this user.
func (c *hookInstall) Run(ctx context.Context, p *term.Program) error {
	settings, err := hook.SettingsOf(c.Agent, c.Scope)
	if err != nil {
		return err
	}
	return c.WithSession(p, func(s *server.Session) error {
		// A wrong key must fail here: the hook itself runs where nobody sees its
		// errors.
		me, err := s.Me(ctx)
		if err != nil {
			return err
		}
		if err := server.Remember(s.Server, string(c.APIKey), me); err != nil {
			return err
		}
		program := "whetstone"
		// Settings of a project are shared: there, every machine finds the program in
		// its PATH.
		if c.Scope == hook.User {
			if program, err = os.Executable(); err != nil {
				return err
			}
		}
		// Installing again replaces the hook, so that a change of flags takes
		// effect.
		if err := settings.Install(program, c.flags(s.Server)); err != nil {
			return err
		}
		out := map[string]any{"agent": c.Agent, "scope": c.Scope, "settings": settings.Path, "server": s.Server}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "%s reports its sessions to %s from now on; the hook is in %s.\n", c.Agent, s.Server, settings.Path)
			fmt.Fprintf(w, "`whetstone hook uninstall %s` removes it.\n", c.Agent)
		})
	})
}

// flags returns the flags of the command in the settings. Without --server there is
// none, so that the hook follows the latest login.
func (c *hookInstall) flags(address string) (flags []string) {
	if c.Server != "" {
		flags = append(flags, "--server", address)
	}
	if !c.Prompts {
		flags = append(flags, "--no-prompts")
	}
	return flags
}

// hookUninstall removes the hook.
type hookUninstall struct {
	agentFlags `embed:""`
}

// Run removes the hook. Sessions that are queued stay in the queue. Removing a hook
// that is not there is not an error. It needs no login, so that it works after the
// key was revoked.
func (c *hookUninstall) Run(p *term.Program) error {
	settings, err := hook.SettingsOf(c.Agent, c.Scope)
	if err != nil {
		return err
	}
	removed, err := settings.Uninstall()
	if err != nil {
		return err
	}
	out := map[string]any{"agent": c.Agent, "scope": c.Scope, "settings": settings.Path, "was_installed": removed}
	return p.Print(out, func(w io.Writer) {
		if removed {
			fmt.Fprintf(w, "Removed the hook from %s.\n", settings.Path)
		} else {
			fmt.Fprintf(w, "There is no hook in %s.\n", settings.Path)
		}
	})
}

// hookStatus shows the state of all hooks.
type hookStatus struct{}

// hookStatusOutput is the state of the hooks as --json prints it.
type hookStatusOutput struct {
	Hooks   []hookState `json:"hooks"`
	Waiting int         `json:"waiting"` // number of queued sessions
	Log     string      `json:"log"`     // path of the log of the hooks
}

// hookState is the hook in one settings file. Problem is why that file cannot be
// read. Command is what the settings run, which may be another version's.
type hookState struct {
	Agent     string `json:"agent"`
	Scope     string `json:"scope"`
	Settings  string `json:"settings"`
	Installed bool   `json:"installed"`
	Command   string `json:"command,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

// Run reads the settings of all agents, and changes nothing. A file that cannot be read
// is part of the result and not an error.
func (c *hookStatus) Run(p *term.Program) error {
	queue, err := hook.UserQueue()
	if err != nil {
		return err
	}
	out := hookStatusOutput{Waiting: queue.Len(), Log: queue.LogPath()}
	// All places in which a hook can be.
	for _, at := range [][2]string{
		{hook.ClaudeCode, hook.User}, {hook.ClaudeCode, hook.Project}, {hook.Codex, hook.User},
	} {
		settings, err := hook.SettingsOf(at[0], at[1])
		if err != nil {
			return err
		}
		state := hookState{Agent: at[0], Scope: at[1], Settings: settings.Path}
		if state.Command, err = settings.Installed(); err != nil {
			state.Problem = term.Message(err)
		}
		state.Installed = state.Command != ""
		out.Hooks = append(out.Hooks, state)
	}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintln(w, "AGENT\tSCOPE\tHOOK\tSETTINGS")
		for _, h := range out.Hooks {
			state := "no"
			switch {
			case h.Problem != "":
				state = h.Problem
			case h.Installed:
				state = "installed"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Agent, h.Scope, state, h.Settings)
		}
		fmt.Fprintf(w, "\nWaiting to be sent: %s. What went wrong is in %s.\n", term.Count(out.Waiting, "session"), out.Log)
	})
}

// hookQueue is the command that the hook of an agent runs after every turn.
type hookQueue struct {
	Agent   string `arg:"" enum:"claude-code,codex" help:"Who calls."`
	Payload string `arg:"" optional:"" help:"What Codex passes; Claude Code writes it to the standard input."`
	Server  string `placeholder:"URL" help:"Address of the server."`
	Prompts bool   `default:"true" negatable:"" help:"Send the texts of the prompts."`
}

// Run queues the session. It must be quick and has no output and no error: an agent
// would show them, or not end its turn. Problems are in the log of the hooks.
func (c *hookQueue) Run(p *term.Program) error {
	// Without a queue there is no log, either.
	if queue, err := hook.UserQueue(); err == nil {
		logProblem(queue, c.Agent, c.add(queue, p.Stdin))
	}
	return nil
}

// add queues the session of the payload. Claude Code writes the payload to standard
// input; Codex passes it as an argument.
func (c *hookQueue) add(queue hook.Queue, stdin io.Reader) error {
	payload := []byte(c.Payload)
	if c.Agent == hook.ClaudeCode {
		var err error
		if payload, err = io.ReadAll(io.LimitReader(stdin, hook.MaxPayload)); err != nil {
			return err
		}
	}
	transcript, err := hook.Transcript(c.Agent, payload)
	if err != nil {
		return err
	}
	return queue.Add(hook.Session{Transcript: transcript, Server: c.Server, Prompts: c.Prompts})
}

// hookSend is the command that sends the queue; hookQueue starts it in the background.
type hookSend struct {
	server.Flags `embed:""`
	Delay        config.Duration `env:"-" default:"1s" hidden:"" help:"How long to wait for what the agent is still writing."`
}

// sendTime bounds the sending of all queued sessions: the process has no one to stop
// it.
const sendTime = 5 * time.Minute

// Run sends the queued sessions, in the background of an agent. It ignores SIGHUP,
// since the terminal of the agent may be closed at once.
func (c *hookSend) Run(ctx context.Context, p *term.Program) error {
	signal.Ignore(syscall.SIGHUP)
	queue, err := hook.UserQueue()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	select {
	case <-time.After(time.Duration(c.Delay)):
	case <-ctx.Done():
	}
	// Once a server cannot be reached or refuses the key, its other sessions are not
	// tried.
	down := map[string]error{}
	err = queue.Send(ctx, func(s hook.Session) error {
		if err := down[s.Server]; err != nil {
			return err
		}
		err := c.send(ctx, p, s)
		if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Unauthorized) {
			down[s.Server] = err
		}
		return err
	})
	logProblem(queue, "send", err)
	return err
}

// send imports one transcript, and those of its subagents, which are in a folder of the
// same name without ".jsonl". A session without subagents has no such folder.
func (c *hookSend) send(ctx context.Context, p *term.Program, of hook.Session) error {
	flags := c.Flags
	flags.Server = cmp.Or(of.Server, flags.Server)
	return flags.WithSession(p, func(s *server.Session) error {
		i := &transcripts.Import{Prompts: of.Prompts, Version: p.Version}
		if _, err := prepareImport(ctx, s, i); err != nil {
			return err
		}
		for _, i.Dir = range []string{of.Transcript, strings.TrimSuffix(of.Transcript, ".jsonl")} {
			if _, err := i.Run(ctx); err != nil && (i.Dir == of.Transcript || !fault.Is(err, fault.NotFound)) {
				return err
			}
		}
		return nil
	})
}

// logProblem appends an error to the log of the hooks, as one line with the time. A log
// that cannot be opened is ignored: there is no other place to report to.
func logProblem(queue hook.Queue, doing string, err error) {
	if err == nil {
		return
	}
	f, openErr := queue.Log()
	if openErr != nil {
		return
	}
	message := strings.ReplaceAll(term.Message(err), "\n", "; ")
	_, _ = fmt.Fprintf(f, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), doing, message)
	_ = f.Close()
}
