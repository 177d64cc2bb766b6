package quality

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// evalImportCommand has the flags of an import.
type evalImportCommand struct {
	server.Flags `embed:""`
	Path         string `arg:"" help:"File, or a folder: of a skill with evals/evals.json, of Harbor tasks, or of a plugin with cases of claude plugin eval."`
	Format       string `env:"-" enum:",evals.json,tasks,plugin-eval" default:"" help:"What to take from a folder that has several: evals.json, tasks or plugin-eval."`
	Suite        string `env:"-" placeholder:"SUITE" help:"Suite that an aggregate-result.json of claude plugin eval is a run of."`
	Name         string `env:"-" help:"Name of the suite; taken from the file when empty."`
	Source       string `env:"-" placeholder:"SOURCE" help:"Cloud source that the suite belongs to (label or id)."`
	Oracle       bool   `env:"-" help:"Let task packages run their solution before their verifier."`
	Partial      bool   `env:"-" help:"Leave out cases of claude plugin eval that cannot be run on the server. By default, one such case refuses the import."`
}

// Run creates a suite from a file or a folder, or with --suite a run of an existing
// suite from a result of claude plugin eval.
func (c *evalImportCommand) Run(ctx context.Context, p *term.Program) error {
	// Before the login, so that a wrong path fails at once.
	name, content, err := c.read(ctx, p)
	if err != nil {
		return err
	}
	if c.Suite != "" {
		return c.importRun(ctx, p, content)
	}
	return c.WithSession(p, func(s *server.Session) error {
		source, err := s.SourceID(ctx, c.Source)
		if err != nil {
			return err
		}
		bar := p.Transfer("Sending "+term.Plain(name), 1)
		progress := bar.Item()
		out, err := s.ImportEvalSuite(ctx, client.EvalImport{
			Name: c.Name, SourceID: source, Oracle: c.Oracle, Partial: c.Partial,
			Filename: name, Content: bytes.NewReader(content), Size: int64(len(content)),
			Progress: func(sent int64) { progress(sent, int64(len(content))) },
		})
		bar.Clear()
		if err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) { printImported(w, out) })
	})
}

// importRun imports a result as a run of the suite. Importing the same result twice is
// not an error and creates one run.
func (c *evalImportCommand) importRun(ctx context.Context, p *term.Program, content []byte) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SuiteID(ctx, c.Suite)
		if err != nil {
			return err
		}
		run, added, err := s.ImportEvalRun(ctx, id, bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return err
		}
		if !added {
			p.Note("the run was imported before")
		}
		return p.Print(run, func(w io.Writer) { printRun(w, run, s.Page("runs", run.ID)) })
	})
}

// printImported prints the suite, with what was left out and what is still to be fixed.
func printImported(w io.Writer, out api.EvalImported) {
	fmt.Fprintf(w, "Imported %s into the suite %s (%s).\n", term.Count(out.Suite.CaseCount, "case"),
		term.Plain(out.Suite.Name), out.Suite.ID)
	for _, r := range out.Refused {
		for _, reason := range r.Reasons {
			fmt.Fprintf(w, "Left out %s: %s\n", term.Plain(r.Task), term.Plain(reason))
		}
	}
	for _, warning := range out.Warnings {
		fmt.Fprintf(w, "Note: %s\n", term.Plain(warning))
	}
	for _, issue := range out.Suite.RunnabilityIssues {
		fmt.Fprintf(w, "Not runnable yet: %s\n", term.Plain(issue.Message))
	}
}

// read returns the file to send, with its name. From a folder it is its evals.json, or
// an archive of its task packages or cases.
func (c *evalImportCommand) read(ctx context.Context, p *term.Program) (name string, content []byte, err error) {
	info, err := os.Stat(c.Path)
	if err != nil {
		return "", nil, fault.Invalid("path", "path: %s", err)
	}
	if !info.IsDir() {
		content, err = os.ReadFile(c.Path)
		return filepath.Base(c.Path), content, err
	}
	full, err := filepath.Abs(c.Path)
	if err != nil {
		return "", nil, err
	}
	// A root keeps symbolic links from leaving the folder.
	root, err := os.OpenRoot(full)
	if err != nil {
		return "", nil, fault.Invalid("path", "path: %s", err)
	}
	defer func() { _ = root.Close() }() // opened for reading only
	format, err := c.choose(root.FS())
	if err != nil {
		return "", nil, err
	}
	switch format {
	case formatTasks:
		content, err = packFolder(ctx, p, root.FS())
	case formatPlugin:
		content, err = packFolder(ctx, p, evalFolder(root.FS()))
	default:
		content, err = readEvals(root.FS())
		return filepath.Base(full) + ".json", content, err
	}
	return filepath.Base(full) + ".tar.gz", content, err
}

// The formats that a folder may have; they are the values of --format.
const (
	formatEvals  = "evals.json"
	formatTasks  = "tasks"
	formatPlugin = "plugin-eval"
)

// choose returns the format to take from a folder. Tasks come first, since they may
// have files of any name, an evals.json among them. Two other formats at once are an
// error, as a guess could import the wrong cases.
func (c *evalImportCommand) choose(fsys fs.FS) (string, error) {
	if c.Format != "" {
		return c.Format, nil
	}
	tasks, err := hasFile(fsys, "task.toml")
	if err != nil || tasks {
		return formatTasks, err
	}
	// An error means that there is none; readEvals reports it again if nothing else
	// is there.
	_, evals := readEvals(fsys)
	cases, err := hasFile(evalFolder(fsys), "case.yaml", "prompt.md")
	switch {
	case err != nil:
		return "", err
	case cases && evals == nil:
		return "", fault.Invalid("path",
			"path: the folder has evals.json and cases of claude plugin eval: choose one with --format evals.json or "+
				"--format plugin-eval")
	case cases:
		return formatPlugin, nil
	}
	return formatEvals, nil
}

// hasFile reports whether there is a file of one of these names anywhere in the
// folder. It stops at the first one: a folder may hold thousands of files.
func hasFile(fsys fs.FS, names ...string) (found bool, err error) {
	err = fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && slices.Contains(names, path.Base(name)) {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found, err
}

// evalFolder returns the folder of a plugin's cases: evals if there is one, else the
// folder itself.
func evalFolder(fsys fs.FS) fs.FS {
	if info, err := fs.Stat(fsys, "evals"); err == nil && info.IsDir() {
		if cases, err := fs.Sub(fsys, "evals"); err == nil {
			return withoutResults{cases}
		}
	}
	return withoutResults{fsys}
}

// withoutResults hides the folder results, in which claude plugin eval keeps its
// output. They may be large, and are no cases.
type withoutResults struct{ fs.FS }

// ReadDir implements fs.ReadDirFS. It hides results at the top only.
func (f withoutResults) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return name == "." && e.Name() == "results" }), err
}

// ReadLink implements fs.ReadLinkFS, as does Lstat.
func (f withoutResults) ReadLink(name string) (string, error) { return fs.ReadLink(f.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (f withoutResults) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }

// packFolder packs a folder with the limits of a skill, and notes what it leaves out.
func packFolder(ctx context.Context, p *term.Program, fsys fs.FS) ([]byte, error) {
	var archive bytes.Buffer
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}
	packed, err := skillpkg.Pack(ctx, fsys, &archive, options)
	if err != nil {
		return nil, err
	}
	for _, name := range packed.LeftOut {
		p.Note("%s is left out", name)
	}
	return archive.Bytes(), nil
}

// readEvals returns the evals.json of a folder. A folder without one is fault.Invalid.
func readEvals(fsys fs.FS) ([]byte, error) {
	for _, name := range []string{"evals/evals.json", "evals.json"} {
		content, err := fs.ReadFile(fsys, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, fault.Invalid("path",
		"path: the folder has neither a task.toml nor evals/evals.json, nor cases of claude plugin eval")
}
