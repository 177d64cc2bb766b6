package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// key is the API key of the servers under load. They live for one benchmark
// and listen on loopback only.
const key = "st_test_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

// A server is a process that listens on loopback: Whetstone or a peer.
type server struct {
	cmd  *exec.Cmd
	url  string
	addr string // host:port of the URL
	// said is closed when the process has closed its standard error.
	said chan struct{}
}

// serve starts Whetstone on a folder with more flags and waits until it is ready.
func (l *lab) serve(ctx context.Context, data string, flags ...string) (*server, error) {
	args := append([]string{"serve", "--data", data, "--addr", "127.0.0.1:0", "--log-level", "error"}, flags...)
	cmd := exec.CommandContext(ctx, l.binary, args...)
	cmd.Env = environment("WHETSTONE_BOOTSTRAP_KEY=" + key)
	s, err := startServer(cmd)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, "/readyz"); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// startServer starts a process and waits for the line that says where it
// listens.
func startServer(cmd *exec.Cmd) (*server, error) {
	stderr, err := prepare(cmd)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, said: make(chan struct{})}
	urls := make(chan string, 1)
	go s.listen(stderr, urls)
	select {
	case url, found := <-urls:
		if found {
			s.at(url)
			return s, nil
		}
		err = errors.New("the process ended before it listened")
	case <-time.After(startTimeout):
		err = errors.New("the process does not listen")
	}
	s.stop()
	return nil, fmt.Errorf("%s: %w", cmd.Path, err)
}

// startQuiet starts a process that listens where it was told to, and waits
// until a path of it answers.
func startQuiet(ctx context.Context, cmd *exec.Cmd, url, path string) (*server, error) {
	stderr, err := prepare(cmd)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, said: make(chan struct{})}
	go s.listen(stderr, make(chan string, 1))
	s.at(url)
	if err := s.await(ctx, path); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// prepare lets a process end as an operator would end it, when its context is
// done, and returns its standard error.
func prepare(cmd *exec.Cmd) (io.ReadCloser, error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	return cmd.StderrPipe()
}

// listen sends the address that the process prints, and passes on the rest of
// what it says.
func (s *server) listen(stderr io.Reader, urls chan<- string) {
	defer close(s.said)
	defer close(urls)
	lines := bufio.NewScanner(stderr)
	found := false
	for lines.Scan() {
		url, is := strings.CutPrefix(lines.Text(), "listening on ")
		if is && !found {
			found = true
			urls <- url
			continue
		}
		fmt.Fprintln(os.Stderr, lines.Text())
	}
}

func (s *server) at(url string) {
	s.url, s.addr = url, strings.TrimPrefix(url, "http://")
}

// stop ends the process and waits until it is gone.
func (s *server) stop() {
	_ = s.cmd.Cancel() // it may have ended already
	timer := time.AfterFunc(stopTimeout, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.said
	_ = s.cmd.Wait() // it was told to end
}

// await asks for a path until the answer is 200.
func (s *server) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.get(ctx, path, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.url, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// get reads a JSON answer into out unless that is nil.
func (s *server) get(ctx context.Context, path string, out any) error {
	req, err := s.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return call(req, http.StatusOK, out)
}

// request makes a request with the key.
func (s *server) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return req, nil
}

// holders makes keys of so many people, as a team has them.
func (l *lab) holders(ctx context.Context, url string, count int) ([]string, error) {
	keys := make([]string, count)
	for i := range keys {
		cmd := exec.CommandContext(ctx, l.binary, "key", "create", "--database-url", url,
			"--user", fmt.Sprintf("person-%d@bench.example", i), "--role", "member", "--json")
		cmd.Env = environment()
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		var made struct {
			APIKey string `json:"api_key"`
		}
		if err := json.Unmarshal(out, &made); err != nil {
			return nil, err
		}
		keys[i] = made.APIKey
	}
	return keys, nil
}

// call sends a request outside of any measurement.
func call(req *http.Request, status int, out any) error {
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != status {
		return fmt.Errorf("%s %s: got %s, want %d: %s", req.Method, req.URL.Path, answer.Status, status, body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}
