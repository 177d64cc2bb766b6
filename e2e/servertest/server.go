// Package servertest runs the real binary for tests that kill it: processes of
// the service, a load balancer before them, and an S3 server. It also installs
// the npm packages that are run against it.
package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

const (
	// patience is how long a server may take to stop.
	patience = 2 * time.Minute
	// startPatience is how long it may take to start: with --demo it fills a database
	// first, perhaps on a busy machine.
	startPatience = 2 * time.Minute
	// mainPackage can be built from any folder of the module.
	mainPackage = "github.com/whetstone-dev/whetstone/cmd/whetstone"
)

// Version is the version that the binary of Build says it has.
const Version = "v0.0.0"

// Build puts the binary into a folder and returns its path. The packages that scripts/test
// runs share one binary: linking it takes several seconds.
func Build(dir string) (string, error) {
	const flags = "-s -w -X main.version=" + Version // without symbols it is linked in half the time
	shared := os.Getenv("WHETSTONE_TEST_TEMPLATES")
	if shared == "" {
		return BuildWith(dir, "-ldflags", flags)
	}
	lock, err := os.Create(filepath.Join(shared, "whetstone.lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	binary, own := filepath.Join(shared, "whetstone"), filepath.Join(dir, "whetstone")
	if _, err := os.Stat(binary); err != nil {
		if binary, err = BuildWith(shared, "-ldflags", flags); err != nil {
			return "", err
		}
	}
	return own, os.Link(binary, own)
}

// BuildWith compiles the binary into a folder with further arguments of go build.
func BuildWith(dir string, args ...string) (string, error) {
	binary := filepath.Join(dir, "whetstone")
	build := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", binary}, args...), mainPackage)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return binary, nil
}

// A Command is how a process of the service is started.
type Command struct {
	Path string
	Args []string
	Env  []string // complete: nothing is inherited from the test
	Dir  string
	// User, if not nil, is the user of the process.
	User *syscall.Credential
	// Stdout and Log, if not nil, get what it prints and logs, too.
	Stdout, Log io.Writer
}

// A Server is a process of the service.
type Server struct {
	URL string // where it listens, once it is ready

	cmd   *exec.Cmd
	log   *watchedLog
	ended chan struct{} // closed when the process has exited; then err is set
	err   error
}

var readyLine = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// Start runs the command and returns when it is ready.
func Start(c Command) (*Server, error) {
	s, err := Launch(c)
	if err != nil {
		return nil, err
	}
	return s, s.AwaitReady()
}

// Launch runs the command and does not wait for it.
func Launch(c Command) (*Server, error) {
	s := &Server{log: &watchedLog{ready: make(chan string, 1)}, ended: make(chan struct{})}
	s.cmd = exec.Command(c.Path, c.Args...)
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = c.Dir, c.Env, c.Stdout, s.log
	if c.Log != nil {
		s.cmd.Stderr = io.MultiWriter(c.Log, s.log) // c.Log has the ready line before AwaitReady returns
	}
	s.cmd.SysProcAttr = processOf(c.User)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// AwaitReady returns when the process has logged where it listens, and sets URL.
func (s *Server) AwaitReady() error {
	select {
	case s.URL = <-s.log.ready:
		return nil
	case <-s.ended:
		return fmt.Errorf("the server ended at once (%w):\n%s", s.err, s.log)
	case <-time.After(startPatience):
		return errors.Join(fmt.Errorf("the server is not ready:\n%s", s.log), s.Kill())
	}
}

// PID is the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Alive reports whether the process runs.
func (s *Server) Alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Kill kills the process with SIGKILL and waits until it has exited. It is no
// error if it has exited already.
func (s *Server) Kill() error { return s.signal(syscall.SIGKILL) }

// Terminate asks the process to stop, which it must do with exit code 0.
func (s *Server) Terminate() error {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if s.err != nil {
		return fmt.Errorf("the server did not end well: %w\n%s", s.err, s.log)
	}
	return nil
}

func (s *Server) signal(signal syscall.Signal) error {
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.ended
		return fmt.Errorf("the server did not end within %s of signal %q:\n%s", patience, signal, s.log)
	}
}

// Log is what the process has logged so far.
func (s *Server) Log() string { return s.log.String() }

// watchedLog keeps a log and reports the address of the ready line.
type watchedLog struct {
	ready chan string

	mu    sync.Mutex
	text  bytes.Buffer
	found bool
}

// Write implements io.Writer.
func (l *watchedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if !l.found {
		if match := readyLine.FindSubmatch(l.text.Bytes()); match != nil {
			l.found = true
			l.ready <- string(match[1])
		}
	}
	return len(p), nil
}

func (l *watchedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
