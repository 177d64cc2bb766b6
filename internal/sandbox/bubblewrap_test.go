//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/sandbox/sandboxtest"
)

// serverVariable makes the test's binary a server that runs a program.
const serverVariable = "SANDBOX_TEST_SERVER"

func TestMain(m *testing.M) {
	if marker := os.Getenv(serverVariable); marker != "" {
		os.Exit(serve(marker))
	}
	os.Exit(m.Run())
}

func serve(marker string) int {
	s, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return 1
	}
	_, err = s.Run(context.Background(), sandbox.Spec{Argv: []string{"setsid", "sleep", marker}})
	if err != nil {
		return 1
	}
	return 0
}

func TestBubblewrap(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Bubblewrap(t))
}

// TestServerKilled wants that a program ends with the server, whenever that is
// killed and has no time to see to it.
func TestServerKilled(t *testing.T) {
	sandboxtest.Bubblewrap(t)
	for i := range 10 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			killServer(t, fmt.Sprintf("60.%d%d", i, time.Now().UnixNano()), time.Duration(i)*3*time.Millisecond)
		})
	}
}

// killServer kills a server some time after it has started bwrap.
func killServer(t *testing.T, marker string, after time.Duration) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+marker)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }() // in case the test ends early
	eventually(t, "bwrap runs", func() bool { return len(sandboxtest.Processes(marker)) > 0 })
	time.Sleep(after)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	eventually(t, "the program is gone", func() bool { return len(sandboxtest.Processes(marker)) == 0 })
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never true: %s", what)
		}
	}
}
