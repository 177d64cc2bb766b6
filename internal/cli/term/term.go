// Package term is what the commands share at the terminal: results as a table or as
// JSON, notes, questions, progress, and the exit codes.
package term

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	xterm "golang.org/x/term"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/browser"
)

// The exit codes. Scripts depend on them, so they never change; docs/cli.md lists them
// by command.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2 // an invalid flag, setting or skill
	ExitEdited = 3 // local edits are in the way
	// ExitInconclusive is the code of a gate without enough evidence. It shares its
	// number with ExitEdited: no command can return both.
	ExitInconclusive = 3
	ExitOutdated     = 4 // status: not everything is up to date
	ExitDenied       = 5 // without a valid key, or if the plan or a permission forbids it
	// ExitInterrupted ends a command after Ctrl-C: 128 plus the number of SIGINT, as in
	// a shell.
	ExitInterrupted = 130
)

// An ExitCode is the error of a command that has already printed what is wrong: Fail
// prints nothing more and returns the code.
type ExitCode int

func (ExitCode) Error() string { return "the command has printed what is wrong" }

// ErrPrinted ends a command with ExitFailed, without another message.
const ErrPrinted = ExitCode(ExitFailed)

// A Program is one run of the command line: its version, its streams, and how it
// prints. Tests set the streams; main leaves Stdin nil.
type Program struct {
	Version        string
	Stdout, Stderr io.Writer
	// Stdin is where answers to questions are read; nil means the standard input of the
	// process.
	Stdin io.Reader
	// Interactive permits questions and progress. UseProcess detects it if Stdin is
	// nil.
	Interactive bool
	// JSON prints results for scripts. It also suppresses questions.
	JSON bool
	// IDs shows the ids in tables whose rows can be named otherwise.
	IDs bool
	// Browser opens a page of a server; nil opens none. UseProcess sets it on a
	// terminal.
	Browser func(ctx context.Context, server, page string) error
	// Columns is the width of tables; 0 means the width of the terminal, if there is
	// one.
	Columns int
}

// UseProcess reads from the process's standard input, unless the program has another
// one, and detects whether a person is at the terminal. Run calls it once the flags are
// parsed.
func (p *Program) UseProcess() {
	if p.Stdin == nil {
		p.Stdin, p.Interactive = os.Stdin, isTerminal(os.Stdin) && isTerminal(p.Stderr)
		if isTerminal(p.Stdout) {
			p.Browser = browser.Of(os.Getenv).Open
		}
	}
}

// OpenPage opens a page of a server in a browser, if there is one and a person at the
// terminal. It reports whether it did. A browser that does not start is only noted, as
// the caller prints the address, too.
func (p *Program) OpenPage(ctx context.Context, server, page string) bool {
	if p.Browser == nil || p.JSON {
		return false
	}
	err := p.Browser(ctx, server, page)
	if err != nil && !errors.Is(err, browser.ErrNone) {
		p.Note("the browser was not opened: %s", err)
	}
	return err == nil
}

// isTerminal reports whether a stream is a terminal; a buffer of a test is not.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	// File descriptors are small, so the conversion cannot overflow.
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Print writes value as JSON for scripts, or calls table to write it for people: cells
// are separated by tabs. A line of words in capitals is the heading of a table, which
// is truncated to the width of the terminal and gets colours. All commands print
// results with it, so that --json works everywhere.
func (p *Program) Print(value any, table func(w io.Writer)) error {
	if p.JSON {
		return p.PrintJSON(value)
	}
	var text strings.Builder
	table(&text)
	g := newGrid(text.String())
	g.moveIDs(p.IDs)
	return g.write(p.Stdout, p.width(), p.Colour())
}

// PrintJSON writes value as indented JSON, also without --json.
func (p *Program) PrintJSON(value any) error {
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// Note prints to standard error what is neither the result nor a failure, so that it
// does not end up in a pipe.
func (p *Program) Note(format string, args ...any) {
	fmt.Fprintf(p.Stderr, "whetstone: %s\n", Plain(fmt.Sprintf(format, args...)))
}

// End prints how a command ended, and returns its exit code. After a signal every
// failure is taken as a consequence of it: the code is ExitInterrupted, and an error is
// only printed if it has a message for people.
func (p *Program) End(ctx context.Context, err error) int {
	_, printed := errors.AsType[ExitCode](err)
	_, worded := errors.AsType[*fault.Error](err)
	// A request that was cancelled by the signal; its message would only confuse.
	_, network := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return ExitOK
	case ctx.Err() == nil || printed:
		return p.Fail(err)
	case worded && !network:
		_ = p.Fail(err)
	default:
		fmt.Fprintln(p.Stderr, "whetstone: interrupted")
	}
	return ExitInterrupted
}

// Interrupted ends a command after a signal. The message tells what continues on the
// server all the same, and how to follow or cancel it.
func (p *Program) Interrupted(format string, args ...any) error {
	p.Note("interrupted; "+format, args...)
	return ExitCode(ExitInterrupted)
}

// GoesOn ends a command that was following something on the server, e.g. a run; what
// names its kind in the message.
func (p *Program) GoesOn(what, id string) error {
	return p.Interrupted("the %s goes on: `whetstone eval watch %s` follows it, `whetstone eval cancel %s` cancels it", what,
		id, id)
}

// Fail prints an error in a form that a person can act on, and returns the exit code
// for it: 2 for invalid input, 5 for a missing key or permission, else 1.
func (p *Program) Fail(err error) int {
	if code, ok := errors.AsType[ExitCode](err); ok {
		return int(code)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && len(e.Issues) > 0 {
		for _, issue := range e.Issues {
			fmt.Fprintf(p.Stderr, "whetstone: %s\n", issue.Message)
		}
		return ExitUsage
	}
	fmt.Fprintf(p.Stderr, "whetstone: %s\n", Message(err))
	if fault.Is(err, fault.Unauthorized) || fault.Is(err, fault.Denied) {
		return ExitDenied
	}
	return ExitFailed
}

// Message returns the text of an error for people. An error with a kind has a message
// for them; the cause behind it is for logs.
func Message(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		return e.Message
	}
	return err.Error()
}

// Confirm asks a yes-or-no question. Without a person at the terminal, and when ctx
// ends first, the answer is no: a script confirms with a flag.
func (p *Program) Confirm(ctx context.Context, question string) bool {
	if !p.Interactive || p.JSON {
		return false
	}
	answer := strings.ToLower(p.Ask(ctx, question+" [y/N]"))
	return answer == "y" || answer == "yes"
}

// Ask asks a question and returns the answer, or "" without a person at the terminal
// and when ctx ends first. It may be called by one goroutine at a time.
func (p *Program) Ask(ctx context.Context, question string) string {
	if !p.Interactive || p.JSON {
		return ""
	}
	fmt.Fprintf(p.Stderr, "%s ", Plain(question))
	// A read from a terminal cannot be cancelled: after ctx is done this goroutine
	// lives until the process exits, which is soon.
	answers := make(chan string, 1)
	// A read error counts as an empty answer.
	go func() {
		answer, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.Stderr)
		return ""
	case answer := <-answers:
		return strings.TrimSpace(answer)
	}
}
