package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// A hook is a web server that a script has started. It keeps the bodies that
// it gets, in files of the script's folder.
type hook struct {
	*httptest.Server
	name     string
	dir      string
	statuses []int // of the answers; the last one is for all further ones

	mu    sync.Mutex
	count int
	err   error
}

type hooksKey struct{}

// hooksOf are the servers of a script by their names.
func hooksOf(ts *testscript.TestScript) map[string]*hook {
	return ts.Value(hooksKey{}).(map[string]*hook)
}

// receiver starts a server whose URL is then in the variable of that name.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) > 0, "receiver NAME [STATUS...]")
	h := &hook{name: args[0], dir: serverOf(ts).dir, statuses: []int{http.StatusOK}}
	if len(args) > 1 {
		h.statuses = nil
	}
	for _, arg := range args[1:] {
		status, err := strconv.Atoi(arg)
		ts.Check(err)
		h.statuses = append(h.statuses, status)
	}
	h.Server = httptest.NewServer(h)
	ts.Defer(h.Close)
	hooksOf(ts)[h.name] = h
	ts.Setenv(h.name, h.URL)
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender has died
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	if err := os.WriteFile(h.file(h.count), body, 0o600); err != nil {
		h.err = err
	}
	w.WriteHeader(h.statuses[min(h.count, len(h.statuses))-1])
}

func (h *hook) file(n int) string { return filepath.Join(h.dir, fmt.Sprintf("%s.%d", h.name, n)) }

func (h *hook) received() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count, h.err
}

// receiveTimeout is longer than it takes to notice that a process has died
// which had begun to send.
const receiveTimeout = time.Minute

// received waits for the n-th request to a server, whose body is then stdout.
func received(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 2, "[!] received NAME N")
	h, ok := hooksOf(ts)[args[0]]
	want(ts, ok, "receiver NAME before received NAME N")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for deadline := time.Now().Add(receiveTimeout); ; time.Sleep(20 * time.Millisecond) {
		count, err := h.received()
		ts.Check(err)
		if neg {
			if count >= n {
				ts.Fatalf("%d requests have come to %s", count, h.name)
			}
			return
		}
		if count >= n {
			ts.Check(ts.Exec("cat", h.file(n)))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d requests have come to %s", count, h.name)
		}
	}
}
