// Package postgrestest starts PostgreSQL servers for tests, from the binaries that
// are installed on this machine. It owns no tables.
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/datadir"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// ErrNotInstalled is returned by New on a machine without PostgreSQL.
var ErrNotInstalled = errors.New("no PostgreSQL server binaries; " +
	"run `make setup`, or set WHETSTONE_TEST_POSTGRES to a server's URL")

// A Server is a PostgreSQL server with a data directory of its own. It ends
// with this process, even if that is killed.
type Server struct {
	URL string // of an empty database

	bin      string
	dir      string
	port     int
	settings []string
	attr     *syscall.SysProcAttr
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has exited
}

// Throwaway are settings for a server whose data need not survive its crash.
func Throwaway() []string {
	return []string{
		"synchronous_commit=off", "full_page_writes=off", "max_connections=300", "max_wal_size=128MB",
		// Databases live for a second: to look after hundreds of them costs more than it brings.
		"autovacuum=off", "jit=off", "wal_level=minimal", "max_wal_senders=0",
	}
}

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 2 * time.Minute

// New makes a data directory and starts a server with settings such as
// "max_connections=300".
func New(settings ...string) (*Server, error) { return newIn(parentFolder(), settings) }

// NewOnDisk is like New, but the data directory is never in memory.
func NewOnDisk(settings ...string) (*Server, error) { return newIn("", settings) }

func newIn(parent string, settings []string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	return create(bin, parent, settings, "initdb", "-U", "whetstone", "-A", "trust", "-E", "UTF8", "--locale=C")
}

// NewReplica starts a hot standby of the server, which streams from it. It has all
// databases.
func (s *Server) NewReplica() (*Server, error) {
	return create(s.bin, filepath.Dir(s.dir), s.settings,
		"pg_basebackup", "--dbname", s.URL, "--checkpoint", "fast", "--write-recovery-conf")
}

// create starts a server with a data directory below parent, or in the folder for
// temporary files if that is empty. A program of PostgreSQL makes it.
func create(bin, parent string, settings []string, program string, args ...string) (_ *Server, err error) {
	s := &Server{bin: bin, settings: settings}
	if s.dir, err = os.MkdirTemp(parent, "whetstone-postgres"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.attr, err = unprivileged(s.dir); err != nil {
		return nil, err
	}
	maker := exec.Command(filepath.Join(s.bin, program), append(args, "-D", filepath.Join(s.dir, "data"), "--no-sync")...)
	maker.SysProcAttr, maker.Dir = s.attr, s.dir
	if out, err := maker.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	if err := s.closeWithProcess(); err != nil {
		return nil, err
	}
	// Only the server itself can claim a port without a race. The range is below
	// the ports that the kernel gives to outgoing connections.
	for range 20 {
		s.port = 20_000 + rand.IntN(12_000)
		s.URL = fmt.Sprintf("postgres://whetstone@127.0.0.1:%d/postgres?sslmode=disable", s.port)
		if err = s.Start(); err == nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	return s, err
}

// parentFolder is where servers keep their data: in memory if there is plenty,
// else in the folder for temporary files. A database has 700 files: to create
// and drop one takes 60 ms of processor time in memory, and 300 on ext4.
func parentFolder() string {
	const memory, plenty = "/dev/shm", 2 << 30
	if available, _, err := datadir.Space(memory); err == nil && available >= plenty {
		return memory
	}
	return ""
}

// binaries returns the folder of the newest server on this machine.
func binaries() (string, error) {
	// Debian keeps the server out of PATH, e.g. in /usr/lib/postgresql/17/bin.
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if len(dirs) > 0 {
		return slices.MaxFunc(dirs, func(a, b string) int { return version(a) - version(b) }), nil
	}
	postgres, err := exec.LookPath("postgres")
	if err != nil {
		return "", ErrNotInstalled
	}
	return filepath.Dir(postgres), nil
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// unprivileged makes the server run as the user postgres if this process is
// root, as which PostgreSQL refuses to run. It also gives the server a process
// group of its own, so that Ctrl-C does not reach it.
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
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} // ids fit
	return attr, os.Chown(dir, uid, gid)
}

// closeWithProcess starts a shell that waits until this process is gone,
// however it ended, and then does what Close does.
func (s *Server) closeWithProcess() error {
	watch := exec.Command("sh", "-c", `
		while kill -0 "$PARENT"; do sleep 0.3; done
		pid=$(head -n 1 "$DIR/data/postmaster.pid")
		kill -QUIT "$pid"
		while kill -0 "$pid"; do sleep 0.1; done
		rm -rf "$DIR"`)
	watch.Env = append(os.Environ(), "PARENT="+strconv.Itoa(os.Getpid()), "DIR="+s.dir)
	watch.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return watch.Start()
}

var errPortTaken = errors.New("the port is taken")

// Start starts the server again after Kill and returns when it answers. A
// server that finds processes of the killed one exits, and is started once more.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.start(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errPortTaken) {
			return err
		}
	}
}

func (s *Server) start(ctx context.Context) error {
	// fsync can be off because no test crashes the machine: what the server has
	// written survives the server.
	args := []string{
		"-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port), "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
	}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	cmd, log, ended := exec.Command(filepath.Join(s.bin, "postgres"), args...), &bytes.Buffer{}, make(chan struct{})
	cmd.SysProcAttr, cmd.Dir, cmd.Stderr = s.attr, s.dir, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // why it ended is in the log
		close(ended)
	}()
	for {
		db, err := store.Open(ctx, store.Options{URL: s.URL, MaxConns: 1})
		if err == nil {
			return db.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-ended:
			if strings.Contains(log.String(), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("PostgreSQL has exited: %w\n%s", err, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill kills the server's main process with SIGKILL; its other processes notice
// and exit.
func (s *Server) Kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-s.ended
	s.cmd = nil
	return err
}

// Freeze stops all processes of the server, as if its machine hung, until Thaw.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

// signal reaches the main process first, so that it starts no others meanwhile.
func (s *Server) signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(pid, sig); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		id, _ := strconv.Atoi(child) // the kernel writes numbers
		_ = syscall.Kill(id, sig)    // it may have ended
	}
	return err
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // PostgreSQL's immediate shutdown
		select {
		case <-s.ended:
		case <-time.After(startTimeout):
			_ = s.Kill()
		}
	}
	return os.RemoveAll(s.dir)
}
