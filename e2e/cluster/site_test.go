package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// firstKey is the API key of every site's owner.
const firstKey = "st_test_0123456789abcdefghijABCDEFGHIJ0123456789abc"

// secretKey is the same for all processes of a site: base64 of 32 bytes.
const secretKey = "YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcy4uLi4="

// A site is a deployment: processes behind a load balancer.
type site struct {
	t        *testing.T
	balancer *servertest.Balancer
	command  servertest.Command
	database string // as store.Open takes it
	blobs    string // the folder of the blobs, "" if they are elsewhere
	seen     *observer

	mu      sync.Mutex
	servers []*servertest.Server
	ended   []*servertest.Server // forgotten ones, for their logs
}

// A plan describes a site.
type plan struct {
	Database string            // its URL; "" is SQLite in the data folder
	S3       *servertest.S3    // nil is files in the data folder
	Data     string            // "" is a folder of the test's own
	Settings map[string]string // e.g. "alert-interval": "1s"
	Binary   string            // "" is the usual one
}

// newSite creates a site without processes.
func newSite(t *testing.T, p plan) *site {
	t.Helper()
	dir := t.TempDir()
	if p.Data == "" {
		p.Data = filepath.Join(dir, "data")
	}
	if p.Binary == "" {
		p.Binary = binary
	}
	s := &site{t: t, balancer: servertest.NewBalancer(), database: p.Database, seen: &observer{}}
	settings := map[string]string{
		"addr": "127.0.0.1:0", "data": p.Data, "database-url": p.Database, "bootstrap-key": firstKey,
		"public-url": s.balancer.URL, "allow-private-targets": "true", "drain-timeout": "10s", "workers": "4",
		"secret-key": secretKey, "signals-min-contributors": "1", // all of them are the owner's
	}
	if s.database == "" {
		s.database = "sqlite:" + filepath.Join(p.Data, "whetstone.db")
	}
	s.command = servertest.Command{
		Path: p.Binary, Args: []string{"serve"}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir},
	}
	s.blobs = filepath.Join(p.Data, "blobs")
	if p.S3 != nil {
		s.blobs = ""
		settings["blob-url"] = p.S3.BlobURL
		s.command.Env = append(s.command.Env, p.S3.Env...)
	}
	for name, value := range p.Settings {
		settings[name] = value
	}
	for name, value := range settings {
		if value != "" {
			s.command.Env = append(s.command.Env, variable(name)+"="+value)
		}
	}
	t.Cleanup(s.close)
	return s
}

// variable is the environment variable of a setting.
func variable(setting string) string {
	return "WHETSTONE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// databaseURL creates a database of a kind that has been migrated, for plan.Database.
func databaseURL(t *testing.T, kind string) string {
	t.Helper()
	if kind == "sqlite" {
		return ""
	}
	return storetest.URL(t, kind)
}

// close stops all processes, each of which must exit with code 0.
func (s *site) close() {
	for _, server := range s.all() {
		if err := server.Terminate(); err != nil {
			s.t.Error(err)
		}
	}
	s.balancer.Close()
}

// all is a copy: the processes change while a caller iterates over them.
func (s *site) all() []*servertest.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*servertest.Server(nil), s.servers...)
}

// start adds a process. The arguments are appended to those of the site.
func (s *site) start(args ...string) *servertest.Server {
	s.t.Helper()
	server, err := s.tryStart(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return server
}

// tryStart is start for a goroutine other than the test's, which must not end it.
func (s *site) tryStart(args ...string) (*servertest.Server, error) {
	c := s.command
	c.Args = append(append([]string(nil), c.Args...), args...)
	server, err := servertest.Start(c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.servers = append(s.servers, server)
	s.mu.Unlock()
	s.balancer.Add(server)
	return server, nil
}

// forget removes a process that has ended, or is about to, from the site.
func (s *site) forget(server *servertest.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.servers {
		if s.servers[i] == server {
			s.servers = append(s.servers[:i:i], s.servers[i+1:]...)
			s.ended = append(s.ended, server)
			break
		}
	}
	s.balancer.Remove(server)
}

// logged returns what the processes have logged about a request.
func (s *site) logged(requestID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found strings.Builder
	for _, server := range slices.Concat(s.ended, s.servers) {
		for line := range strings.Lines(server.Log()) {
			if strings.Contains(line, requestID) {
				found.WriteString(line)
			}
		}
	}
	return found.String()
}

// client talks to the site through its load balancer.
func (s *site) client(key string) *client.Client { return s.clientOf(s.balancer.URL, key) }

// clientOf talks to one process.
func (s *site) clientOf(url, key string) *client.Client {
	return client.New(client.Options{Server: url, APIKey: key, HTTPClient: &http.Client{Transport: s.seen, Timeout: time.Minute}})
}

// An answer is a complete response of the service.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask makes one request, without retries.
func (s *site) ask(ctx context.Context, method, url string, body any) (answer, error) {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+firstKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: s.seen}).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, text}, err
}

// run runs a command of the binary with the site's settings and returns what
// it prints.
func (s *site) run(args ...string) (string, error) {
	cmd := exec.Command(s.command.Path, args...)
	cmd.Env, cmd.Dir = s.command.Env, s.command.Dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("whetstone %s: %w\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

// open opens the site's database beside the service.
func (s *site) open() *store.DB {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), store.Options{URL: s.database, MaxConns: 2})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// An observer sees every answer to a client of the site, and keeps those that no
// failure excuses: while something is down the service may answer 503 in the
// contract's form, but never 500, which would be an error it did not expect.
type observer struct {
	mu       sync.Mutex
	statuses map[int]int // 0 is no answer
	wrong    []wrongAnswer
}

type wrongAnswer struct{ requestID, text string }

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.statuses == nil {
		o.statuses = map[int]int{}
	}
	if err != nil {
		o.statuses[0]++
		return nil, err
	}
	o.statuses[resp.StatusCode]++
	if resp.StatusCode < http.StatusInternalServerError || resp.StatusCode == http.StatusBadGateway || r.URL.Path == "/readyz" {
		return resp, nil // or the load balancer's
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if problem := problemOf(resp, body); problem != "" && len(o.wrong) < 10 {
		o.wrong = append(o.wrong, wrongAnswer{
			resp.Header.Get("X-Request-Id"),
			fmt.Sprintf("%s %s: %s: %s: %s", r.Method, r.URL.Path, resp.Status, problem, body),
		})
	}
	return resp, nil
}

// count is how many answers had a status.
func (o *observer) count(status int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.statuses[status]
}

// failures is how many requests had no answer, or one of 5xx, and how many there were.
func (o *observer) failures() (failed, all int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for status, n := range o.statuses {
		all += n
		if status == 0 || status >= http.StatusInternalServerError {
			failed += n
		}
	}
	return failed, all
}

// problemOf returns what is wrong with a 5xx answer: it must have the contract's
// form, and say that the client can retry.
func problemOf(resp *http.Response, body []byte) string {
	var form struct {
		Error struct {
			Message string
			Status  int
		}
	}
	switch {
	case json.Unmarshal(body, &form) != nil || form.Error.Message == "" || form.Error.Status != resp.StatusCode:
		return "not the contract's form"
	case resp.StatusCode != http.StatusServiceUnavailable:
		return "not 503"
	}
	return ""
}
