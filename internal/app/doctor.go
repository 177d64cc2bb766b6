package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Finding is what the doctor says of one part.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// A Status is how bad a finding is.
type Status string

// The statuses, best first.
const (
	Good   Status = "ok"
	Advice Status = "warn"
	Broken Status = "fail"
)

// Examine checks an installation from the outside: it may be running or not.
// It changes nothing but a probe blob, which it removes.
func Examine(ctx context.Context, c config.Config) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	findings := []Finding{examineData(c), examineSandbox(ctx, c)}
	// To open a missing SQLite database is to make it.
	if path, ok := strings.CutPrefix(c.URL(), "sqlite:"); ok {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return append(findings, Finding{"database", Advice, path + " does not exist yet; `whetstone serve` makes it"})
		}
	}
	db, err := store.Open(ctx, store.Options{URL: c.URL(), MaxConns: 2})
	if err != nil {
		return append(findings, broken("database", "cannot be opened: %s; check --database-url and --data", err))
	}
	defer db.Close()
	findings = append(findings, Finding{"database", Good, db.Dialect().Name() + " answers"})
	pending, err := db.Pending(ctx)
	switch {
	case err != nil:
		return append(findings, broken("migrations", "cannot be read: %s", err))
	case pending:
		return append(findings, Finding{"migrations", Advice, "the schema is older than this binary; `whetstone serve` or `whetstone migrate` brings it up"})
	}
	findings = append(findings, Finding{"migrations", Good, "the schema is up to date"})
	return append(findings, examineKeys(ctx, db), examineSecretKey(ctx, c, db), examineBlobs(ctx, c), examineJobs(ctx, db))
}

// examineSecretKey says whether the key opens what the database has sealed.
func examineSecretKey(ctx context.Context, c config.Config, db *store.DB) Finding {
	const check = "secret key"
	keyring, err := findKey(c.Data, c.SecretKey)
	path := filepath.Join(c.Data, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		sealed, err := (&auth.Service{DB: db}).HasSealed(ctx)
		if err == nil && !sealed {
			return Finding{check, Advice, path + " does not exist yet; `whetstone serve` makes it and seals the secrets with it"}
		}
		return broken(check, "the database has sealed secrets, and %s is missing; put it back or set --secret-key", path)
	}
	if err != nil {
		return broken(check, "%s", err)
	}
	if err := (&auth.Service{DB: db, Seal: keyring}).CheckSealed(ctx); err != nil {
		return broken(check, "%s; set --secret-key to the key that sealed the secrets", err)
	}
	if info, err := os.Stat(path); c.SecretKey == "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		return Finding{check, Advice, fmt.Sprintf("%s is open to others (%s); run chmod 600 on it", path, info.Mode().Perm())}
	}
	return Finding{check, Good, "opens the secrets in the database"}
}

// examineSandbox says what holds foreign programs back. Only some eval cases
// need it, so a machine without one is not broken.
func examineSandbox(ctx context.Context, c config.Config) Finding {
	s, err := newSandbox(c)
	if err != nil {
		return broken("sandbox", "%s", err)
	}
	report, err := s.Check(ctx)
	if err != nil {
		return Finding{"sandbox", Advice, err.Error()}
	}
	message := fmt.Sprintf("%s %s: %s", report.Driver, report.Version, strings.Join(report.InForce, "; "))
	if len(report.Missing) > 0 {
		message += ". Not here: " + strings.Join(report.Missing, "; ")
	}
	return Finding{"sandbox", Good, message}
}

func broken(check, format string, args ...any) Finding {
	return Finding{check, Broken, fmt.Sprintf(format, args...)}
}

func examineData(c config.Config) Finding {
	if c.DatabaseURL != "" && c.BlobURL != "" {
		return Finding{"data", Good, "not needed: database and blobs are elsewhere"}
	}
	info, err := os.Stat(c.Data)
	switch {
	case os.IsNotExist(err):
		return Finding{"data", Advice, c.Data + " does not exist yet; `whetstone serve` makes it"}
	case err != nil:
		return broken("data", "%s", err)
	case !info.IsDir():
		return broken("data", "%s is not a folder; set --data", c.Data)
	case info.Mode().Perm()&0o077 != 0:
		return Finding{"data", Advice, fmt.Sprintf("%s is open to others (%s); run chmod 700 on it", c.Data, info.Mode().Perm())}
	}
	return Finding{"data", Good, c.Data}
}

func examineKeys(ctx context.Context, db *store.DB) Finding {
	orgs, err := (&auth.Service{DB: db}).Orgs(ctx)
	if err != nil {
		return broken("organisations", "cannot be read: %s", err)
	}
	if len(orgs) == 0 {
		return Finding{"organisations", Advice, "none yet; `whetstone serve` makes the first and prints its key"}
	}
	return Finding{"organisations", Good, fmt.Sprintf("%d", len(orgs))}
}

func examineBlobs(ctx context.Context, c config.Config) Finding {
	bucket, err := blob.Open(ctx, blob.Options{
		URL: string(c.BlobURL), Dir: filepath.Join(c.Data, "blobs"), Secret: make([]byte, 32), // no URL is signed here
		PublicURL: func() string { return c.PublicURL }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return broken("blobs", "cannot be opened: %s; check --blob-url and its credentials", err)
	}
	key := "doctor/" + uuid.NewString()
	probe := []byte("probe")
	if err := bucket.Put(ctx, key, bytes.NewReader(probe), int64(len(probe))); err != nil {
		return broken("blobs", "cannot be written: %s", err)
	}
	if err := bucket.Delete(ctx, key); err != nil {
		return broken("blobs", "cannot be deleted: %s", err)
	}
	return Finding{"blobs", Good, "can be written and deleted"}
}

func examineJobs(ctx context.Context, db *store.DB) Finding {
	queue, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return broken("jobs", "%s", err)
	}
	counts, err := queue.Counts(ctx)
	if err != nil {
		return broken("jobs", "cannot be counted: %s", err)
	}
	for _, n := range counts {
		if n.Discarded > 0 {
			return Finding{"jobs", Advice, fmt.Sprintf("%d of kind %s were given up; the server's log says why", n.Discarded, n.Kind)}
		}
		if n.Late > 10*time.Minute {
			return Finding{"jobs", Advice, fmt.Sprintf("kind %s waits for %s; does a process with --roles worker run?", n.Kind, n.Late.Round(time.Second))}
		}
	}
	return Finding{"jobs", Good, "none given up, none late"}
}
