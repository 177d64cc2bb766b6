package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// backupCommand saves the database, the blobs and the bare repositories into one file.
// It embeds all settings of the server, since it must find the same database and
// storage.
type backupCommand struct {
	config.Config `embed:""`

	File string `arg:"" help:"Where to write the backup, such as whetstone.tar.zst; - is standard output."`
}

// backupOutput is the result of a backup or a restore, as --json prints it.
type backupOutput struct {
	File string `json:"file"`
	backup.Manifest
	LeftOut []string `json:"left_out,omitempty"`
	Size    int64    `json:"size,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Run writes a backup. The service may be running. With "-" the archive goes to
// standard output, so the summary goes to standard error instead.
func (c *backupCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	began := time.Now()
	progress := p.Progress()
	m, size, err := app.Backup(ctx, app.Options{Config: c.Config, Version: p.Version}, c.File, p.Stdout,
		showBackup(progress, "backup"))
	progress.Clear()
	if err != nil {
		return err
	}
	out := backupOutput{File: c.File, Manifest: m, Size: size, Seconds: time.Since(began).Seconds()}
	if c.File == "-" {
		p.Note("%s", out.summary("saved"))
	} else if err := p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.summary("saved")) }); err != nil {
		return err
	}
	if m.SignedWith == "" {
		p.Note("the backup is not signed, because the secret key was not found: a restore will need --unverified; " +
			"run the command with the server's --secret-key or --data to sign it")
	}
	return warnIncomplete(p, m)
}

// summary is the line for people, e.g. "saved 1200 rows, 3 jobs, 40 blobs (1.5 MiB) and
// 2 files of repositories in 0.4 s (3000 rows/s): whetstone.tar.zst, 900.0 KiB".
func (o backupOutput) summary(verb string) string {
	rowsPerSecond := float64(o.Rows()) / max(o.Seconds, 0.001)
	text := fmt.Sprintf("%s %s, %s, %s (%s) and %s of repositories in %.1f s (%.0f rows/s)", verb,
		term.Count(int(o.Rows()), "row"), term.Count(int(o.Jobs), "job"), term.Count(int(o.Blobs.Files), "blob"),
		term.Size(o.Blobs.Bytes), term.Count(int(o.Repositories.Files), "file"), o.Seconds, rowsPerSecond)
	if o.Size > 0 {
		text += fmt.Sprintf(": %s, %s", o.File, term.Size(o.Size))
	}
	return text
}

// warnIncomplete reports blobs that are missing from a backup. Blobs that a running
// service deleted meanwhile are only noted. Blobs that were lost or damaged before make
// the command fail, although the rest is saved, so that a scheduled backup draws
// attention to them.
func warnIncomplete(p *term.Program, m backup.Manifest) error {
	if n := len(m.Deleted); n > 0 {
		p.Note("%s deleted while the backup ran, together with the rows that need them, e.g. %s; "+
			"the backup has those rows without their blobs", term.Count(n, "blob"), m.Deleted[0])
	}
	if n := len(m.Lost); n > 0 {
		p.Note("%s missing that rows need, e.g. %s; run `whetstone doctor`", term.Count(n, "blob"), m.Lost[0])
	}
	if n := len(m.Damaged); n > 0 {
		p.Note("%s damaged: the content does not match the key, e.g. %s; run `whetstone doctor`",
			term.Count(n, "blob"), m.Damaged[0])
	}
	if len(m.Lost)+len(m.Damaged) > 0 {
		return term.ErrPrinted
	}
	return nil
}

// restoreCommand restores a backup. Without --unverified the signature must verify with
// the secret key of this installation.
type restoreCommand struct {
	config.Config `embed:""`

	Unverified bool   `env:"-" help:"Restore a backup that is unsigned or signed with another key. Use it only if you trust the file."`
	File       string `arg:"" help:"Backup to read; - is standard input."`
}

// Run restores a backup into an empty database and storage. It refuses a database with
// data. The rows are committed at the end, so a failed restore leaves the database
// empty; blobs and repositories that it wrote stay behind, and the note asks to delete
// them.
func (c *restoreCommand) Run(ctx context.Context, p *term.Program) error {
	if err := c.Check(); err != nil {
		return err
	}
	began := time.Now()
	in := p.Stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return fault.New(fault.NotFound, "cannot open the backup: %s", err).Because(err)
		}
		defer file.Close()
		in = file
	}
	progress := p.Progress()
	m, err := app.Restore(ctx, app.RestoreOptions{
		Options:  app.Options{Config: c.Config, Version: p.Version},
		Progress: showBackup(progress, "restore"), Unverified: c.Unverified,
	}, in)
	progress.Clear()
	if err != nil {
		if _, begun := errors.AsType[*backup.Unfinished](err); begun {
			p.Note("the restore was not completed and the database is empty; " +
				"before you try again, also delete the blobs and repositories that it wrote")
		}
		return err
	}
	out := backupOutput{File: c.File, Manifest: m.Manifest, LeftOut: m.LeftOut, Seconds: time.Since(began).Seconds()}
	verb := "restored and verified"
	if c.Unverified {
		verb = "restored without verifying the signature:"
	}
	if err := p.Print(out, func(w io.Writer) { fmt.Fprintln(w, out.summary(verb)) }); err != nil {
		return err
	}
	if n := len(m.LeftOut); n > 0 {
		p.Note("%s of repositories not restored (hooks and settings), because a backup must not bring programs, e.g. %s; "+
			"restore them by hand if you need them", term.Count(n, "file"), m.LeftOut[0])
	}
	if c.Unverified && c.SecretKey == "" {
		p.Note("the settings and the secret key are not in a backup: copy secret.key of the old installation to %s, "+
			"or set --secret-key, then start `whetstone serve`", c.Data)
	}
	return warnIncomplete(p, m.Manifest)
}

// showBackup returns a callback that draws the progress of a backup or restore on the
// terminal; label is "backup" or "restore".
func showBackup(progress *term.Progress, label string) func(backup.Progress) {
	return func(now backup.Progress) {
		progress.Show("%s: %s  %s, %s  %s", label, now.Stage, term.Count(int(now.Rows), "row"),
			term.Count(int(now.Blobs), "blob"), term.Size(now.Bytes))
	}
}
