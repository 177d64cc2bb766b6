package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	workConns    = 4
	workVersions = 200
)

// benchWork measures what each kind of request costs: how long processors work
// for it in the service and in PostgreSQL, and what it leaves in the log and on
// the disk of the database. Unlike rates, these can be added up: bench/fleet
// makes a plan of them.
func benchWork(ctx context.Context, l *lab) ([]row, error) {
	database, err := l.startPostgres()
	if err != nil {
		return nil, err
	}
	defer database.stop()
	var rows []row
	for _, part := range []struct {
		observed observer
		measure  func(context.Context, *meter) ([]row, error)
	}{
		{observer{}, l.workOfPushes},
		{observer{count: l.readSizes()[0].count, skills: homeSkills, days: homeDays}, l.workOfRequests},
	} {
		more, err := l.workOn(ctx, database, part.observed, part.measure)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// workOn measures on a server of its own.
func (l *lab) workOn(ctx context.Context, p *postgres, o observer, measure func(context.Context, *meter) ([]row, error)) ([]row, error) {
	url, err := p.database(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.serveObserved(ctx, func() (string, error) { return url, nil }, o)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return measure(ctx, &meter{server: s, db: db, url: url})
}

// workOfPushes measures a record of telemetry. The first round prepares
// statements and fills caches.
func (l *lab) workOfPushes(ctx context.Context, m *meter) ([]row, error) {
	keys, err := l.holders(ctx, m.url, ingestConns)
	if err != nil {
		return nil, err
	}
	var cost work
	for range 2 {
		sent := 0
		requests, err := eachPush(l.pushes(), newPush, func(p push) ([]byte, error) {
			holder := keys[sent%ingestConns]
			sent++
			return m.server.post(ctx, "/api/v1/push", holder, p)
		})
		if err != nil {
			return nil, err
		}
		if cost, err = m.measure(ctx, queue(m.server, requests, http.StatusCreated)); err != nil {
			return nil, err
		}
	}
	return cost.rows("telemetry record", pushRecords, true), nil
}

// workOfRequests measures what developers and their tools ask for, on an
// organisation with the skills and the observations of home.
func (l *lab) workOfRequests(ctx context.Context, m *meter) ([]row, error) {
	r := &registry{server: m.server}
	for n := range publishConns {
		if err := r.create(ctx, n); err != nil {
			return nil, err
		}
	}
	publish, err := l.publishing(ctx, r, workVersions/publishConns)(1)
	if err != nil {
		return nil, err
	}
	cost, err := m.measure(ctx, publish)
	if err != nil {
		return nil, err
	}
	rows := cost.rows("published version", 1, true)
	v, err := signIn(ctx, m.server)
	if err != nil {
		return nil, err
	}
	home, err := v.request(ctx, "/")
	if err != nil {
		return nil, err
	}
	reads := map[string]*http.Request{"page": home}
	for name, path := range map[string]string{
		"request": "/api/v1/me", "sync": "/api/v1/registry/sync/check", "list of skills": "/v1/skills",
		"download": "/api/v1/registry/" + r.entries[0] + "/versions/" + firstVersion + "/download",
	} {
		if reads[name], err = m.server.request(ctx, http.MethodGet, path, nil); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		request, err := wire(reads[name])
		if err != nil {
			return nil, err
		}
		next, err := l.steady(m.server, request, workConns)(1)
		if err != nil {
			return nil, err
		}
		if cost, err = m.measure(ctx, next); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, cost.rows(name, 1, false)...)
	}
	return rows, nil
}

// work is what a load cost.
type work struct {
	requests          int
	service, database time.Duration
	wal, disk, kept   int64 // bytes; kept is what no retention deletes
}

// rows shows the work of one of the parts of a request.
func (w work) rows(name string, parts int, writes bool) []row {
	n := float64(w.requests * parts)
	rows := []row{{
		Name: "work: " + name, Figure: float64(w.service.Microseconds()) / n, Unit: "µs",
		Beside: "PostgreSQL", Other: float64(w.database.Microseconds()) / n,
	}}
	if writes {
		rows = append(rows,
			row{Name: "bytes: " + name, Figure: float64(w.disk) / n, Unit: "B", Beside: "write-ahead log", Other: float64(w.wal) / n},
			row{Name: "kept: " + name, Figure: float64(w.kept) / n, Unit: "B", Beside: "all", Other: float64(w.disk) / n})
	}
	return rows
}

// A meter reads what the service and its database have done so far.
type meter struct {
	server *server
	db     *store.DB
	url    string // of the database
}

// measure runs a load and returns what it cost.
func (m *meter) measure(ctx context.Context, l load) (work, error) {
	before, err := m.read(ctx)
	if err != nil {
		return work{}, err
	}
	r, err := l.run(ctx)
	if err != nil {
		return work{}, err
	}
	after, err := m.read(ctx)
	return work{
		requests: len(r.latencies),
		service:  after.service - before.service, database: after.database - before.database,
		wal: after.wal - before.wal, disk: after.disk - before.disk, kept: after.kept - before.kept,
	}, err
}

func (m *meter) read(ctx context.Context) (w work, err error) {
	if w.service, err = processorTime(m.server.cmd.Process.Pid); err != nil {
		return w, err
	}
	var postmaster int
	rows, err := m.db.Query(ctx, `
		SELECT CAST(split_part(pg_read_file('postmaster.pid'), E'\n', 1) AS BIGINT),
			CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT), pg_database_size(current_database()),
			(SELECT CAST(SUM(pg_total_relation_size(oid)) AS BIGINT) FROM pg_class
			WHERE relkind = 'r' AND relname ~ '^(skill_|registry_|telemetry_pushes$)')`)
	w, err = store.One(rows, err, "Figures", func(row store.Row) (work, error) {
		return w, row.Scan(&postmaster, &w.wal, &w.disk, &w.kept)
	})
	if err != nil {
		return w, err
	}
	w.database, err = familyTime(postmaster)
	return w, err
}

// familyTime is how long a process and its children have worked so far, those
// that have ended included.
func familyTime(parent int) (time.Duration, error) {
	fields, err := statFields(parent)
	if err != nil {
		return 0, err
	}
	sum, err := ticks(fields[statUser : statEndedSystem+1])
	if err != nil {
		return 0, err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			return 0, err
		}
		fields, err := statFields(pid)
		if errors.Is(err, errMissing) || err == nil && fields[statParent] != strconv.Itoa(parent) {
			continue // it has ended since, or is another's
		}
		if err != nil {
			return 0, err
		}
		child, err := ticks(fields[statUser : statSystem+1])
		if err != nil {
			return 0, err
		}
		sum += child
	}
	return sum, nil
}
