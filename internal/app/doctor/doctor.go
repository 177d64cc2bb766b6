// Package doctor checks an installation for what is wrong with it, and says
// what to do: settings, disk, database, schema, secret key, tables, jobs and
// blobs. It owns no tables, and changes nothing but a probe blob, which it
// deletes again.
package doctor

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Doctor checks an installation from outside, whether it is running or not. It opens its own
// connections, and doesn't lock the data folder.
type Doctor struct {
	Config config.Config
	// Checkers own the tables to check, and Referrers the blobs.
	Checkers  []Checker
	Referrers []backup.Referrer
	// OpenBlobs and OpenSandbox open what the settings name.
	OpenBlobs   func(context.Context) (blob.Bucket, error)
	OpenSandbox func() (sandbox.Sandbox, error)
	// OpenAgents opens the agents that run in a sandbox; nil skips their check.
	OpenAgents func(sandbox.Sandbox) (*agents.Service, error)
	// OpenEnvironments opens the images of task packages, and returns nil if the
	// sandbox has no use for them; nil skips their check.
	OpenEnvironments func() (*environments.Service, error)
	// Quick skips reading the content of blobs, and SQLite's full integrity
	// check.
	Quick bool
	// Progress, if not nil, is called with the number of blobs and bytes read
	// so far.
	Progress func(blobs, bytes int64)
}

// A Checker owns tables and knows what must hold in them. Its error means that it could not
// look. It must not write.
type Checker interface {
	Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error)
}

// checkTimeout bounds a check whose duration does not depend on the amount of
// data.
const checkTimeout = 30 * time.Second

// Examine makes all checks. Those that need the database or its tables are
// skipped if it cannot be opened or has a schema that this binary does not know. Findings come
// in the order of the checks: causes, e.g. a full disk, before their effects.
func (d *Doctor) Examine(ctx context.Context) []invariants.Finding {
	findings := d.checkSettings(ctx)
	// Opening a missing SQLite database would create it.
	if path, ok := strings.CutPrefix(d.Config.URL(), "sqlite:"); ok {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return append(findings, invariants.Warn("database", "%s does not exist yet; `whetstone serve` makes it", path))
		}
	}
	opening, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	o := store.Options{URL: d.Config.URL(), MaxConns: 4}
	if d.Config.DatabaseReadURL != "" {
		o.Replica = &store.Replica{
			URL: string(d.Config.DatabaseReadURL), MaxLag: time.Duration(d.Config.DatabaseReadLag),
			Log: slog.New(slog.DiscardHandler),
		}
	}
	db, err := store.Open(opening, o)
	if err != nil {
		return append(findings, invariants.Fail("database", "cannot be opened: %s; check --database-url and --data", err))
	}
	defer db.Close()
	findings = append(findings, d.checkDatabase(ctx, db))
	if db.HasReplica() {
		findings = append(findings, checkReplica(ctx, db))
	}
	schema, known := checkSchema(ctx, db)
	findings = append(findings, schema)
	if !known {
		return findings // the checks below read tables that may be missing
	}
	if db.Dialect().Name() == "postgres" {
		findings = append(findings, checkPartitions(ctx, db))
	}
	findings = append(findings, checkClock(ctx, db))
	findings = append(findings, checkOrgs(ctx, d.Config, db)...)
	findings = append(findings, checkSecretKey(ctx, d.Config, db))
	findings = append(findings, d.checkTables(ctx, db)...)
	findings = append(findings, checkJobs(ctx, db)...)
	return append(findings, d.checkBlobs(ctx, db)...)
}

// checkDatabase isn't bounded by checkTimeout: a full check of SQLite reads the whole file.
func (d *Doctor) checkDatabase(ctx context.Context, db *store.DB) invariants.Finding {
	wrong, err := store.VerifyIntegrity(ctx, db, d.Quick)
	switch {
	case err != nil:
		return invariants.Fail("database", "cannot be read: %s; restore a backup", err)
	case len(wrong) > 0:
		return invariants.Fail("database", "%s is damaged: %s; stop the service and restore a backup",
			db.Dialect().Name(), strings.Join(wrong, "; "))
	}
	return invariants.Fine("database", "%s answers", db.Dialect().Name())
}

// checkReplica warns of a replica that is not read from: everything works without it.
func checkReplica(ctx context.Context, db *store.DB) invariants.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := db.CheckReplica(ctx); err != nil {
		return invariants.Warn("replica", "is not read from: %s; check --database-read-url and its replication", err)
	}
	return invariants.Fine("replica", "is up to date")
}

// checkSchema also reports whether this binary knows the tables. A newer schema is read as long
// as it says that this binary may.
func checkSchema(ctx context.Context, db *store.DB) (_ invariants.Finding, known bool) {
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
		return invariants.Fail("migrations", "%s", err), false
	case err != nil:
		return invariants.Fail("migrations", "cannot be read: %s", err), false
	case version < newest:
		return invariants.Warn("migrations", "the schema %d is older than this binary's %d; "+
			"`whetstone serve` or `whetstone migrate` brings it up to date", version, newest), false
	case version > newest:
		return invariants.Warn("migrations", "the schema %d is newer than this binary's %d, which still works with it; "+
			"upgrade this binary, too", version, newest), true
	}
	return invariants.Fine("migrations", "the schema is up to date (%d)", version), true
}

// checkPartitions warns of tables that lack partitions: they work, but their retention
// deletes row by row.
func checkPartitions(ctx context.Context, db *store.DB) invariants.Finding {
	count, problems, err := db.CheckPartitions(ctx)
	switch {
	case err != nil:
		return invariants.Fail("partitions", "cannot be read: %s", err)
	case len(problems) > 0:
		return invariants.Warn("partitions", "%s; a job makes them every hour: does a process with the role worker run?",
			strings.Join(problems, "; "))
	case count == 0:
		return invariants.Fine("partitions", "none yet: a job makes them a day after the upgrade, "+
			"when no process of an older version is left")
	}
	return invariants.Fine("partitions", "%d, for now and the time to come", count)
}

// checkOrgs counts the organisations, and says how they get accounts of the code host.
func checkOrgs(ctx context.Context, c config.Config, db *store.DB) []invariants.Finding {
	const check, claims = "organisations", "repohost-claims"
	orgs, err := (&auth.Service{DB: db}).Orgs(ctx)
	if err != nil {
		return []invariants.Finding{
			invariants.Fail(check, "cannot be read: %s", err),
			invariants.Fail(claims, "the organisations cannot be read: %s", err),
		}
	}
	count := invariants.Fine(check, "%d", len(orgs))
	if len(orgs) == 0 {
		count = invariants.Warn(check, "none yet; `whetstone serve` makes the first and prints its key")
	}
	switch {
	case c.RepohostClaims == config.ClaimsOperator:
		return []invariants.Finding{count, invariants.Fine(claims,
			"the operator assigns accounts of the code host to organisations")}
	case len(orgs) > 1:
		return []invariants.Finding{count, invariants.Fine(claims,
			"%d organisations share this server: the operator assigns accounts of the code host "+
				"with `whetstone repohost allow ORG ACCOUNT`", len(orgs))}
	}
	return []invariants.Finding{count, invariants.Fine(claims, "one organisation may bind every account of the code host")}
}

// checkTables runs the checkers in one snapshot, so that they do not mistake
// concurrent writes for inconsistencies.
func (d *Doctor) checkTables(ctx context.Context, db *store.DB) (findings []invariants.Finding) {
	err := db.Snapshot(ctx, func(tx *store.Tx) error {
		for _, owner := range d.Checkers {
			found, err := owner.Check(ctx, tx)
			if err != nil {
				return err
			}
			findings = append(findings, found...)
		}
		return nil
	})
	if err != nil {
		findings = append(findings, invariants.Fail("tables", "cannot be checked: %s", err))
	}
	return findings
}

// checkJobs looks at the queue without running anything.
func checkJobs(ctx context.Context, db *store.DB) []invariants.Finding {
	queue, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return []invariants.Finding{invariants.Fail("jobs", "%s", err)}
	}
	findings, err := queue.Check(ctx)
	if err != nil {
		return []invariants.Finding{invariants.Fail("jobs", "cannot be counted: %s", err)}
	}
	return findings
}

// checkClock compares with the database, whose time all replicas share.
func checkClock(ctx context.Context, db *store.DB) invariants.Finding {
	there, err := db.Clock(ctx)
	if err != nil {
		return invariants.Fail("clock", "the database's clock cannot be read: %s", err)
	}
	return clockFinding("the database's", time.Until(there))
}

// The clock skew from which the doctor warns, and from which sign-ins,
// signatures and schedules break.
const (
	clockSkewWarning = 10 * time.Second
	clockSkewBroken  = 2 * time.Minute
)

// clockFinding judges a skew. That includes the way to the other clock and back, which is well
// below a warning.
func clockFinding(whose string, skew time.Duration) invariants.Finding {
	const advice = "this machine's clock and %s differ by %s; let both follow a time server"
	switch skew = skew.Abs(); {
	case skew > clockSkewBroken:
		return invariants.Fail("clock", advice, whose, skew.Round(time.Second))
	case skew > clockSkewWarning:
		return invariants.Warn("clock", advice, whose, skew.Round(time.Second))
	}
	return invariants.Fine("clock", "agrees with %s", whose)
}
