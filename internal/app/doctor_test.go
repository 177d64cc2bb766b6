package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// breakages are what the test does to the tables, and what the doctor must
// say of each.
var breakages = []struct {
	statement, check, says string
}{
	{`UPDATE skill_days SET checks = checks + 1 WHERE subject_id = (SELECT MIN(subject_id) FROM skill_days)`, "skills", "days of skills whose numbers"},
	{`UPDATE skill_days SET graded_sessions = graded_sessions + 1 WHERE subject_id = (SELECT MIN(subject_id) FROM skill_days)`, "skills", "days of skills whose grades"},
	{`UPDATE skill_totals SET unique_sessions = unique_sessions + 1 WHERE subject_id = (SELECT MIN(subject_id) FROM skill_totals)`, "skills", "skills whose totals"},
	{`INSERT INTO skill_aliases (alias, observation_id) VALUES ('a', 'nowhere')`, "skills", "aliases of observations that are not there: 1, such as a"},
	{`INSERT INTO cost_days (subject_id, day, requests, reported, unpriced, micros, input, output, cache_read, cache_write, uses, use_requests,
			sessions, session_requests, graded_sessions, graded_micros, pass_rate_sum)
		VALUES ('subject', 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)`, "costs", "days whose costs are not those of their requests: 1, such as subject"},
	{`SELECT 1`, "costs", "days whose uses and sessions are counted wrong: 1, such as subject"}, // the same row
	{
		`INSERT INTO cost_groups (key, kind, subject_id, session_hash, requests, unpriced, micros) VALUES ('group', 'session', 'skill', 's', 1, 0, 1)`,
		"costs", "uses and sessions whose costs are not those of their requests: 1, such as skill",
	},
	{`INSERT INTO cost_buckets (subject_id, day, bucket, uses, micros) VALUES ('subject', 1, 1, 1, 1)`, "costs", "days whose histogram is not that of their uses: 1"},
	{`INSERT INTO cost_models (org_id, day, model, requests) VALUES ('org', 1, 'model', 1)`, "costs", "days whose models are not those of their requests: 1"},
	{`UPDATE agent_sessions SET turns = turns + 1 WHERE id = (SELECT MIN(id) FROM agent_sessions)`, "sessions", "sessions whose figures are not those of their events: 1"},
	{`UPDATE agent_sessions SET pass_rate = 1 WHERE id = (SELECT MIN(id) FROM agent_sessions)`, "sessions", "sessions whose grade or start is not that of their skills: 1"},
	{`INSERT INTO agent_session_events (session_id, id, kind, at, name) VALUES ('nowhere', 'e', 'prompt', 1, '')`, "sessions", "events and skills of sessions that are not there: 1, such as nowhere"},
	{`INSERT INTO grades (id, org_id, user_id, session_hash, skill_id, basis, pass_rate, passed, evidence, graded_at)
		VALUES ('grade', 'org', 'user', 's', 'skill', 'judge', 1, FALSE, '[]', 1)`, "grades", "grades that are not those that count: 1, such as grade"},
	{`INSERT INTO grade_failures (grade_id, key, label, skill_id, basis, session_key, session_hash, failed_at)
		VALUES ('nowhere', 'k', 'l', 'skill', 'judge', 's', 's', 1)`, "grades", "failures of grades that are not there: 1, such as nowhere"},
	{`UPDATE signal_cells SET signals = signals + 1 WHERE level = 'org'`, "signals", "cells that do not count"},
	{`UPDATE registry_entries SET current_version_id = 'nowhere' WHERE name = 'api-docs'`, "registry", "current version is missing or another: 1, such as api-docs"},
	{`UPDATE registry_entries SET installation_count = installation_count + 1 WHERE name = 'pdf-forms'`, "installations", "count of installations is wrong: 1, such as pdf-forms"},
	{`UPDATE registry_versions SET canonical_key = NULL WHERE id = (SELECT MIN(id) FROM registry_versions)`, "registry", "do not say where their archives are: 1"},
	{`UPDATE registry_currents SET version_id = 'nowhere' WHERE id = (SELECT MIN(id) FROM registry_currents)`, "registry", "times of versions"},
	{`UPDATE cloud_sources SET current_snapshot_id = 'nowhere' WHERE id = (SELECT MIN(id) FROM cloud_sources)`, "sources", "current snapshot is not there: 1"},
	{`UPDATE source_suggestions SET reviewed = NOT reviewed WHERE id = (SELECT MIN(id) FROM source_suggestions)`, "suggestions", "mark of a review is wrong: 1"},
	{`UPDATE eval_runs SET status = 'running', created_at = 1 WHERE id = (SELECT MIN(id) FROM eval_runs)`, "evals", "not ended in a day: 1"},
	{`UPDATE eval_runs SET last_event = last_event + 1 WHERE id = (SELECT MAX(id) FROM eval_runs)`, "evals", "counts are not those of their trials and events: 1"},
	{`INSERT INTO repohost_deliveries (id, provider, delivery_id, event, action, content_type, installation_id, repo_full_name, repo_key, body, status, attempts, detail, received_at)
		VALUES ('d', 'git', 'd', 'push', '', '', 0, '', '', $1, 'received', 0, '', 1)`, "repohost", "deliveries that wait for an hour: 1, such as d"},
	{`INSERT INTO repohost_attempts (id, org_id, connection_id, ref_kind, ref_name, commit_sha, cause, status, tries, message, findings, queued_at, attempted_at,
			write_back_status, write_back_detail, write_back_tries, status_sent, annotations_sent)
		SELECT 'a', MIN(id), 'nowhere', 'branch', 'main', 'c', 'push', 'queued', 0, '', '[]', 1, 1, 'pending', '', 0, FALSE, 0 FROM organisations`, "repohost", "queued commits of connections that are gone: 1, such as a"},
	{`UPDATE stored_bytes SET bytes = bytes + 1 WHERE kind = 'registry'`, "quota", "stored bytes of kind registry were counted wrong"},
	{`SELECT 1`, "repohost", "wait for an hour to be published: 1, such as a"}, // the same row
	{`INSERT INTO repohost_claims (account_key, org_id, claimed_at) VALUES ('contested', NULL, 1)`, "repohost", "whetstone repohost allow ORG contested"},
	{`UPDATE alert_deliveries SET status = 'pending', created_at = 1 WHERE id = (SELECT MIN(id) FROM alert_deliveries)`, "alerts", "were not attempted for an hour: 1"},
	{`INSERT INTO alert_deliveries (id, org_id, rule_id, channel, status, attempts, created_at)
		VALUES ('z', 'o', 'r', 'webhook', 'failed', 1, 9000000000000000)`, "alerts", "could not be sent"},
}

// testDoctor breaks a sound installation in every way and wants to hear of
// each.
func testDoctor(t *testing.T, c config.Config) {
	t.Helper()
	for _, f := range app.NewDoctor(c).Examine(t.Context()) {
		if f.Status == invariants.Broken {
			t.Errorf("a restored installation is not sound: %+v", f)
		}
	}
	db, err := app.OpenDatabase(t.Context(), c.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, b := range breakages {
		if strings.HasPrefix(b.statement, "SELECT") {
			continue
		}
		var args []any
		if strings.Contains(b.statement, "$1") {
			args = []any{[]byte("body")}
		}
		if n, err := db.Exec(t.Context(), b.statement, args...); err != nil || n == 0 {
			t.Fatalf("%s: %d rows, %v", b.statement, n, err)
		}
	}
	partitioned := db.Dialect().Name() == "postgres"
	if partitioned {
		if _, err := db.Exec(t.Context(), `DO $$ DECLARE p TEXT; BEGIN
			FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'event_deliveries'::regclass LOOP
				CONTINUE WHEN p = 'event_deliveries_rest';
				EXECUTE 'DROP TABLE ' || p;
			END LOOP; END $$`); err != nil {
			t.Fatal(err)
		}
	}
	breakJobs(t, db)
	lost, rotten := breakBlobs(t, c, db)
	findings := app.NewDoctor(c).Examine(t.Context())
	for _, b := range breakages {
		wantFinding(t, findings, b.check, b.says)
	}
	if partitioned {
		wantFinding(t, findings, "partitions", "event_deliveries has none for this time")
	}
	wantFinding(t, findings, "jobs", "1 of kind test.broken were given up")
	wantFinding(t, findings, "jobs", "kind test.broken waits for 1h0m")
	wantFinding(t, findings, "jobs", "1 run in processes that have gone silent")
	wantFinding(t, findings, "blobs", "missing: 1, such as "+lost)
	wantFinding(t, findings, "blobs", "wrong checksum: 1, such as "+rotten)
	if _, err := db.Exec(t.Context(), `UPDATE goose_db_version SET version_id = 1000000 WHERE version_id = 1`); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, examine(t, c), "migrations", "the data has schema 1000000")
	if _, err := db.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id >= $1`, store.Newest()); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, examine(t, c), "migrations", "older than this binary's")
}

// examine makes the quick checks of an installation.
func examine(t *testing.T, c config.Config) []invariants.Finding {
	t.Helper()
	doctor := app.NewDoctor(c)
	doctor.Quick = true
	return doctor.Examine(t.Context())
}

func wantFinding(t *testing.T, findings []invariants.Finding, check, says string) {
	t.Helper()
	for _, f := range findings {
		if f.Check == check && f.Status != invariants.Good && strings.Contains(f.Message, says) {
			return
		}
	}
	t.Errorf("the doctor does not say %q of %s; it says:\n%+v", says, check, findings)
}

func breakJobs(t *testing.T, db *store.DB) {
	t.Helper()
	queue, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	err = db.InTx(t.Context(), func(tx *store.Tx) error {
		for _, gaveUp := range []*time.Time{nil, &old} {
			err := queue.Restore(t.Context(), tx, jobs.Saved{
				Kind: "test.broken", Args: json.RawMessage(`{}`), MaxAttempts: 1, RunAt: old, CreatedAt: old, DiscardedAt: gaveUp,
			})
			if err != nil {
				return err
			}
		}
		return queue.Restore(t.Context(), tx, jobs.Saved{Kind: "test.stuck", Args: json.RawMessage(`{}`), MaxAttempts: 9, RunAt: time.Now(), CreatedAt: old})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE jobs SET state = 'running', owner = 'gone' WHERE kind = 'test.stuck'`); err != nil {
		t.Fatal(err)
	}
}

// breakBlobs removes an archive and spoils another.
func breakBlobs(t *testing.T, c config.Config, db *store.DB) (lost, rotten string) {
	t.Helper()
	b := openBucket(t, c)
	rows, err := db.Query(t.Context(), `SELECT archive_key FROM registry_versions ORDER BY 1 LIMIT 2`)
	keys, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	lost, rotten = keys[0], keys[1]
	if err := b.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), rotten, strings.NewReader("rotten"), 6); err != nil {
		t.Fatal(err)
	}
	return lost, rotten
}

func openBucket(t *testing.T, c config.Config) blob.Bucket {
	t.Helper()
	b, err := blob.Open(t.Context(), blob.Options{URL: string(c.BlobURL), Dir: filepath.Join(c.Data, "blobs"), Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDoctorBlobs looks at what only files can show: old orphans, spoilt raw
// bodies, and a restore that was cut off.
func TestDoctorBlobs(t *testing.T) {
	c := settings(t)
	if err := start(t, c).stop(); err != nil {
		t.Fatal(err)
	}
	b := openBucket(t, c)
	for _, key := range []string{"sources/x/y", "environments/o/mine", "telemetry/o/u/1.gz"} {
		if err := b.Put(t.Context(), key, strings.NewReader("text"), 4); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-30 * 24 * time.Hour)
		if err := os.Chtimes(filepath.Join(c.Data, "blobs", "objects", key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	findings := app.NewDoctor(c).Examine(t.Context())
	wantFinding(t, findings, "blobs", "were not swept for days: 1, such as sources/x/y")
	wantFinding(t, findings, "blobs", "wrong checksum: 1, such as telemetry/o/u/1.gz")

	if err := b.Put(t.Context(), "restore/unfinished", strings.NewReader(""), 0); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, examine(t, c), "restore", "was cut off")
	if _, err := app.New(t.Context(), options(c, io.Discard)); err == nil || !strings.Contains(err.Error(), "was cut off") {
		t.Errorf("the service starts on half a restore: %v", err)
	}
}

func TestDoctorSettings(t *testing.T) {
	for _, c := range []struct {
		name, check, says string
		flags             []string
	}{
		{"no public address", "public-url", "set --public-url", []string{"--addr", "0.0.0.0:8080"}},
		{"no sender", "mail", "set --mail-from", []string{"--smtp-url", "smtp://127.0.0.1:1"}},
		{"no mail server", "mail", "127.0.0.1:1 does not answer", []string{"--smtp-url", "smtp://u:hunter2@127.0.0.1:1", "--mail-from", "a@b.example"}},
		{"no judge", "judge", "check --judge-url", []string{"--judge-url", "http://127.0.0.1:1/v1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			findings := examine(t, settings(t, c.flags...))
			wantFinding(t, findings, c.check, c.says)
			for _, f := range findings {
				if strings.Contains(f.Message, "hunter2") {
					t.Errorf("the password is shown: %+v", f)
				}
			}
		})
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, f := range examine(t, settings(t, "--judge-url", "http://"+l.Addr().String())) {
		if f.Check == "judge" && f.Status != invariants.Good {
			t.Errorf("a judge that answers: %+v", f)
		}
	}
}
