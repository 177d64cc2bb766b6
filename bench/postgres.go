package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
)

// postgres is a throw-away server, or the one that WHETSTONE_TEST_POSTGRES
// names.
type postgres struct {
	url    *url.URL
	server *postgrestest.Server // nil if it is not ours
	made   []string             // databases
}

// onBoth measures on SQLite and then on PostgreSQL. A measurement gets the name
// of the database and a function that makes an empty one.
func (l *lab) onBoth(ctx context.Context, measure func(context.Context, string, func() (string, error)) ([]row, error)) ([]row, error) {
	rows, err := measure(ctx, "SQLite", func() (string, error) {
		folder, err := l.folder("sqlite")
		return "sqlite:" + filepath.Join(folder, "whetstone.db"), err
	})
	if err != nil {
		return nil, err
	}
	server, err := l.startPostgres()
	if err != nil {
		return rows, err
	}
	defer server.stop()
	more, err := measure(ctx, "PostgreSQL", func() (string, error) { return server.database(ctx) })
	return append(rows, more...), err
}

func (l *lab) startPostgres() (_ *postgres, err error) {
	p := &postgres{}
	raw := os.Getenv("WHETSTONE_TEST_POSTGRES")
	if raw == "" {
		start := postgrestest.New
		if l.full { // too much for a server whose files are in memory
			start = postgrestest.NewOnDisk
		}
		p.server, err = start(postgrestest.Throwaway()...)
		if errors.Is(err, postgrestest.ErrNotInstalled) {
			return nil, fmt.Errorf("PostgreSQL is %w", errMissing)
		}
		if err != nil {
			return nil, err
		}
		raw = p.server.URL
	}
	p.url, err = url.Parse(raw)
	return p, err
}

// database makes an empty database and returns its URL.
func (p *postgres) database(ctx context.Context) (string, error) {
	name := "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := p.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	p.made = append(p.made, name)
	u := *p.url
	u.Path = "/" + name
	return u.String(), nil
}

func (p *postgres) exec(ctx context.Context, statement string) error {
	db, err := store.Open(ctx, store.Options{URL: p.url.String(), MaxConns: 1})
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(ctx, statement)
	return err
}

// stop removes what was made, which matters on a server that stays.
func (p *postgres) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, name := range p.made {
		_ = p.exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // the server may be gone
	}
	if p.server != nil {
		_ = p.server.Close()
	}
}
