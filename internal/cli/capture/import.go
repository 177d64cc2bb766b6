package capture

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

// importCommand has the flags of an import. Prompts are on and content is off by
// default: prompts are for their author only.
type importCommand struct {
	server.Flags `embed:""`
	Dir          string          `arg:"" optional:"" help:"Folder of the transcripts; ~/.claude/projects when empty."`
	Since        config.Duration `env:"-" placeholder:"30d" help:"Only transcripts that changed in this time."`
	Prompts      bool            `default:"true" negatable:"" help:"Send the texts of the prompts, which only you can read on the server."`
	WithContent  bool            `env:"-" help:"Also send the content: prompts, answers, and the input and output of tools. Stored only if an owner has turned that on."`
	DryRun       bool            `env:"-" xor:"grade" help:"Read everything, but send and store nothing; needs no server."`
	Grade        bool            `env:"-" xor:"grade" help:"Have the sessions graded, and print the pass rates of the skills."`
	Wait         config.Duration `env:"-" default:"5m" placeholder:"TIME" help:"With --grade: how long to wait for the grades."`
}

// importOutput is the summary of an import as --json prints it. StateFile is "" in a
// dry run.
type importOutput struct {
	DryRun bool `json:"dry_run"`
	transcripts.Summary
	StateFile string         `json:"state_file,omitempty"`
	Grading   *gradingOutput `json:"grading,omitempty"`
}

// Run reads the transcripts and sends what was not sent before. It may run as often as
// one likes: the state file remembers what was sent, and the server deduplicates.
func (c *importCommand) Run(ctx context.Context, p *term.Program) error {
	dir := c.Dir
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fault.Invalid("dir", "dir must be given: %s", err)
		}
		dir = filepath.Join(home, ".claude", "projects")
	}
	i := &transcripts.Import{Dir: dir, Prompts: c.Prompts, Content: c.WithContent, Version: p.Version}
	if c.Since > 0 {
		i.Since = time.Now().Add(-time.Duration(c.Since))
	}
	if c.DryRun {
		out, err := runImport(ctx, p, i)
		if err != nil {
			return err
		}
		return p.Print(out, out.print)
	}
	return c.WithSession(p, func(s *server.Session) error {
		// Before anything is read: a person should not wait to be refused.
		if c.WithContent {
			if err := checkContent(ctx, s, p); err != nil {
				return err
			}
		}
		state, err := prepareImport(ctx, s, i)
		if err != nil {
			return err
		}
		out, err := runImport(ctx, p, i)
		if err != nil {
			return err
		}
		out.StateFile = state
		if c.Grade {
			if out.Grading, err = c.gradeSessions(ctx, p, s); err != nil {
				return err
			}
		}
		return p.Print(out, out.print)
	})
}

// checkContent refuses to send content to a server that would drop it. Otherwise it
// notes what the server does with it, so that a person can still press Ctrl-C. It is
// a courtesy: the server decides for every text that it receives.
func checkContent(ctx context.Context, s *server.Session, p *term.Program) error {
	setting, err := s.ContentSetting(ctx)
	// A key that can only report may not read the setting: the reply to the push will
	// tell.
	if client.Status(err) == http.StatusForbidden {
		setting.Enabled, err = true, nil
	}
	if err != nil {
		return err
	}
	if !setting.Enabled {
		return fault.New(fault.Conflict, "The organisation keeps no content of sessions, so nothing was sent. "+
			"An owner can switch it on: `whetstone settings content on`, or Settings, Content on the dashboard")
	}
	p.Note("sending what was said in these sessions: prompts, answers, and what tools read and printed. The server removes " +
		"secrets, e-mail addresses and home folders that it recognises, and stores the rest encrypted, for you and for " +
		"people with evidence:read")
	return nil
}

// prepareImport sets the destination of the import, and opens its state file, which
// records what was sent before. The file belongs to a user of an organisation and not
// to an address, since one server may have several.
func prepareImport(ctx context.Context, s *server.Session, i *transcripts.Import) (statePath string, err error) {
	me, err := s.Me(ctx)
	if err != nil {
		return "", err
	}
	i.Owner = me.Organisation.ID + " " + me.User.ID
	// The import knows nothing of the client: it only needs a function that sends.
	i.Push = func(ctx context.Context, body []byte) (transcripts.Receipt, error) {
		out, err := s.Push(ctx, body)
		receipt := transcripts.Receipt{Duplicate: out.Duplicate}
		if out.Content != nil {
			receipt.Dropped = out.Content.Message
		}
		for _, r := range out.Rejected {
			receipt.Rejected = append(receipt.Rejected, r.Kind+": "+r.Message)
		}
		return receipt, err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "There is no folder for the state of the import: %s", err)
	}
	// 8 bytes of a hash, since both ids would make a name of 80 characters.
	hash := sha256.Sum256([]byte(i.Owner))
	statePath = filepath.Join(dir, "whetstone", "import-"+hex.EncodeToString(hash[:8])+".json")
	i.State, err = transcripts.OpenState(statePath)
	return statePath, err
}

// runImport runs the import with progress. Unreadable lines are notes and not
// errors: transcripts are written by other programs, and one bad line must not stop
// the rest. A dry run has no Push, and so nothing to continue.
func runImport(ctx context.Context, p *term.Program, i *transcripts.Import) (importOutput, error) {
	progress := p.Progress()
	i.Progress = func(s transcripts.Summary) {
		if s.Files == 0 {
			return
		}
		// Every file ends in one of the four counts.
		done := s.Read + s.Unchanged + s.Old + s.Unreadable
		progress.Show("%s  %d of %s, %s", term.Bar(int64(done), int64(s.Files)), done, term.Count(s.Files, "file"),
			term.Count(s.Records.Total(), "record"))
	}
	summary, err := i.Run(ctx)
	progress.Clear()
	for _, problem := range summary.Problems {
		p.Note("%s", describeProblem(problem))
	}
	if err != nil && summary.Pushes > 0 {
		p.Note("%s sent; the next import continues from there", term.Count(summary.Records.Total(), "record"))
	}
	// After Ctrl-C the state file has everything that the server acknowledged.
	if ctx.Err() != nil {
		return importOutput{}, fault.New(fault.Unavailable, "The import was interrupted").Because(err)
	}
	return importOutput{DryRun: i.Push == nil, Summary: summary}, err
}

// describeProblem formats a problem as PATH:LINE: MESSAGE, as compilers do. Editors
// turn that form into a link.
func describeProblem(p transcripts.Problem) string {
	switch {
	case p.File == "":
		return "the server rejected a record: " + p.Message
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// print prints the summary for people.
func (o importOutput) print(w io.Writer) {
	fmt.Fprintf(w, "Read %d of %s", o.Read, term.Count(o.Files, "transcript"))
	for _, left := range []struct {
		n    int
		what string
	}{{o.Unchanged, "imported before"}, {o.Old, "too old"}, {o.Unreadable, "unreadable"}} {
		if left.n > 0 {
			fmt.Fprintf(w, ", %d %s", left.n, left.what)
		}
	}
	if o.Malformed > 0 {
		fmt.Fprintf(w, "; skipped %s", term.Count(o.Malformed, "malformed line"))
	}
	r, verb := o.Records, "Sent"
	if o.DryRun {
		verb = "Would send"
	}
	fmt.Fprintf(w, ".\n%s %s: %s, %s, %s, %s, %s, %s, %s, %s.\n", verb, term.Count(r.Total(), "record"),
		term.Count(r.Sessions, "session"),
		term.Count(r.Prompts, "prompt"), term.Count(r.Invocations, "skill invocation"), term.Count(r.Facts, "execution fact"),
		term.Count(r.Requests, "model request"), term.Count(r.Offers, "skill offer"), term.Count(r.ToolCalls, "tool call"),
		term.Count(r.Outcomes, "outcome"))
	if o.Files == 0 {
		fmt.Fprintln(w, "No transcripts were found; name their folder, e.g. `whetstone import ~/.codex/sessions`.")
	}
	if r.Transcripts > 0 {
		fmt.Fprintf(w, "%s of these include content.\n", term.Count(r.Transcripts, "record"))
	}
	if o.Rejected > 0 {
		fmt.Fprintf(w, "The server rejected %s.\n", term.Count(o.Rejected, "record"))
	}
	if o.Grading != nil {
		o.Grading.print(w)
	}
}
