package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestBackupAnswers saves a service that is being written to, restores it
// elsewhere, on the other database and in the other kind of bucket, and wants
// the same answer of every route for every role.
func TestBackupAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		from, to func(t *testing.T) []string
	}{
		{"to the cluster", embedded, cluster},
		{"from the cluster", cluster, embedded},
	} {
		if testing.Short() && c.name == "from the cluster" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from, to := c.from(t), c.to(t)
			keys, first := fillForBackup(t, from)
			// Without a worker nothing changes but what the test does.
			source := start(t, settings(t, append(from, "--roles", "web")...))
			source.FirstKey = first
			paths := source.findPaths(t, keys["owner"])
			want := source.answers(t, keys, paths)

			file := filepath.Join(t.TempDir(), "backup.tar.zst")
			busy := startWriters(t, source, keys["busy"])
			busy.waitFor(t, 20)
			before := busy.written()
			m, size, err := app.Backup(t.Context(), options(settings(t, from...), t.Output()), file, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			during := busy.stop(t)
			t.Logf("saved %d rows, %d blobs in %d bytes; %d writes acknowledged before, %d during", m.Rows(), m.Blobs.Files, size, len(before), len(during)-len(before))

			restored := startRestored(t, file, to)
			compareAnswers(t, want, restored.answers(t, keys, paths))
			restored.wantWrites(t, keys["busy"], before)
			if err := restored.stop(); err != nil {
				t.Fatal(err)
			}
			testDoctor(t, settings(t, to...))
		})
	}
}

func embedded(t *testing.T) []string {
	return []string{"--data", t.TempDir(), "--public-url", "https://w.example", "--secret-key", sealtest.Key(0)}
}

func cluster(t *testing.T) []string {
	return append(embedded(t), "--database-url", storetest.EmptyURL(t, "postgres"), "--blob-url", blobtest.S3(t).URL)
}

// fillForBackup makes the demo, a person of every role, and an organisation
// that will be busy. It returns keys by role.
func fillForBackup(t *testing.T, flags []string) (keys map[string]string, first string) {
	t.Helper()
	log := &apptest.Buffer{}
	a, err := app.New(t.Context(), options(settings(t, flags...), log))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.FillThinDemo(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	s := run(t, a, log)
	keys = map[string]string{"": ""}
	orgs, err := a.Auth().Orgs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range access.Roles() {
		keys[string(role)] = newKey(t, a, orgs[0].ID, role)
	}
	other, err := a.Auth().CreateOrg(t.Context(), "busy", access.Team)
	if err != nil {
		t.Fatal(err)
	}
	keys["busy"] = newKey(t, a, other.ID, access.Owner)
	s.wantDemoGate(t) // after which it starts no more runs
	s.wantDemoRuns(t)
	// A run that no worker ends has a stream of events that never ends.
	apptest.Eventually(t, "the end of all runs and jobs", func() bool { return idle(t, a) })
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	return keys, s.FirstKey
}

// idle tells whether no run is under way and no job is running or due.
func idle(t *testing.T, a *app.App) bool {
	t.Helper()
	counts, err := a.Jobs().Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Running > 0 || c.Late > 0 {
			return false
		}
	}
	rows, err := a.DB().Query(t.Context(), `
		SELECT id FROM eval_runs WHERE finished_at IS NULL UNION ALL SELECT id FROM improve_runs WHERE finished_at IS NULL`)
	open, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	return len(open) == 0
}

func newKey(t *testing.T, a *app.App, orgID string, role access.Role) string {
	t.Helper()
	u, err := a.Auth().CreateUser(t.Context(), auth.NewUser{OrgID: orgID, Email: string(role) + "@backup.example", Role: role})
	if err != nil {
		t.Fatal(err)
	}
	_, raw, err := a.Auth().CreateKey(t.Context(), auth.NewKey{OrgID: orgID, UserID: u.ID, Name: "backup"})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func startRestored(t *testing.T, file string, flags []string) *service {
	t.Helper()
	c := settings(t, append(flags, "--roles", "web")...)
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := app.Restore(t.Context(), app.RestoreOptions{Options: options(c, t.Output())}, r); err != nil {
		t.Fatal(err)
	}
	return start(t, c)
}

// answers asks every path with every key.
func (s *service) answers(t *testing.T, keys map[string]string, paths []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for role, key := range keys {
		if role == "busy" {
			continue
		}
		for _, path := range paths {
			status, body := s.get(t, path, key)
			if status == http.StatusTooManyRequests {
				t.Fatalf("GET %s: too many requests", path)
			}
			all[role+" GET "+path] = fmt.Sprint(status, " ", volatile.ReplaceAllString(body, `$1"..."`))
		}
	}
	return all
}

// volatile is what two askings never have in common: when they were, when the
// key was last used, the id of the request, and links that are signed; and the end
// of sessions, which is reported an hour after their last event.
var volatile = regexp.MustCompile(`("(?:ended_at|generated_at|last_used_at|last_seen_at|request_id|download_url|download_expires_at)":)(?:"[^"]*"|null)`)

func compareAnswers(t *testing.T, want, got map[string]string) {
	t.Helper()
	differ := 0
	for what, answer := range want {
		if got[what] != answer {
			if differ++; differ <= 5 {
				t.Errorf("%s\nbefore: %.600s\nafter:  %.600s", what, answer, got[what])
			}
		}
	}
	t.Logf("%d answers compared, %d differ", len(want), differ)
}

// findPaths makes paths of all routes that read, with ids that are there.
func (s *service) findPaths(t *testing.T, key string) []string {
	t.Helper()
	paths := []string{"/openapi.json", "/.well-known/agent-skills/index.json"}
	found := map[string]bool{} // words of answers, as candidates
	var open []string
	for _, r := range s.Routes() {
		// The export of the audit log leaves young entries out, so it changes by itself. The log changes
		// with what is asked: who reads the text of a session is recorded.
		changes := []string{"/api/v1/audit/export", "/api/v1/audit", "/api/v1/me/export"}
		if r.Method == http.MethodGet && !slices.Contains(changes, r.Path) {
			open = append(open, r.Path)
		}
	}
	slices.SortFunc(open, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	for _, template := range open {
		hits := 0
		for _, path := range candidates(template, paths, found) {
			status, body := s.get(t, path, key)
			if strings.Contains(template, "{") && status != http.StatusOK {
				continue
			}
			paths = append(paths, path)
			harvest(body, found)
			if hits++; hits == 4 {
				break
			}
		}
		if hits == 0 && !slices.Contains(unfilled, template) {
			t.Errorf("no example of GET %s", template)
		}
	}
	return paths
}

// unfilled are the routes of which the demo has no example.
var unfilled = []string{
	"/api/v1/push/{push_id}", "/api/v1/repohost/pull-requests/{id}", // need a code host
	"/api/v1/registry/{id}/versions/{version}/publisher", // needs a code host that vouches for a run
}

// candidates fills the last placeholder of a template with words, below paths
// that were good.
func candidates(template string, paths []string, found map[string]bool) (all []string) {
	template = strings.Replace(template, "{path...}", "SKILL.md", 1)
	at := strings.LastIndex(template, "{")
	if at < 0 {
		return []string{template}
	}
	_, tail, _ := strings.Cut(template[at:], "}")
	for _, head := range heads(strings.TrimSuffix(template[:at], "/"), paths) {
		// Names before ids, which begin with a digit.
		for _, word := range slices.Backward(slices.Sorted(maps.Keys(found))) {
			if template[at:] == "{n}" { // a trial, which is one of a case
				word = "1?case_id=" + word
			}
			all = append(all, head+"/"+word+tail)
		}
	}
	return all
}

// heads are a few paths that fit the beginning of a template, or what is above
// its last element.
func heads(beginning string, paths []string) (fit []string) {
	if !strings.Contains(beginning, "{") {
		return []string{beginning}
	}
	above, last := path.Split(beginning)
	whole := regexp.MustCompile("^" + placeholder.ReplaceAllString(beginning, "[^/]+") + "$")
	parent := regexp.MustCompile("^" + placeholder.ReplaceAllString(strings.TrimSuffix(above, "/"), "[^/]+") + "$")
	for _, p := range paths {
		switch {
		case whole.MatchString(p):
			fit = append(fit, p)
		case parent.MatchString(p):
			fit = append(fit, p+"/"+last)
		}
	}
	return fit[:min(len(fit), 3)]
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// harvest collects what may be a name in a path.
func harvest(body string, found map[string]bool) {
	for _, word := range regexp.MustCompile(`"(?:id|name|skill_name|session_id|version|path|snapshot_id|currentSnapshotId|push_id)": ?"([A-Za-z0-9._-]{3,60})"`).FindAllStringSubmatch(body, 60) {
		found[word[1]] = true
	}
}

// writers push sessions and publish skills until they are stopped, and
// remember what was acknowledged.
type writers struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	acked  []string // paths that must answer
	failed error
}

func startWriters(t *testing.T, s *service, key string) *writers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{cancel: cancel}
	c := client.New(client.Options{Server: s.url, APIKey: key})
	for i := range 2 {
		w.done.Go(func() { w.repeat(ctx, func(n int) (string, error) { return pushOne(ctx, c, i, n) }) })
	}
	w.done.Go(func() { w.repeat(ctx, func(n int) (string, error) { return publishOne(ctx, c, n) }) })
	t.Cleanup(func() { cancel(); w.done.Wait() })
	return w
}

func (w *writers) repeat(ctx context.Context, write func(n int) (string, error)) {
	for n := 0; ctx.Err() == nil; n++ {
		path, err := write(n)
		w.mu.Lock()
		if err == nil {
			w.acked = append(w.acked, path)
		} else if ctx.Err() == nil {
			w.failed = err
		}
		w.mu.Unlock()
	}
}

func pushOne(ctx context.Context, c *client.Client, who, n int) (string, error) {
	id := uuid.NewString()
	_, err := c.Push(ctx, fmt.Appendf(nil, `{"schema_version":"2.0","push_id":%q,"canonical":{"skill_invocations":[{
		"skill_invocation_id":"%d-%d","session_id":"s%d","occurred_at":%q,"skill_name":"pdf","invocation_mode":"implicit","triggered":true,"confidence":0.9}]}}`,
		id, who, n, n, time.Now().UTC().Format(time.RFC3339)))
	return "/api/v1/push/" + id, err
}

func publishOne(ctx context.Context, c *client.Client, n int) (string, error) {
	name := fmt.Sprintf("busy-%d", n)
	packed, err := packSkill(name)
	if err != nil {
		return "", err
	}
	p, err := c.CreateEntry(ctx, client.Upload{Name: name, Version: "1.0.0", Archive: bytes.NewReader(packed), Size: int64(len(packed))})
	return "/api/v1/registry/" + p.Entry.ID + "/versions/1.0.0/files/SKILL.md", err
}

func packSkill(name string) ([]byte, error) {
	text := "---\nname: " + name + "\ndescription: Busy.\n---\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "SKILL.md", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	err = errors.Join(err, w.Close(), z.Close())
	return b.Bytes(), err
}

func (w *writers) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acked)
}

func (w *writers) waitFor(t *testing.T, n int) {
	t.Helper()
	apptest.Eventually(t, "acknowledged writes", func() bool { return len(w.written()) >= n })
}

func (w *writers) stop(t *testing.T) []string {
	t.Helper()
	w.cancel()
	w.done.Wait()
	if w.failed != nil {
		t.Errorf("a writer failed: %v", w.failed)
	}
	return w.written()
}

// wantWrites wants all that was acknowledged before the backup began.
func (s *service) wantWrites(t *testing.T, key string, paths []string) {
	t.Helper()
	for _, path := range paths {
		if status, body := s.get(t, path, key); status != http.StatusOK {
			t.Errorf("an acknowledged write is lost: GET %s: %d %s", path, status, body)
		}
	}
	var list struct{ Skills []json.RawMessage }
	if status, body := s.get(t, "/v1/skills", key); status != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
		t.Errorf("GET /v1/skills: %d %s", status, body)
	}
}
