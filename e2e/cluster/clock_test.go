package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// TestTortureClock moves the wall clock of the service forwards and backwards
// under load, by minutes and by hours. The clocks of the clients and of
// PostgreSQL stay right.
//
// The product has no switch for that. The binary is built with a time.Now that
// adds an offset read from a file. So the whole program is compiled again, and
// the test is not part of the short form.
func TestTortureClock(t *testing.T) {
	if *tortureTime == 0 {
		t.Skip("compiles the program with another clock, which takes minutes; make torture does it")
	}
	dir := t.TempDir()
	shifted, err := servertest.BuildWith(dir, "-overlay", clockOverlay(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	onDatabases(t, func(t *testing.T, kind string) {
		s := newSite(t, plan{Database: databaseURL(t, kind), Binary: shifted})
		clock := filepath.Join(s.command.Dir, "clock")
		s.command.Env = append(s.command.Env, clockVariable+"="+clock)
		set := func(shift time.Duration) {
			t.Helper()
			// The rename is atomic: the service never reads half a number.
			err := os.WriteFile(clock+".new", fmt.Appendf(nil, "%d\n", int64(shift.Seconds())), 0o600)
			if err == nil {
				err = os.Rename(clock+".new", clock)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		set(0)
		s.start()
		l := newLoad(t, s)
		r := &record{what: "a clock that jumps, " + kind}
		random := newRand()
		l.start(t.Context())
		for end := time.Now().Add(tortureDuration(0)); time.Now().Before(end); {
			pause(t, between(random, time.Second, 3*time.Second))
			set(between(random, -3*time.Hour, 3*time.Hour))
			r.kills++
			r.awaitAnswer(t, s, time.Now())
		}
		// The clock stays slow: jobs that were scheduled by a fast clock must not
		// wait until that time.
		set(-4 * time.Hour)
		calm(t, l)
		// The doctor would warn about a wrong clock, and in the hours after midnight
		// today's sessions would not be in the last two days.
		set(0)
		pause(t, 10*clockPoll)
		r.print(t, l, compare(t, l))
	})
}

const (
	clockVariable = "CLUSTER_TEST_CLOCK"
	clockPoll     = 20 * time.Millisecond // how often the service reads the file: see clockShift
)

// clockShift is an additional file of the package time, which cannot import os. The
// monotonic clock stays right, as it does when a real clock is set: only wall time
// jumps.
const clockShift = `package time

import (
	"sync/atomic"
	"syscall"
)

var clockShift atomic.Int64 // seconds

func init() {
	if path, ok := syscall.Getenv("` + clockVariable + `"); ok {
		readClock(path)
		go func() {
			for {
				Sleep(20 * Millisecond)
				readClock(path)
			}
		}()
	}
}

func readClock(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	var text [32]byte
	n, err := syscall.Read(fd, text[:])
	if err != nil || n == 0 {
		return
	}
	shift, sign := int64(0), int64(1)
	for _, c := range text[:n] {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			shift = 10*shift + int64(c-'0')
		}
	}
	clockShift.Store(sign * shift)
}
`

// clockOverlay writes the changed files of the standard library, and the JSON
// file for go build -overlay, whose path it returns.
func clockOverlay(t *testing.T, dir string) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(lib, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatal("the standard library's time.Now is not as this test knows it")
	}
	files := map[string]string{
		"time.go":        strings.Replace(string(text), now, now+"\tsec += clockShift.Load()\n", 1),
		"clock_shift.go": clockShift,
	}
	replace := map[string]string{}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(lib, name)] = path
	}
	list, err := json.Marshal(object{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
