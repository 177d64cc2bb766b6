package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/transcripts"
)

type importCommand struct {
	remote  `embed:""`
	Dir     string          `arg:"" optional:"" help:"Folder of the transcripts; ~/.claude/projects when empty."`
	Since   config.Duration `env:"-" placeholder:"30d" help:"Only transcripts that were written to in this time."`
	Prompts bool            `default:"true" negatable:"" help:"Send the texts of the prompts, which only you can read at the server."`
	DryRun  bool            `env:"-" help:"Read everything, and send and remember nothing; needs no server."`
}

type importOutput struct {
	DryRun bool `json:"dry_run"`
	transcripts.Summary
	StateFile string `json:"state_file,omitempty"`
}

// Run sends what the transcripts tell to the server, and what it has not sent
// before only.
func (c *importCommand) Run(ctx context.Context, p *Program) error {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	i := &transcripts.Import{Dir: dir, Prompts: c.Prompts, Version: p.Version}
	if c.Since > 0 {
		i.Since = time.Now().Add(-time.Duration(c.Since))
	}
	if c.DryRun {
		return p.runImport(ctx, i, "")
	}
	return c.with(p, func(s *session) error {
		state, err := s.prepare(ctx, i)
		if err != nil {
			return err
		}
		return p.runImport(ctx, i, state)
	})
}

func (c *importCommand) folder() (string, error) {
	if c.Dir != "" {
		return c.Dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Invalid("dir", "dir must be given: %s", err)
	}
	return filepath.Join(home, ".claude", "projects"), nil
}

// prepare gives the import its server, and the state that is kept for the
// server's user: its id is good for one server only, whatever the address.
func (s *session) prepare(ctx context.Context, i *transcripts.Import) (statePath string, err error) {
	me, err := s.Me(ctx)
	if err != nil {
		return "", err
	}
	i.Owner = me.Organisation.ID + " " + me.User.ID
	i.Push = func(ctx context.Context, body []byte) (transcripts.Receipt, error) {
		out, err := s.Push(ctx, body)
		receipt := transcripts.Receipt{Duplicate: out.Duplicate}
		for _, r := range out.Rejected {
			receipt.Rejected = append(receipt.Rejected, r.Kind+": "+r.Message)
		}
		return receipt, err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "There is no place to remember what was imported: %s", err)
	}
	hash := sha256.Sum256([]byte(i.Owner))
	statePath = filepath.Join(dir, "whetstone", "import-"+hex.EncodeToString(hash[:8])+".json")
	i.State, err = transcripts.OpenState(statePath)
	return statePath, err
}

func (p *Program) runImport(ctx context.Context, i *transcripts.Import, state string) error {
	bar := &importBar{w: io.Discard}
	if p.Interactive {
		bar.w = p.Stderr
	}
	i.Progress = bar.show
	summary, err := i.Run(ctx)
	bar.clear()
	for _, problem := range summary.Problems {
		p.note("%s", describeProblem(problem))
	}
	if err != nil && summary.Pushes > 0 {
		p.note("%s sent and remembered; the next import goes on from there", count(summary.Records.Total(), "record"))
	}
	if ctx.Err() != nil {
		return fault.New(fault.Unavailable, "The import was interrupted").Because(err)
	}
	if err != nil {
		return err
	}
	out := importOutput{DryRun: i.Push == nil, Summary: summary, StateFile: state}
	return p.print(out, func(w io.Writer) { out.print(w) })
}

func describeProblem(p transcripts.Problem) string {
	switch {
	case p.File == "":
		return "the server did not take a record: " + p.Message
	case p.Line == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

func (o importOutput) print(w io.Writer) {
	fmt.Fprintf(w, "Read %d of %s", o.Read, count(o.Files, "transcript"))
	for _, left := range []struct {
		n    int
		what string
	}{{o.Unchanged, "imported before"}, {o.Old, "too old"}, {o.Unreadable, "unreadable"}} {
		if left.n > 0 {
			fmt.Fprintf(w, ", %d %s", left.n, left.what)
		}
	}
	if o.Malformed > 0 {
		fmt.Fprintf(w, "; skipped %s", count(o.Malformed, "malformed line"))
	}
	r, verb := o.Records, "Sent"
	if o.DryRun {
		verb = "Would send"
	}
	fmt.Fprintf(w, ".\n%s %s: %s, %s, %s, %s.\n", verb, count(r.Total(), "record"), count(r.Sessions, "session"),
		count(r.Prompts, "prompt"), count(r.Invocations, "skill invocation"), count(r.Facts, "execution fact"))
	if o.Rejected > 0 {
		fmt.Fprintf(w, "The server did not take %s.\n", count(o.Rejected, "record"))
	}
}

// importBar shows on a terminal how far an import has come.
type importBar struct {
	w     io.Writer
	drawn time.Time
}

func (b *importBar) show(s transcripts.Summary) {
	done := s.Read + s.Unchanged + s.Old + s.Unreadable
	if time.Since(b.drawn) < 100*time.Millisecond && done < s.Files || s.Files == 0 {
		return
	}
	b.drawn = time.Now()
	filled := barWidth * done / s.Files
	fmt.Fprintf(b.w, "\r[%s%s]  %d of %s, %s\x1b[K", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled),
		done, count(s.Files, "file"), count(s.Records.Total(), "record"))
}

// clear removes the line, for what follows.
func (b *importBar) clear() { fmt.Fprint(b.w, "\r\x1b[K") }
