package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// organizationCommands are the commands `whetstone organization`, for owners only.
type organizationCommands struct {
	Export organizationExport `cmd:"" help:"Create an archive of everything the organisation has, and download it."`
	Delete organizationDelete `cmd:"" help:"Delete the organisation and everything in it, permanently."`
}

// organizationArchive is the state of an export, as the API describes it. Size, SHA256
// and DownloadURL are nil until the archive is complete, Error until it failed.
type organizationArchive struct {
	State       string  `json:"state"`
	Rows        int64   `json:"rows"`
	Blobs       int64   `json:"blobs"`
	Size        *int64  `json:"size"`
	SHA256      *string `json:"sha256"`
	DownloadURL *string `json:"download_url"`
	Error       *string `json:"error"`
}

// exportPoll is how often the state of an export is asked for.
const (
	organizationPath = "/api/v1/organization"
	exportPoll       = time.Second
)

// organizationExport downloads an archive of the organisation.
type organizationExport struct {
	server.Flags `embed:""`
	File         string `arg:"" help:"File to write, e.g. acme.zip; it must not exist."`
}

// Run has the server create an archive, waits for it, downloads it and checks its
// SHA-256. The file is created first, so that a name that cannot be written fails
// before the work, and an existing file is never overwritten. A failed export leaves no
// file.
func (c *organizationExport) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		// Readable by the owner only: the archive has everything.
		file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fault.Invalid("file", "%s exists; choose another name", c.File)
		}
		if err != nil {
			return fault.Invalid("file", "%s cannot be written: %s", c.File, err)
		}
		made, err := exportOrganization(ctx, p, s, file)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			// The first error is the cause; this one would hide it.
			_ = os.Remove(c.File)
			return err
		}
		value := map[string]any{
			"file": c.File, "size": *made.Size, "sha256": *made.SHA256, "rows": made.Rows,
			"blobs": made.Blobs,
		}
		return p.Print(value, func(w io.Writer) {
			fmt.Fprintf(w, "%s has %d rows and %d files, %s.\nSHA-256 %s\n", c.File, made.Rows, made.Blobs,
				term.Size(*made.Size), *made.SHA256)
		})
	})
}

// exportOrganization starts an export and writes the archive to file. While an export
// is running, another request joins it.
func exportOrganization(ctx context.Context, p *term.Program, s *server.Session, file *os.File) (organizationArchive, error) {
	var out struct{ Export organizationArchive }
	if err := s.Call(ctx, http.MethodPost, organizationPath+"/export", nil, &out); err != nil {
		return organizationArchive{}, err
	}
	progress := p.Progress()
	defer progress.Clear()
	// Interrupting only stops the waiting: the export goes on, and the next call
	// joins it.
	for out.Export.DownloadURL == nil {
		if out.Export.State == "failed" && out.Export.Error != nil {
			return organizationArchive{}, fault.New(fault.Unavailable, "The archive was not made: %s",
				term.Plain(*out.Export.Error))
		}
		if out.Export.State == "failed" || out.Export.State == "expired" {
			return organizationArchive{}, fault.New(fault.Unavailable,
				"The archive could not be created; see the log of the server, and try again")
		}
		progress.Show("making the archive: %d rows, %d files", out.Export.Rows, out.Export.Blobs)
		select {
		case <-ctx.Done():
			return organizationArchive{}, ctx.Err()
		case <-time.After(exportPoll):
		}
		if err := s.Call(ctx, http.MethodGet, organizationPath+"/export", nil, &out); err != nil {
			return organizationArchive{}, err
		}
	}
	progress.Show("downloading %s", term.Size(*out.Export.Size))
	hash := sha256.New()
	// DownloadTo asks for the writer again at each attempt: a retry starts from the
	// first byte.
	err := s.DownloadTo(ctx, *out.Export.DownloadURL, func() (io.Writer, error) {
		hash.Reset()
		_, err := file.Seek(0, io.SeekStart)
		return io.MultiWriter(file, hash), errors.Join(err, file.Truncate(0))
	})
	if err != nil {
		return organizationArchive{}, err
	}
	// A download that was cut off must not pass for a backup.
	if got := hex.EncodeToString(hash.Sum(nil)); got != *out.Export.SHA256 {
		return organizationArchive{}, fault.New(fault.Unavailable,
			"The download is damaged: its SHA-256 is %s, not %s; try again", got, *out.Export.SHA256)
	}
	return out.Export, nil
}

// organizationDelete deletes the caller's own organisation.
type organizationDelete struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name of your organisation."`
	Yes          bool   `env:"-" short:"y" help:"Do not ask."`
}

// Run deletes the organisation after a confirmation. The name must be given and is
// checked by the server, so that a key of another organisation deletes nothing.
func (c *organizationDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		name := term.Plain(c.Name)
		question := fmt.Sprintf("Delete %s and everything in it? This cannot be undone, and all members lose access.", name)
		if !c.Yes && !p.Confirm(ctx, question) {
			return fault.New(fault.Conflict,
				"Nothing was deleted; answer yes, or use --yes. `whetstone organization export FILE` saves an archive first")
		}
		if err := s.Call(ctx, http.MethodDelete, organizationPath, map[string]string{"confirm": c.Name}, nil); err != nil {
			return err
		}
		return p.Print(map[string]any{"deleted": c.Name}, func(w io.Writer) {
			fmt.Fprintf(w,
				"%s was deleted. Its keys do not work any more; `whetstone logout` removes the one on this machine.\n", name)
		})
	})
}
