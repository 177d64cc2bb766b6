package app

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Doctor examines an installation from the outside: it may be running or
// not. It changes nothing but a probe blob, which it removes.
type Doctor struct {
	Config config.Config
	// Quick spares the content of the blobs, and the full check of SQLite.
	Quick bool
	// Progress, if not nil, is told how many blobs and bytes were read.
	Progress func(blobs, bytes int64)
}

// askTimeout bounds a question whose answer does not depend on how much there
// is.
const askTimeout = 30 * time.Second

// Examine looks at everything.
func (d *Doctor) Examine(ctx context.Context) []exam.Finding {
	findings := d.examineSettings(ctx)
	// To open a missing SQLite database is to make it.
	if path, ok := strings.CutPrefix(d.Config.URL(), "sqlite:"); ok {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return append(findings, exam.Warn("database", "%s does not exist yet; `whetstone serve` makes it", path))
		}
	}
	opening, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	db, err := store.Open(opening, store.Options{URL: d.Config.URL(), MaxConns: 4})
	if err != nil {
		return append(findings, exam.Fail("database", "cannot be opened: %s; check --database-url and --data", err))
	}
	defer db.Close()
	findings = append(findings, d.examineDatabase(ctx, db))
	schema, known := examineSchema(ctx, db)
	findings = append(findings, schema)
	if !known {
		return findings // what follows reads tables that may not be there
	}
	findings = append(findings, examineClock(ctx, db), examineKeys(ctx, db), examineClaims(ctx, d.Config, db), examineSecretKey(ctx, d.Config, db))
	findings = append(findings, examineTables(ctx, db)...)
	findings = append(findings, examineJobs(ctx, db)...)
	return append(findings, d.examineBlobs(ctx, db)...)
}

func (d *Doctor) examineDatabase(ctx context.Context, db *store.DB) exam.Finding {
	wrong, err := db.Verify(ctx, d.Quick)
	switch {
	case err != nil:
		return exam.Fail("database", "cannot be read: %s; restore a backup", err)
	case len(wrong) > 0:
		return exam.Fail("database", "%s is damaged: %s; stop the service and restore a backup", db.Dialect().Name(), strings.Join(wrong, "; "))
	}
	return exam.Fine("database", "%s answers", db.Dialect().Name())
}

// examineSchema also reports whether this binary knows the tables.
func examineSchema(ctx context.Context, db *store.DB) (_ exam.Finding, known bool) {
	var version int64
	err := db.Snapshot(ctx, func(tx *store.Tx) (err error) {
		version, err = tx.SchemaVersion(ctx)
		return err
	})
	if err == nil {
		err = db.CheckSchema(ctx)
	}
	switch newest := store.Newest(); {
	case fault.Is(err, fault.Conflict):
		return exam.Fail("migrations", "%s", err), false
	case err != nil:
		return exam.Fail("migrations", "cannot be read: %s", err), false
	case version < newest:
		return exam.Warn("migrations", "the schema %d is older than this binary's %d; `whetstone serve` or `whetstone migrate` brings it up", version, newest), false
	case version > newest:
		return exam.Warn("migrations", "the schema %d is newer than this binary's %d, which still works with it; upgrade this one, too", version, newest), true
	}
	return exam.Fine("migrations", "the schema is up to date (%d)", version), true
}

func examineKeys(ctx context.Context, db *store.DB) exam.Finding {
	orgs, err := (&auth.Service{DB: db}).Orgs(ctx)
	if err != nil {
		return exam.Fail("organisations", "cannot be read: %s", err)
	}
	if len(orgs) == 0 {
		return exam.Warn("organisations", "none yet; `whetstone serve` makes the first and prints its key")
	}
	return exam.Fine("organisations", "%d", len(orgs))
}

// examineClaims says when an organisation could get ahead of another whose the
// account really is.
func examineClaims(ctx context.Context, c config.Config, db *store.DB) exam.Finding {
	const check = "repohost-claims"
	orgs, err := (&auth.Service{DB: db}).Orgs(ctx)
	switch {
	case err != nil:
		return exam.Fail(check, "the organisations cannot be read: %s", err)
	case c.RepohostClaims == config.ClaimsOperator:
		return exam.Fine(check, "accounts of the code host go to whom the operator names")
	case len(orgs) > 1:
		return exam.Warn(check, "%d organisations share this server, and an account of the code host goes to the first that binds it;"+
			" set --repohost-claims operator and name who gets which: `whetstone repohost allow ORG ACCOUNT`", len(orgs))
	}
	return exam.Fine(check, "one organisation may bind every account of the code host")
}

// A checker is an owner of tables that knows what must hold in them.
type checker interface {
	Check(ctx context.Context, q store.Querier) ([]exam.Finding, error)
}

// examineTables asks the owners, all about the same moment.
func examineTables(ctx context.Context, db *store.DB) (findings []exam.Finding) {
	owners := []checker{
		&registry.Service{}, &skills.Service{}, &signals.Service{}, &sources.Service{}, &evals.Service{},
		&repohost.Service{}, &alerts.Service{}, &quota.Service{Counts: storedCounts()},
	}
	err := db.Snapshot(ctx, func(tx *store.Tx) error {
		for _, owner := range owners {
			found, err := owner.Check(ctx, tx)
			if err != nil {
				return err
			}
			findings = append(findings, found...)
		}
		return nil
	})
	if err != nil {
		findings = append(findings, exam.Fail("tables", "cannot be checked: %s", err))
	}
	return findings
}

func examineJobs(ctx context.Context, db *store.DB) []exam.Finding {
	queue, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return []exam.Finding{exam.Fail("jobs", "%s", err)}
	}
	findings, err := queue.Check(ctx)
	if err != nil {
		return []exam.Finding{exam.Fail("jobs", "cannot be counted: %s", err)}
	}
	return findings
}

func examineClock(ctx context.Context, db *store.DB) exam.Finding {
	there, err := db.Clock(ctx)
	if err != nil {
		return exam.Fail("clock", "the database does not tell the time: %s", err)
	}
	return judgeClock("the database's", time.Until(there))
}

// A clock may be off by these before it is strange, and before it breaks
// logins, signatures and schedules.
const (
	clockStrange = 10 * time.Second
	clockBroken  = 2 * time.Minute
)

func judgeClock(whose string, off time.Duration) exam.Finding {
	const advice = "this machine's clock and %s differ by %s; let both follow a time server"
	switch off = off.Abs(); {
	case off > clockBroken:
		return exam.Fail("clock", advice, whose, off.Round(time.Second))
	case off > clockStrange:
		return exam.Warn("clock", advice, whose, off.Round(time.Second))
	}
	return exam.Fine("clock", "agrees with %s", whose)
}
