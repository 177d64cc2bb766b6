package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// server is the service that a script has started, if it has. What it prints
// is kept in server.out and server.log, over all its starts.
type server struct {
	dir string // of the script
	cmd *exec.Cmd
	// ended is closed when the process is gone; then err is its fate.
	ended chan struct{}
	err   error
}

type serverKey struct{}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

var (
	readyLine    = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)
	firstKeyLine = regexp.MustCompile(`(?m)^API key of .*: (st_\w+)$`)
)

// start runs the binary and returns when it says where it listens, and which
// key it made, if any.
func (s *server) start(env, args []string) (url, key string, err error) {
	if s.cmd != nil {
		return "", "", errors.New("the server runs already")
	}
	stdout, err := os.OpenFile(filepath.Join(s.dir, "server.out"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return "", "", err
	}
	defer stdout.Close()
	before, err := os.ReadFile(stdout.Name())
	if err != nil {
		return "", "", err
	}
	log := &watchedLog{path: filepath.Join(s.dir, "server.log"), ready: make(chan string, 1)}
	cmd := exec.Command(filepath.Join(binDir, "whetstone"), append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, env, stdout, log
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		s.err = cmd.Wait()
		close(s.ended)
	}()
	if url, err = s.awaitReady(log); err != nil {
		return "", "", err
	}
	// The key is printed before the ready line, and straight into the file.
	printed, err := os.ReadFile(stdout.Name())
	if match := firstKeyLine.FindSubmatch(printed[len(before):]); match != nil {
		key = string(match[1])
	}
	return url, key, err
}

func (s *server) awaitReady(log *watchedLog) (string, error) {
	select {
	case url := <-log.ready:
		return url, nil
	case <-s.ended:
		s.cmd = nil
		return "", fmt.Errorf("the server ended at once (%w):\n%s", s.err, log)
	case <-time.After(startTimeout):
		return "", errors.Join(fmt.Errorf("the server is not ready:\n%s", log), s.crash())
	}
}

// terminate asks the server to stop, which it must do with exit code 0.
func (s *server) terminate() error {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if s.err != nil {
		return fmt.Errorf("the server did not end well: %w", s.err)
	}
	return nil
}

// crash ends the server without a chance to tidy up.
func (s *server) crash() error { return s.signal(syscall.SIGKILL) }

// end stops what the script left running, so that nothing outlives it.
func (s *server) end() error {
	if s.cmd == nil {
		return nil
	}
	return s.terminate()
}

// signal sends a signal and waits for the end.
func (s *server) signal(signal syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("no server runs")
	}
	process := s.cmd.Process
	s.cmd = nil
	if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = process.Kill()
		<-s.ended
		return fmt.Errorf("the server did not end within %s of signal %q", stopTimeout, signal)
	}
}

// watchedLog appends to a file and reports the address of the ready line.
type watchedLog struct {
	path  string
	ready chan string

	mu    sync.Mutex
	text  bytes.Buffer
	found bool
}

func (l *watchedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := appendTo(l.path, p); err != nil {
		return 0, err
	}
	l.text.Write(p)
	if match := readyLine.FindSubmatch(l.text.Bytes()); match != nil && !l.found {
		l.found = true
		l.ready <- string(match[1])
	}
	return len(p), nil
}

func appendTo(path string, p []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Close())
}

func (l *watchedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
