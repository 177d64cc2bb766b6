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
// under load, by minutes and by hours. The clients' clocks, and PostgreSQL's,
// stay right.
//
// The product has no switch for that. The binary is built with another
// time.Now instead, that of the standard library with a shift which a file
// names; so the whole program is compiled anew, and the test is left out of
// the short form.
func TestTortureClock(t *testing.T) {
	if *torment == 0 {
		t.Skip("compiles the program with another clock, which takes minutes; make torture does it")
	}
	dir := t.TempDir()
	shifted, err := servertest.Build(dir, "-overlay", clockOverlay(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	onDatabases(t, func(t *testing.T, kind string) {
		s := newSite(t, plan{Database: databaseURL(t, kind), Binary: shifted})
		clock := filepath.Join(s.command.Dir, "clock")
		s.command.Env = append(s.command.Env, clockVariable+"="+clock)
		set := func(shift time.Duration) {
			t.Helper()
			// A reader must never see half of it.
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
		random := dice()
		l.start(t.Context())
		for end := time.Now().Add(tormentTime(0)); time.Now().Before(end); {
			pause(t, between(random, time.Second, 3*time.Second))
			set(between(random, -3*time.Hour, 3*time.Hour))
			r.kills++
			r.awaitAnswer(t, s, time.Now())
		}
		// It stays slow: what was planned by a clock that was fast must not wait
		// for that time to come.
		set(-4 * time.Hour)
		calm(t, l)
		set(0) // else the doctor would complain, and rightly
		r.print(t, l, compare(t, l))
	})
}

const clockVariable = "CLUSTER_TEST_CLOCK"

// clockShift is a further file of the package time. That package can neither
// import os nor be told anything by a test.
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

// clockOverlay writes what go build takes in the place of files of the
// standard library, and returns the path of its list.
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
