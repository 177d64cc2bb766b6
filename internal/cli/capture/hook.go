package capture

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/hook"
)

type hookCommands struct {
	Install   hookInstall   `cmd:"" help:"Let an agent report its session after every turn."`
	Uninstall hookUninstall `cmd:"" help:"Remove the hook from the settings of an agent."`
	Status    hookStatus    `cmd:"" help:"Show which agents report their sessions, and what waits to be sent."`

	// The agents call these.
	Queue hookQueue `cmd:"" hidden:"" help:"Queue the session of a hook's payload."`
	Send  hookSend  `cmd:"" hidden:"" help:"Send the queued sessions."`
}

// agentFlags name a settings file.
type agentFlags struct {
	Agent string `arg:"" enum:"claude-code,codex" help:"claude-code or codex."`
	Scope string `env:"-" enum:"user,project" default:"user" placeholder:"SCOPE" help:"user: all your projects; project: .claude/settings.json of the current folder, which others may share (Claude Code only)."`
}

type hookInstall struct {
	server.Flags `embed:""`
	agentFlags   `embed:""`
	Prompts      bool `default:"true" negatable:"" help:"Send the texts of the prompts, which only you can read on the server."`
}

// Run adds the hook, after trying the login that it will use. The settings of an
// agent are often shared, so the key is not part of them.
func (c *hookInstall) Run(ctx context.Context, p *term.Program) error {
	settings, err := hook.SettingsOf(c.Agent, c.Scope)
	if err != nil {
		return err
	}
	return c.WithSession(p, func(s *server.Session) error {
		me, err := s.Me(ctx)
		if err != nil {
			return err
		}
		if err := server.Remember(s.Server, string(c.APIKey), me); err != nil {
			return err
		}
		program := "whetstone"
		if c.Scope == hook.User {
			if program, err = os.Executable(); err != nil {
				return err
			}
		}
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

// flags are those of the command in the settings. A server that was not named is
// that of the last login, whatever that will be.
func (c *hookInstall) flags(address string) (flags []string) {
	if c.Server != "" {
		flags = append(flags, "--server", address)
	}
	if !c.Prompts {
		flags = append(flags, "--no-prompts")
	}
	return flags
}

type hookUninstall struct {
	agentFlags `embed:""`
}

// Run removes the hook. What waits to be sent stays in the queue.
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

type hookStatus struct{}

type hookStatusOutput struct {
	Hooks   []hookState `json:"hooks"`
	Waiting int         `json:"waiting"` // sessions
	Log     string      `json:"log"`
}

type hookState struct {
	Agent     string `json:"agent"`
	Scope     string `json:"scope"`
	Settings  string `json:"settings"`
	Installed bool   `json:"installed"`
	Command   string `json:"command,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

// Run reads the settings of all agents, and changes nothing.
func (c *hookStatus) Run(p *term.Program) error {
	queue, err := hook.UserQueue()
	if err != nil {
		return err
	}
	out := hookStatusOutput{Waiting: queue.Len(), Log: queue.LogPath()}
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
