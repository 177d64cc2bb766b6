package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// server is the PostgreSQL server of this test process.
type server struct {
	base        *url.URL
	admin       *store.DB
	template    sync.Once
	templateErr error
}

var (
	startOnce sync.Once
	started   *server
	startErr  error
)

// errNoBinaries says that PostgreSQL is not installed here.
var errNoBinaries = errors.New("no PostgreSQL server binaries; run `make setup`, or set WHETSTONE_TEST_POSTGRES to a server's URL")

// postgres returns the server: the one WHETSTONE_TEST_POSTGRES names, else one
// started from the installed binaries. Without either the test is skipped, or
// fails where WHETSTONE_REQUIRE=all.
func postgres(t testing.TB) *server {
	t.Helper()
	startOnce.Do(func() { started, startErr = connect() })
	if errors.Is(startErr, errNoBinaries) && os.Getenv("WHETSTONE_REQUIRE") != "all" {
		t.Skip(startErr)
	}
	if startErr != nil {
		t.Fatal(startErr)
	}
	return started
}

func connect() (*server, error) {
	raw := os.Getenv("WHETSTONE_TEST_POSTGRES")
	if raw == "" {
		var err error
		if raw, err = startServer(); err != nil {
			return nil, err
		}
	}
	base, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		admin, err := store.Open(ctx, store.Options{URL: raw, MaxConns: 4})
		if err == nil {
			return &server{base: base, admin: admin}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the test's PostgreSQL server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *server) url(database string) string {
	u := *s.base
	u.Path = "/" + database
	return u.String()
}

func (s *server) exec(statement string) error {
	_, err := s.admin.Exec(context.Background(), statement)
	return err
}

// makeTemplate makes the migrated template unless another process has. It
// migrates under another name and renames, so a template is always whole.
func (s *server) makeTemplate(name string) error {
	ctx := context.Background()
	return s.admin.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(1)`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT COUNT(*) FROM pg_database WHERE datname = $1`, name)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n > 0 {
			return err
		}
		raw := name + "_raw"
		if err := s.exec(`DROP DATABASE IF EXISTS ` + raw); err != nil {
			return err
		}
		if err := s.exec(`CREATE DATABASE ` + raw + ` TEMPLATE template0`); err != nil {
			return err
		}
		if err := migrate(s.url(raw)); err != nil {
			return err
		}
		return s.exec(`ALTER DATABASE ` + raw + ` RENAME TO ` + name)
	})
}

func postgresDialect(t testing.TB) store.Dialect {
	t.Helper()
	return postgres(t).admin.Dialect()
}

// startServer starts a server that ends with this process and returns its URL.
func startServer() (string, error) {
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bins) == 0 {
		return "", errNoBinaries
	}
	bin := bins[len(bins)-1]
	dir, err := os.MkdirTemp("", "whetstone-postgres")
	if err != nil {
		return "", err
	}
	attr, err := unprivileged(dir)
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "whetstone", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	// The shell removes the folder when the server has ended: nothing else
	// outlives a test process that is killed.
	run := exec.Command("sh", "-c", `"$0" "$@"; rm -rf "$DIR"`, filepath.Join(bin, "postgres"), "-D", data,
		"-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=300")
	run.Env = append(os.Environ(), "DIR="+dir)
	run.SysProcAttr, run.Dir = attr, dir
	if err := run.Start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("postgres://whetstone@127.0.0.1:%d/postgres?sslmode=disable", port), stopWithProcess(data)
}

// unprivileged makes the server run as the user postgres when this process is
// root: PostgreSQL refuses to run as root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // ids fit
	return attr, os.Chown(dir, uid, gid)
}

// stopWithProcess starts a watcher that stops the server when this process is
// gone, however it went.
func stopWithProcess(data string) error {
	const script = `while kill -0 "$PARENT" 2>/dev/null; do sleep 0.5; done; kill -INT "$(head -n 1 "$DATA/postmaster.pid")"`
	watch := exec.Command("sh", "-c", script)
	watch.Env = append(os.Environ(), "PARENT="+strconv.Itoa(os.Getpid()), "DATA="+data)
	watch.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return watch.Start()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
