package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// replicas is two web processes and a worker, as in the compose file, on
// PostgreSQL and S3.
type replicas struct {
	*site
	a, b, worker *servertest.Server
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	s := newSite(t, plan{Database: databaseURL(t, "postgres"), S3: servertest.StartS3(t)})
	// All start at once on an empty database, which one of them fills.
	r := &replicas{site: s}
	var wg sync.WaitGroup
	for _, p := range []struct {
		server **servertest.Server
		role   string
	}{{&r.a, "web"}, {&r.b, "web"}, {&r.worker, "worker"}} {
		wg.Go(func() {
			var err error
			if *p.server, err = s.tryStart("--roles", p.role); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	s.balancer.Remove(r.worker)
	return r
}

// TestReplicas checks that it does not matter which process gets a request.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	for name, test := range map[string]func(*testing.T, *replicas){
		"sign-in": signInElsewhere, "device login": deviceLoginElsewhere, "run": runElsewhere, "sync": syncElsewhere,
		"revoked key": revokedElsewhere, "removed member": removedElsewhere, "rate limit": rateLimitTogether,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

// A browser keeps its cookie and sends it to every process.
type browser struct{ http.Client }

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Cookies belong to a host, not to a port, so all processes get them.
	return &browser{http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// visit returns the status and the text of a page; a form makes it a POST.
func (b *browser) visit(t *testing.T, page string, form url.Values) (int, string) {
	t.Helper()
	var resp *http.Response
	var err error
	if form == nil {
		resp, err = b.Get(page)
	} else {
		resp, err = b.PostForm(page, form)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// signInElsewhere signs in at one process and out at the other: browser sessions
// are in the database, so a sign-out holds everywhere at once.
func signInElsewhere(t *testing.T, r *replicas) {
	b := newBrowser(t)
	if status, text := b.visit(t, r.a.URL+"/login", url.Values{"api_key": {firstKey}}); status != http.StatusSeeOther {
		t.Fatalf("sign-in: %d\n%s", status, text)
	}
	for range 2 {
		for _, server := range []*servertest.Server{r.a, r.b} {
			if status, _ := b.visit(t, server.URL+"/skills", nil); status != http.StatusOK {
				t.Errorf("a page after the sign-in: %d", status)
			}
		}
	}
	b.visit(t, r.b.URL+"/logout", url.Values{})
	if status, _ := b.visit(t, r.a.URL+"/skills", nil); status == http.StatusOK {
		t.Error("signed out on one process, still in on the other")
	}
}

// deviceLoginElsewhere starts a device login at one process and approves it at the
// other.
func deviceLoginElsewhere(t *testing.T, r *replicas) {
	login, err := r.clientOf(r.a.URL, "").StartDeviceLogin(t.Context(), "replicas", "")
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t)
	b.visit(t, r.b.URL+"/login", url.Values{"api_key": {firstKey}})
	form := url.Values{"code": {login.UserCode}, "answer": {"approve"}}
	if status, text := b.visit(t, r.b.URL+"/device", form); status != http.StatusSeeOther {
		t.Fatalf("approval: %d\n%s", status, text)
	}
	poll, err := r.clientOf(r.a.URL, "").PollDeviceLogin(t.Context(), login.DeviceCode)
	if err != nil || poll.Status != client.DeviceApproved {
		t.Fatalf("poll: %+v, %v", poll, err)
	}
	if _, err := r.clientOf(r.b.URL, poll.APIKey).Me(t.Context()); err != nil {
		t.Errorf("the new key elsewhere: %v", err)
	}
}

// runElsewhere follows a run at processes that run no jobs.
func runElsewhere(t *testing.T, r *replicas) {
	w := &runs{}
	if err := w.prepare(t.Context(), r.site); err != nil {
		t.Fatal(err)
	}
	started, err := r.clientOf(r.a.URL, firstKey).StartEvalRun(t.Context(), w.suite, api.NewEvalRun{
		Subject: api.EvalSubject{SourceID: w.source}, Trials: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	var cases atomic.Int32
	run, err := r.clientOf(r.b.URL, firstKey).WatchEvalRun(t.Context(), started.ID, func(e client.EvalEvent) {
		if e.Case != nil {
			cases.Add(1)
		}
	})
	if err != nil || run.Status != "succeeded" {
		t.Fatalf("the run is %+v, %v", run, err)
	}
	if cases.Load() != casesARun {
		t.Errorf("%d cases were told of, want %d", cases.Load(), casesARun)
	}
}

// syncElsewhere publishes at one process and syncs at the other at once: a cached
// answer must never be older than the answer to the publisher.
func syncElsewhere(t *testing.T, r *replicas) {
	w := &versions{}
	if err := w.prepare(t.Context(), r.site); err != nil {
		t.Fatal(err)
	}
	servers := []*servertest.Server{r.a, r.b}
	item := []client.SyncItem{{EntryID: w.entry, CurrentVersionHash: w.hashes["0.0.0"]}}
	for n := 1; n <= 30; n++ {
		archive, err := skillArchive(t.Context(), "published", n)
		if err != nil {
			t.Fatal(err)
		}
		version := fmt.Sprintf("0.0.%d", n)
		here, there := r.clientOf(servers[n%2].URL, firstKey), r.clientOf(servers[(n+1)%2].URL, firstKey)
		upload := client.Upload{Version: version, Archive: bytes.NewReader(archive), Size: int64(len(archive))}
		if _, err := here.PushVersion(t.Context(), w.entry, upload); err != nil {
			t.Fatal(err)
		}
		got, err := there.Sync(t.Context(), item)
		if err != nil || len(got) != 1 || got[0].LatestVersion != version {
			t.Fatalf("right after the push of %s another process says %+v, %v", version, got, err)
		}
		// A signed link of one process is valid at the others.
		if _, err := here.Download(t.Context(), got[0].DownloadURL, client.Wanted{ContentHash: hashOf(archive)}); err != nil {
			t.Fatal(err)
		}
	}
}

// revokedElsewhere checks that a revoked key is refused everywhere within five
// seconds.
func revokedElsewhere(t *testing.T, r *replicas) {
	got, err := r.ask(t.Context(), http.MethodPost, r.a.URL+"/api/v1/keys", object{"name": "to be revoked"})
	if err != nil || got.status != http.StatusCreated {
		t.Fatalf("%d %s, %v", got.status, got.body, err)
	}
	var key struct {
		Key    struct{ ID string } `json:"key"`
		APIKey string              `json:"api_key"`
	}
	if err := json.Unmarshal(got.body, &key); err != nil {
		t.Fatal(err)
	}
	if _, err := r.clientOf(r.b.URL, key.APIKey).Me(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err = r.ask(t.Context(), http.MethodDelete, r.a.URL+"/api/v1/keys/"+key.Key.ID, nil)
	if err != nil || got.status != http.StatusNoContent {
		t.Fatalf("%d %s, %v", got.status, got.body, err)
	}
	within(t, "a revoked key is refused elsewhere", func() bool {
		_, err := r.clientOf(r.b.URL, key.APIKey).Me(t.Context())
		return client.Status(err) == http.StatusUnauthorized
	})
	if _, err := r.clientOf(r.a.URL, key.APIKey).Me(t.Context()); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("a revoked key where it was revoked: %v", err)
	}
}

// within waits five seconds at most, which is promised to people.
func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for from := time.Now(); ; pause(t, 50*time.Millisecond) {
		late := time.Since(from) > 5*time.Second // before it is asked, which may take long
		if done() {
			return
		}
		if late {
			t.Fatalf("not after five seconds: %s", what)
		}
	}
}

// removedElsewhere checks that somebody who is removed at one process can use neither
// their key nor their browser at the other.
func removedElsewhere(t *testing.T, r *replicas) {
	send := func(method, path string, body any, status int, into any) {
		t.Helper()
		got, err := r.ask(t.Context(), method, r.a.URL+path, body)
		if err == nil && got.status == status && into != nil {
			err = json.Unmarshal(got.body, into)
		}
		if err != nil || got.status != status {
			t.Fatalf("%s %s: %d %s, %v", method, path, got.status, got.body, err)
		}
	}
	var invitation struct{ Token string }
	send(http.MethodPost, "/api/v1/invitations", object{"role": "member", "email": "eve@example.org"}, http.StatusCreated, &invitation)
	var joined struct {
		Member struct {
			UserID string `json:"user_id"`
		}
		APIKey string `json:"api_key"`
	}
	send(http.MethodPost, "/api/v1/invitations/accept", object{"token": invitation.Token, "name": "Eve"}, http.StatusCreated, &joined)
	b, elsewhere := newBrowser(t), r.clientOf(r.b.URL, joined.APIKey)
	if status, text := b.visit(t, r.b.URL+"/login", url.Values{"api_key": {joined.APIKey}}); status != http.StatusSeeOther {
		t.Fatalf("sign-in: %d\n%s", status, text)
	}
	if _, err := elsewhere.Me(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.visit(t, r.b.URL+"/", nil); status != http.StatusOK {
		t.Fatalf("Home: %d", status)
	}
	send(http.MethodDelete, "/api/v1/members/"+joined.Member.UserID, nil, http.StatusNoContent, nil)
	within(t, "the key of somebody who was removed is refused elsewhere", func() bool {
		_, err := elsewhere.Me(t.Context())
		return client.Status(err) == http.StatusUnauthorized
	})
	within(t, "their browser has to sign in elsewhere", func() bool {
		status, _ := b.visit(t, r.b.URL+"/", nil)
		return status == http.StatusSeeOther
	})
}

// rateLimitTogether uses up an hour's rate limit at two processes at once.
func rateLimitTogether(t *testing.T, r *replicas) {
	const limit, more = 300, 40
	for try := 0; ; try++ {
		hour := time.Now().Truncate(time.Hour)
		taken, refused := r.spend(t, fmt.Sprintf("limited-%d", try), limit+more)
		if hour != time.Now().Truncate(time.Hour) {
			continue // another hour began meanwhile
		}
		if taken != limit || refused != more {
			t.Errorf("%d requests were taken and %d refused, want %d and %d", taken, refused, limit, more)
		}
		return
	}
}

// spend sends signals of a new organisation through the load balancer.
func (r *replicas) spend(t *testing.T, org string, requests int) (taken, refused int64) {
	t.Helper()
	if _, err := r.run("org", "create", org); err != nil {
		t.Fatal(err)
	}
	out, err := r.run("key", "create", "--org", org, "--json")
	if err != nil {
		t.Fatal(err)
	}
	var key struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &key); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var next, ok, limited atomic.Int64
	for range 8 {
		wg.Go(func() {
			c := r.client(key.APIKey)
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				_, err := c.SendSignals(context.Background(), []client.Signal{
					{SkillName: "s", SignalType: "missed_trigger", Confidence: 1, SourceKey: fmt.Sprint(n)},
				})
				switch {
				case err == nil:
					ok.Add(1)
				case client.Status(err) == http.StatusTooManyRequests:
					limited.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return ok.Load(), limited.Load()
}
