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

type hookQueue struct {
	Agent   string `arg:"" enum:"claude-code,codex" help:"Who calls."`
	Payload string `arg:"" optional:"" help:"What Codex passes; Claude Code writes it to the standard input."`
	Server  string `placeholder:"URL" help:"Address of the server."`
	Prompts bool   `default:"true" negatable:"" help:"Send the texts of the prompts."`
}

// Run queues the session. It has no output and does not fail: an agent would show
// it, or not end its turn. Problems are in the log.
func (c *hookQueue) Run(p *term.Program) error {
	if queue, err := hook.UserQueue(); err == nil { // without one there is no place for a log, either
		logProblem(queue, c.Agent, c.add(queue, p.Stdin))
	}
	return nil
}

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

type hookSend struct {
	server.Flags `embed:""`
	Delay        config.Duration `env:"-" default:"1s" hidden:"" help:"How long to wait for what the agent is still writing."`
}

// sendTime bounds the sending of all sessions that wait.
const sendTime = 5 * time.Minute

// Run sends the queued sessions, in the background of an agent. It outlives the
// terminal of the agent, which may be closed at once.
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
	down := map[string]error{} // by server: what else waits for it need not be tried
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

// send imports one transcript, and those of its subagents, which have a folder of
// the same name.
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

// logProblem appends an error to the log of the hook.
func logProblem(queue hook.Queue, doing string, err error) {
	if err == nil {
		return
	}
	f, openErr := queue.Log()
	if openErr != nil {
		return // where else could it go
	}
	message := strings.ReplaceAll(term.Message(err), "\n", "; ")
	_, _ = fmt.Fprintf(f, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), doing, message)
	_ = f.Close()
}
