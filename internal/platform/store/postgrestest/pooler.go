package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// ErrNoPooler is returned by NewPooler on a machine without PgBouncer.
var ErrNoPooler = errors.New("PgBouncer is not installed: apt-get install pgbouncer")

// A Pooler is a PgBouncer in transaction mode before a server. It ends with this
// process.
type Pooler struct {
	server *url.URL
	port   int
	dir    string
	cmd    *exec.Cmd
}

// NewPooler starts a PgBouncer with few connections to the server of a URL, so that
// they are shared.
func NewPooler(server string) (_ *Pooler, err error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	p := &Pooler{}
	if p.server, err = url.Parse(server); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "whetstone-pgbouncer"); err != nil {
		return nil, err
	}
	attr, err := unprivileged(p.dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	for range 20 {
		p.port = 20_000 + rand.IntN(12_000)
		if err = p.start(program, attr); err == nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func findPooler() (string, error) {
	if program, err := exec.LookPath("pgbouncer"); err == nil {
		return program, nil
	}
	const debian = "/usr/sbin/pgbouncer" // which is not in everybody's PATH
	if _, err := os.Stat(debian); err != nil {
		return "", ErrNoPooler
	}
	return debian, nil
}

// URL is the URL of a database behind the pooler.
func (p *Pooler) URL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable&pooler=transaction", p.server.User.Username(), p.port, database)
}

func (p *Pooler) start(program string, attr *syscall.SysProcAttr) error {
	config, log := filepath.Join(p.dir, "pgbouncer.ini"), filepath.Join(p.dir, "log")
	err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
logfile = %s
auth_type = any
pool_mode = transaction
max_client_conn = 900
default_pool_size = 4
server_idle_timeout = 5
`, p.server.Hostname(), p.server.Port(), p.server.User.Username(), p.port, log), 0o644)
	if err != nil {
		return err
	}
	// It ends at EOF on its stdin, i.e. with this process.
	p.cmd = exec.Command("sh", "-c", `"$0" "$1" & pid=$!; cat >/dev/null; kill "$pid"; wait "$pid"`, program, config)
	p.cmd.SysProcAttr, p.cmd.Dir = attr, p.dir
	if _, err := p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		db, err := store.Open(ctx, store.Options{URL: p.URL(strings.TrimPrefix(p.server.Path, "/")), MaxConns: 1})
		if err == nil {
			return db.Close()
		}
		said, _ := os.ReadFile(log) // it may not be there yet
		if strings.Contains(string(said), "Address already in use") {
			return errors.Join(errPortTaken, p.end(), os.Remove(log))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("PgBouncer does not answer: %w\n%s", err, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Close ends the pooler.
func (p *Pooler) Close() error { return errors.Join(p.end(), os.RemoveAll(p.dir)) }

func (p *Pooler) end() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) // with its process group
	_ = p.cmd.Wait()                                         // it was killed
	p.cmd = nil
	return err
}
