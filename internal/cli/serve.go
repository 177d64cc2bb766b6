package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/exam"
)

type serveCommand struct {
	config.Config `embed:""`

	Demo bool `help:"Fill an empty database with an organisation to look at."`
}

// Run starts the service and returns when ctx is done and all is drained.
func (c *serveCommand) Run(ctx context.Context, p *Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	a, err := app.New(ctx, app.Options{
		Config: c.Config, Version: p.Version, Log: newLog(p.Stderr, c.LogFormat, c.LogLevel), Memory: app.LimitMemory(),
	})
	if err != nil {
		return err
	}
	// A key that was made goes to standard output and nowhere else: logs are kept
	// and read by others. One that was given is known, and standard output may be
	// a log, too.
	switch {
	case a.FirstKey == "":
	case c.BootstrapKey != "":
		fmt.Fprintln(p.Stdout, `API key of the organisation "default": the one that was given as --bootstrap-key`)
	default:
		fmt.Fprintf(p.Stdout, "API key of the organisation \"default\", shown this once: %s\n", a.FirstKey)
	}
	if c.Demo {
		if err := a.FillDemo(ctx, p.Stderr); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.Stdout, "Whetstone %s: %s (data in %s)\n", p.Version, a.URL(), c.Where())
	fmt.Fprintf(p.Stderr, "listening on %s\n", a.ListenURL())
	return a.Run(ctx)
}

type migrateCommand struct {
	config.Database `embed:""`
}

// Run brings the schema up.
func (c *migrateCommand) Run(ctx context.Context, p *Program) error {
	db, err := app.OpenDatabase(ctx, c.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	return p.print(map[string]string{"status": "migrated", "database": db.Dialect().Name()}, func(w io.Writer) {
		fmt.Fprintf(w, "The %s database is at this version's schema.\n", db.Dialect().Name())
	})
}

type configCommand struct {
	config.Config `embed:""`
}

// Run prints the settings in force.
func (c *configCommand) Run(p *Program) error {
	settings := c.Settings()
	err := p.print(settings, func(w io.Writer) {
		for _, s := range settings {
			fmt.Fprintf(w, "%s\t= %q\n", s.Name, s.Value)
		}
	})
	if err != nil {
		return err
	}
	return c.Check()
}

type doctorCommand struct {
	config.Config `embed:""`

	Quick bool `env:"-" help:"Do not read the content of the blobs."`
}

// Run checks the installation and fails if something is broken.
func (c *doctorCommand) Run(ctx context.Context, p *Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	tell, done := p.doctorMeter()
	doctor := app.NewDoctor(c.Config)
	doctor.Quick, doctor.Progress = c.Quick, tell
	findings := doctor.Examine(ctx)
	done()
	err := p.print(findings, func(w io.Writer) {
		for _, f := range findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.Message)
		}
	})
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Status == exam.Broken {
			return errSaid
		}
	}
	return nil
}

// doctorMeter shows on a terminal how many blobs were read.
func (p *Program) doctorMeter() (tell func(blobs, bytes int64), done func()) {
	if !p.Interactive || p.json {
		return nil, func() {}
	}
	m := p.lineMeter()
	return func(blobs, bytes int64) { m.show("reading blobs  %d  %s", blobs, size(bytes)) }, m.clear
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(p *Program) error {
	v := map[string]string{"version": p.Version, "go": runtime.Version(), "commit": commit()}
	return p.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "whetstone %s (%s, %s/%s)\n", p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	})
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
