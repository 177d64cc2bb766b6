package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Postgres is a PostgreSQL server of a test's own, which it may kill and
// start again. Unlike that of storetest it keeps what it has acknowledged.
type Postgres struct {
	URL string // of an empty database

	bin, dir string
	port     int
	attr     *syscall.SysProcAttr
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd is gone
}

// StartPostgres makes a database cluster and starts its server, which ends with
// the test. Without PostgreSQL's programs the test is skipped.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bins) == 0 {
		if os.Getenv("WHETSTONE_REQUIRE") == "all" {
			t.Fatal("no PostgreSQL server binaries")
		}
		t.Skip("no PostgreSQL server binaries; run `make setup`")
	}
	p := &Postgres{bin: bins[len(bins)-1]}
	// Not t.TempDir: the server's user must be able to enter it.
	if p.dir, err = os.MkdirTemp("", "whetstone-postgres"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	if err := p.init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Postgres) init() (err error) {
	p.attr = processOf(nil)
	// PostgreSQL refuses to run as root.
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		p.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids fit
		if err := os.Chown(p.dir, uid, gid); err != nil {
			return err
		}
	}
	initdb := exec.Command(filepath.Join(p.bin, "initdb"), "-D", p.data(), "-U", "whetstone", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = p.attr, p.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p.port, err = freePort()
	p.URL = fmt.Sprintf("postgres://whetstone@127.0.0.1:%d/postgres?sslmode=disable", p.port)
	return err
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// Start starts the server and returns when it answers. While processes of a
// killed one are still there the new one gives up, and is started again.
func (p *Postgres) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := p.try(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (p *Postgres) try(ctx context.Context) error {
	// fsync is off because no test ends the machine: what the server has handed
	// to the kernel survives the server.
	p.cmd = exec.Command(filepath.Join(p.bin, "postgres"), "-D", p.data(), "-p", strconv.Itoa(p.port), "-k", p.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "synchronous_commit=on", "-c", "max_connections=100")
	p.cmd.SysProcAttr, p.cmd.Dir = p.attr, p.dir
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // it is killed, or its lack of an answer tells
		close(ended)
	}(p.cmd, p.ended)
	for {
		db, err := store.Open(ctx, store.Options{URL: p.URL, MaxConns: 1})
		if err == nil {
			return db.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-p.ended:
			return fmt.Errorf("PostgreSQL has ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server's first process without a chance to tidy up; the others
// notice and follow.
func (p *Postgres) Kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	p.cmd = nil
	return err
}
