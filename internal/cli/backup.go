package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/backup"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type backupCommand struct {
	config.Config `embed:""`

	File string `arg:"" help:"Where to write the backup, such as whetstone.tar.zst; - is standard output."`
}

// saved is what the commands print.
type saved struct {
	File string `json:"file"`
	backup.Manifest
	LeftOut []string `json:"left_out,omitempty"`
	Size    int64    `json:"size,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Run saves everything while the service goes on.
func (c *backupCommand) Run(ctx context.Context, p *Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	began := time.Now()
	tell, done := p.backupMeter("backup")
	m, size, err := app.Backup(ctx, app.Options{Config: c.Config, Version: p.Version}, c.File, p.Stdout, tell)
	done()
	if err != nil {
		return err
	}
	s := saved{File: c.File, Manifest: m, Size: size, Seconds: time.Since(began).Seconds()}
	if c.File == "-" {
		p.note("%s", s.summary("saved"))
	} else if err := p.print(s, func(w io.Writer) { fmt.Fprintln(w, s.summary("saved")) }); err != nil {
		return err
	}
	if m.SignedWith == "" {
		p.note("the backup is not signed, since the secret key is not here: a restore will ask for --unverified; run the command with the server's --secret-key or --data")
	}
	return p.warnOf(m)
}

func (s saved) summary(verb string) string {
	seconds := max(s.Seconds, 0.001)
	text := fmt.Sprintf("%s %s, %s, %s (%s) and %s of repositories in %.1f s (%.0f rows/s)", verb,
		count(int(s.Rows()), "row"), count(int(s.Jobs), "job"), count(int(s.Blobs.Files), "blob"), size(s.Blobs.Bytes),
		count(int(s.Repositories.Files), "file"), s.Seconds, float64(s.Rows())/seconds)
	if s.Size > 0 {
		text += fmt.Sprintf(": %s, %s", s.File, size(s.Size))
	}
	return text
}

// warnOf says what of a backup is not whole. What was lost before is a
// failure, although the rest is saved: somebody must look at it.
func (p *Program) warnOf(m backup.Manifest) error {
	if n := len(m.Deleted); n > 0 {
		p.note("blobs that were deleted while the backup ran, together with what needed them: %d, such as %s; the backup has their rows and not their bytes", n, m.Deleted[0])
	}
	if n := len(m.Lost); n > 0 {
		p.note("blobs that rows need and that are missing: %d, such as %s; run `whetstone doctor`", n, m.Lost[0])
	}
	if n := len(m.Damaged); n > 0 {
		p.note("blobs that are not what their key says: %d, such as %s; run `whetstone doctor`", n, m.Damaged[0])
	}
	if len(m.Lost)+len(m.Damaged) > 0 {
		return errSaid
	}
	return nil
}

type restoreCommand struct {
	config.Config `embed:""`

	Unverified bool   `env:"-" help:"Restore a backup that is not signed, or with another key: only if you trust the file."`
	File       string `arg:"" help:"Backup to read; - is standard input."`
}

// Run fills an empty place.
func (c *restoreCommand) Run(ctx context.Context, p *Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	began := time.Now()
	in := p.Stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return fault.New(fault.NotFound, "the backup cannot be opened: %s", err).Because(err)
		}
		defer file.Close()
		in = file
	}
	tell, done := p.backupMeter("restore")
	m, err := app.Restore(ctx, app.RestoreOptions{
		Options: app.Options{Config: c.Config, Version: p.Version}, Progress: tell, Unverified: c.Unverified,
	}, in)
	done()
	if err != nil {
		return p.afterFailedRestore(err)
	}
	s := saved{File: c.File, Manifest: m.Manifest, LeftOut: m.LeftOut, Seconds: time.Since(began).Seconds()}
	verb := "restored and verified"
	if c.Unverified {
		verb = "restored, without a look at the signature,"
	}
	if err := p.print(s, func(w io.Writer) { fmt.Fprintln(w, s.summary(verb)) }); err != nil {
		return err
	}
	if n := len(m.LeftOut); n > 0 {
		p.note("hooks and settings of repositories that were not restored, since a backup brings no programs: %d, such as %s; put them back by hand if you need them", n, m.LeftOut[0])
	}
	if c.Unverified && c.SecretKey == "" {
		p.note("settings and the key of the sealed secrets are not in a backup: copy the old place's secret.key into %s, or set --secret-key, then start `whetstone serve`", c.Data)
	}
	return p.warnOf(m.Manifest)
}

// afterFailedRestore says what to do with what is left.
func (p *Program) afterFailedRestore(err error) error {
	if _, begun := errors.AsType[*backup.Unfinished](err); begun {
		p.note("the restore did not come to its end and the database is empty; before you try again, empty the place of the blobs and of the repositories, too")
	}
	return err
}

// backupMeter shows on a terminal how far it is.
func (p *Program) backupMeter(label string) (tell func(backup.Progress), done func()) {
	if !p.Interactive || p.json {
		return nil, func() {}
	}
	m := p.lineMeter()
	return func(now backup.Progress) {
		m.show("%s: %s  %s, %s  %s", label, now.Stage, count(int(now.Rows), "row"), count(int(now.Blobs), "blob"), size(now.Bytes))
	}, m.clear
}
