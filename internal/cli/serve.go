package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
)

// serveCommand starts the service: the server, its jobs and the dashboard in one
// process.
type serveCommand struct {
	config.Config `embed:""`

	Demo bool `help:"Fill an empty database with example data."`
}

// Run starts the service. It returns after ctx is done and requests and jobs are
// drained. Once the port is open, it prints the address, and the key of the default
// organisation if this is the first start.
func (c *serveCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	a, err := app.New(ctx, app.Options{
		Config: c.Config, Version: p.Version, Log: newLog(p.Stderr, c.LogFormat, c.LogLevel), Memory: app.LimitMemory(c.Database),
	})
	if err != nil {
		return err
	}
	// A generated key goes to standard output only, because logs are kept and read
	// by others. A given key is not printed at all: the operator has it, and
	// standard output may be logged, too.
	switch {
	case a.FirstKey == "":
	case c.BootstrapKey != "":
		fmt.Fprintln(p.Stdout, `API key of the organisation "default": the one given as --bootstrap-key`)
	default:
		fmt.Fprintf(p.Stdout, "API key of the organisation \"default\", shown this once: %s\n", a.FirstKey)
	}
	if c.Demo {
		if err := a.FillDemo(ctx, p.Stderr); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.Stdout, "Whetstone %s: %s (data in %s)\n", p.Version, a.URL(), c.Where())
	// The ready line is for programs that start the service with port 0. The port is
	// open already, so that their first request is not refused.
	fmt.Fprintf(p.Stderr, "listening on %s\n", a.ListenURL())
	return a.Run(ctx)
}

// migrateCommand migrates without starting the service, e.g. before the replicas of a
// new version start.
type migrateCommand struct {
	config.Database `embed:""`
}

// Run migrates the schema, creating the database if there is none. A database that is
// up to date is not an error.
func (c *migrateCommand) Run(ctx context.Context, p *term.Program) error {
	db, err := app.OpenDatabase(ctx, c.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	return p.Print(map[string]string{"status": "migrated", "database": db.Dialect().Name()}, func(w io.Writer) {
		fmt.Fprintf(w, "The %s database has the schema of this version.\n", db.Dialect().Name())
	})
}

// configCommand prints settings to answer "which value is used, and is it valid?".
type configCommand struct {
	config.Config `embed:""`
}

// Run prints the settings in force and validates them afterwards, so that the output
// shows where an invalid value comes from.
func (c *configCommand) Run(p *term.Program) error {
	settings := c.Settings()
	err := p.Print(settings, func(w io.Writer) {
		for _, s := range settings {
			fmt.Fprintf(w, "%s\t= %q\n", s.Name, s.Value)
		}
	})
	if err != nil {
		return err
	}
	return c.Check()
}

// doctorCommand checks an installation; see package app/doctor for the checks.
type doctorCommand struct {
	config.Config `embed:""`

	Quick   bool `env:"-" help:"Do not read the content of the blobs."`
	Verbose bool `env:"-" help:"Also list the checks that found nothing."`
}

// Run checks the installation and fails if something is broken. It prints what is wrong,
// with --verbose also what is not, and a warning alone does not fail it. The service may be running.
func (c *doctorCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	progress := p.Progress()
	doctor := app.NewDoctor(c.Config)
	doctor.Quick = c.Quick
	doctor.Progress = func(blobs, bytes int64) { progress.Show("reading blobs  %d  %s", blobs, term.Size(bytes)) }
	findings := doctor.Examine(ctx)
	progress.Clear()
	err := p.Print(findings, func(w io.Writer) {
		shown := slices.Clone(findings)
		if !c.Verbose {
			shown = slices.DeleteFunc(shown, func(f invariants.Finding) bool { return f.Status == invariants.Good })
		}
		if len(shown) > 0 {
			fmt.Fprintln(w, "STATUS\tCHECK\tMESSAGE")
		}
		for _, f := range shown {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.Message)
		}
		if good := len(findings) - len(shown); good > 0 {
			fmt.Fprintf(w, "%s found nothing wrong; --verbose lists them.\n", term.Count(good, "check"))
		}
	})
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Status == invariants.Broken {
			return term.ErrPrinted
		}
	}
	return nil
}

// versionCommand prints what was built, for bug reports.
type versionCommand struct{}

// Run prints the version. The commit is "" in a binary that was built outside of a
// repository.
func (versionCommand) Run(p *term.Program) error {
	v := map[string]string{"version": p.Version, "go": runtime.Version(), "commit": ""}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v["commit"] = s.Value
			}
		}
	}
	return p.Print(v, func(w io.Writer) {
		fmt.Fprintf(w, "whetstone %s (%s, %s/%s)\n", p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	})
}

// newLog returns the logger of the server; format is "text" or "json".
func newLog(w io.Writer, format, level string) *slog.Logger {
	var lowest slog.Level
	_ = lowest.UnmarshalText([]byte(level)) // the flag allows only levels
	options := &slog.HandlerOptions{Level: lowest}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
