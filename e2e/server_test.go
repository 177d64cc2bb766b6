package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// server is the service that a script has started, if it has. What it prints
// is kept in server.out and server.log, over all its starts.
type server struct {
	dir     string   // of the script
	prefix  []string // what the binary is started by, if anything
	running *servertest.Server
	files   []*os.File // that it writes to
}

type serverKey struct{}

var firstKeyLine = regexp.MustCompile(`(?m)^API key of .*: (st_\w+)$`)

// start runs the binary and returns when it says where it listens, and which
// key it made, if any.
func (s *server) start(env, args []string) (url, key string, err error) {
	if s.running != nil {
		return "", "", errors.New("the server runs already")
	}
	var logFile, stdout *os.File
	if logFile, err = s.open("server.log"); err != nil {
		return "", "", err
	}
	if stdout, err = s.open("server.out"); err != nil {
		return "", "", err
	}
	before, err := os.ReadFile(stdout.Name())
	if err != nil {
		return "", "", err
	}
	command := slices.Concat(s.prefix, []string{filepath.Join(binDir, "whetstone"), "serve", "--addr", "127.0.0.1:0"}, args)
	running, err := servertest.Start(servertest.Command{
		Path: command[0], Args: command[1:],
		Env: env, Dir: s.dir, Stdout: stdout, Log: logFile,
	})
	if err != nil {
		return "", "", errors.Join(err, s.closeFiles())
	}
	s.running = running
	// The key is printed before the ready line, and straight into the file.
	printed, err := os.ReadFile(stdout.Name())
	if match := firstKeyLine.FindSubmatch(printed[len(before):]); match != nil {
		key = string(match[1])
	}
	return running.URL, key, err
}

func (s *server) open(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		s.files = append(s.files, f)
	}
	return f, err
}

func (s *server) closeFiles() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// terminate asks the server to stop, which it must do with exit code 0.
func (s *server) terminate() error { return s.stop((*servertest.Server).Terminate) }

// crash ends the server without a chance to tidy up.
func (s *server) crash() error { return s.stop((*servertest.Server).Kill) }

func (s *server) stop(how func(*servertest.Server) error) error {
	if s.running == nil {
		return errors.New("no server runs")
	}
	err := how(s.running)
	s.running = nil
	return errors.Join(err, s.closeFiles())
}

// end stops what the script left running, so that nothing outlives it.
func (s *server) end() error {
	if s.running == nil {
		return nil
	}
	return s.terminate()
}
