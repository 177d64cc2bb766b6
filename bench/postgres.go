package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// postgres is a throw-away server of scripts/with-postgres, or the one that
// the caller of the benchmarks named.
type postgres struct {
	url  *url.URL
	hold io.Closer // the server goes when this is closed, or this process dies
	cmd  *exec.Cmd
	made []string // databases
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
	server, err := l.startPostgres(ctx)
	if err != nil {
		return rows, err
	}
	defer server.stop()
	more, err := measure(ctx, "PostgreSQL", func() (string, error) { return server.database(ctx) })
	return append(rows, more...), err
}

func (l *lab) startPostgres(ctx context.Context) (*postgres, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.root, "scripts", "with-postgres"),
		"sh", "-c", `echo "$WHETSTONE_TEST_POSTGRES"; cat >/dev/null`)
	cmd.Stderr = os.Stderr
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &postgres{hold: hold, cmd: cmd}
	if err := p.readURL(out); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *postgres) readURL(out io.Reader) error {
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", errors.Join(err, p.cmd.Err))
	}
	if line == "\n" {
		return fmt.Errorf("PostgreSQL is %w", errMissing)
	}
	p.url, err = url.Parse(strings.TrimSpace(line))
	return err
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
	_ = p.hold.Close()
	_ = p.cmd.Wait() // it has done its work
}
