package capture

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
