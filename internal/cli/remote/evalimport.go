package remote

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

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

type evalImportCommand struct {
	serverFlags `embed:""`
	Path        string `arg:"" help:"File, or a folder: of a skill with evals/evals.json, of a Harbor task, or of several."`
	Name        string `env:"-" help:"Name of the suite; taken from the file when empty."`
	Source      string `env:"-" placeholder:"ID" help:"Cloud source that the suite belongs to."`
	Oracle      bool   `env:"-" help:"Let task packages run their solution before their verifier."`
}

// Run creates a suite from a file or a folder.
func (c *evalImportCommand) Run(ctx context.Context, p *term.Program) error {
	name, content, err := c.read(ctx, p)
	if err != nil {
		return err
	}
	return c.withSession(p, func(s *session) error {
		bar := p.Transfer("Sending "+term.Plain(name), 1)
		progress := bar.Item()
		out, err := s.ImportEvalSuite(ctx, client.EvalImport{
			Name: c.Name, SourceID: c.Source, Oracle: c.Oracle,
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

func printImported(w io.Writer, out client.EvalImported) {
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

// read returns the file to send. From a folder it is its evals.json, or an
// archive of its task packages.
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
	root, err := os.OpenRoot(full)
	if err != nil {
		return "", nil, fault.Invalid("path", "path: %s", err)
	}
	defer func() { _ = root.Close() }() // opened for reading only
	tasks, err := hasTask(root.FS())
	if err != nil {
		return "", nil, err
	}
	if tasks {
		content, err = packTasks(ctx, p, root.FS())
		return filepath.Base(full) + ".tar.gz", content, err
	}
	content, err = readEvals(root.FS())
	return filepath.Base(full) + ".json", content, err
}

// hasTask reports whether there is a task package anywhere in the folder.
func hasTask(fsys fs.FS) (found bool, err error) {
	err = fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Base(name) == "task.toml" {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found, err
}

func packTasks(ctx context.Context, p *term.Program, fsys fs.FS) ([]byte, error) {
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

func readEvals(fsys fs.FS) ([]byte, error) {
	for _, name := range []string{"evals/evals.json", "evals.json"} {
		content, err := fs.ReadFile(fsys, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, fault.Invalid("path", "path: the folder has neither a task.toml nor evals/evals.json")
}
