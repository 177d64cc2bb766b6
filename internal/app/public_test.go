package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// TestPublicRoutesAreLimited walks everything that asks for no key: each has a
// limit by address, in the line where it is mounted.
func TestPublicRoutesAreLimited(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	pages := map[string]bool{}
	for _, r := range slices.Concat(s.Routes(), s.Pages()) {
		pages[r.Method+" "+r.Path] = true
		if r.Public && (r.Limit == nil || r.Limit.By != httpapi.ByAddress) {
			t.Errorf("%s %s asks for no key and has no limit by address", r.Method, r.Path)
		}
	}
	for _, r := range s.PlainRoutes() {
		if r.Pattern == "GET /healthz" || pages[r.Pattern] { // costs nothing; was looked at above
			continue
		}
		if r.Limit == nil || r.Limit.By != httpapi.ByAddress {
			t.Errorf("%s asks for no key and has no limit by address", r.Pattern)
		}
	}
}

// TestUnwantedBodies walks all routes that want no body. They take a small one
// and refuse a large one before they do anything: what is left unread would
// keep the server from noticing that the client has left.
func TestUnwantedBodies(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	document, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]struct{ RequestBody any }
	}
	if err := json.Unmarshal(document, &api); err != nil {
		t.Fatal(err)
	}
	walked := 0
	send := func(method, path string, size int) (int, string) {
		path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(strings.ReplaceAll(path, "{$}", ""), "1")
		req, err := http.NewRequest(method, s.url+path, bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.FirstKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body bytes.Buffer
		_, _ = body.ReadFrom(res.Body) // the status is what counts
		return res.StatusCode, body.String()
	}
	check := func(method, path string) {
		walked++
		if status, body := send(method, path, 100<<10); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "No body is read here") {
			t.Errorf("%s %s with 100 KiB: %d %.200s", method, path, status, body)
		}
	}
	for path, operations := range api.Paths {
		for method, operation := range operations {
			if operation.RequestBody == nil {
				check(strings.ToUpper(method), path)
			}
		}
	}
	for _, r := range s.PlainRoutes() {
		if method, path, ok := strings.Cut(r.Pattern, " "); ok && method == http.MethodGet {
			check(method, path)
		}
	}
	if walked < 100 {
		t.Errorf("walked only %d routes", walked)
	}
	for _, path := range []string{"/api/v1/me", "/healthz", "/login"} {
		if status, body := send(http.MethodGet, path, 1000); status != http.StatusOK {
			t.Errorf("GET %s with 1,000 bytes: %d %.200s", path, status, body)
		}
	}
}

// TestIdleBodies: connections that announce large bodies and send a byte hold
// nothing that others need.
func TestIdleBodies(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	for range 40 {
		say(t, s.dial(t), "POST /api/v1/repohost/webhook HTTP/1.1\r\nHost: test\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 26214400\r\n\r\n{")
		say(t, s.dial(t), fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\nContent-Length: 33554432\r\n\r\n{", s.FirstKey))
	}
	for path, want := range map[string]int{
		"/api/v1/repohost/webhook": http.StatusUnauthorized, // it is not signed
		"/api/v1/push":             http.StatusCreated,
	} {
		req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(strings.Repeat(" ", 1<<20)+`{"canonical":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.FirstKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		// Whoever waits for what they hold gets a 503.
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
}

// TestReadyIsKept: the checks are made once a second, however many ask.
func TestReadyIsKept(t *testing.T) {
	c := settings(t, "--roles", "web")
	s := start(t, c)
	begun := time.Now()
	s.wantStatus(t, "", http.StatusOK, "/readyz")
	if err := os.RemoveAll(filepath.Join(c.Data, "blobs")); err != nil {
		t.Fatal(err)
	}
	if status, _ := s.get(t, "/readyz", ""); status != http.StatusOK && time.Since(begun) < time.Second {
		t.Errorf("status %d, want the result from before", status)
	}
	for deadline := time.Now().Add(soon); ; time.Sleep(100 * time.Millisecond) {
		status, _ := s.get(t, "/readyz", "")
		if status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %d", status)
		}
	}
	for range 20 {
		s.wantStatus(t, "", http.StatusServiceUnavailable, "/readyz")
	}
	took := time.Since(begun)
	if n := strings.Count(s.log.String(), "check=blob"); n > int(took/time.Second)+1 {
		t.Errorf("checked %d times in %s", n, took)
	}
}

// TestDocumentsAreKept by clients, too.
func TestDocumentsAreKept(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	for _, path := range []string{"/openapi.json", "/docs"} {
		res, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("If-None-Match", res.Header.Get("ETag"))
		again, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = again.Body.Close()
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d with the ETag %q, want 304", path, again.StatusCode, res.Header.Get("ETag"))
		}
	}
}

// TestCgroupLimit reads the files of both versions, as they are on a host and
// in a container.
func TestCgroupLimit(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name, own string
		files     map[string]string
		want      int64
	}{
		{"no cgroups", "", nil, 0},
		{"version 2", "0::/a/b\n", map[string]string{"a/b/memory.max": "1073741824\n", "a/memory.max": "max\n"}, gib},
		{"the one above is tighter", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "1073741824\n"}, gib},
		{"in a container", "0::/\n", map[string]string{"memory.max": "1073741824\n"}, gib},
		{"the host's path in a container", "0::/docker/123\n", map[string]string{"memory.max": "1073741824\n"}, gib},
		{"above the namespace", "0::/../..\n", map[string]string{"memory.max": "1073741824\n"}, gib},
		{"no limit", "0::/a\n", map[string]string{"a/memory.max": "max\n"}, 0},
		{"version 1", "5:cpu,memory:/a\n1:name=systemd:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "1073741824\n"}, gib},
		{"version 1 without a limit", "5:memory:/a\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"garbage", "x\n0::/a\n", map[string]string{"a/memory.max": "much\n"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/self/cgroup", c.own)
			for name, text := range c.files {
				write(filepath.Join("sys/fs/cgroup", name), text)
			}
			if got := app.CgroupLimit(root); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestShareMemory leaves SQLite, whose memory the runtime does not count, its part.
func TestShareMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		limit  int64
		sqlite bool
		want   app.Memory
	}{
		{0, true, app.Memory{}},
		{0, false, app.Memory{}},
		{1000 * mib, false, app.Memory{Runtime: 900 * mib}},
		{400 * mib, true, app.Memory{Runtime: 210 * mib, Database: 50 * mib}},
		{1000 * mib, true, app.Memory{Runtime: 647 * mib, Database: 125 * mib}},
		{10_000 * mib, true, app.Memory{Runtime: 8680 * mib, Database: 192 * mib}},
	} {
		if got := app.ShareMemory(c.limit, c.sqlite); got != c.want {
			t.Errorf("%d MiB, SQLite %t: %+v, want %+v", c.limit/mib, c.sqlite, got, c.want)
		}
	}
}
