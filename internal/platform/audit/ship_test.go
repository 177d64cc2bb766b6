package audit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	otlplogs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const exportPath = "/api/v1/audit/export?"

// exported returns the actions and ids of the lines of an export.
func exported(c *apptest.Caller, query string) (actions, ids []string) {
	c.T.Helper()
	a := c.Get(exportPath + query).Want(http.StatusOK)
	if got := a.Header.Get("Content-Type"); got != "application/x-ndjson" {
		c.T.Errorf("Content-Type %s", got)
	}
	for line := range strings.Lines(string(a.Body)) {
		var e apptest.Object
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.T.Fatalf("%v in %s", err, line)
		}
		actions, ids = append(actions, apptest.Text(e, "action")), append(ids, apptest.Text(e, "id"))
	}
	return actions, ids
}

func TestExport(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := apptest.NewWorld(t, db, apptest.Options{})
		log := &audit.Service{DB: db}
		log.SettleAfter(-time.Minute)
		log.Mount(w.API)
		owner := w.Org("acme")
		w.Exec("DELETE FROM audit_entries")
		const n = 1_100 // more than two pages
		ctx := access.With(t.Context(), ada())
		var want []string
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			want = want[:0]
			for i := range n {
				action := fmt.Sprintf("skills.skill.n%d", i)
				if i%100 == 0 {
					action = fmt.Sprintf("registry.entry.n%d", i)
				}
				want = append(want, action)
				if err := audit.Record(ctx, tx, audit.Entry{OrgID: owner.Org.ID, Action: action}); err != nil {
					return err
				}
			}
			return audit.Record(ctx, tx, audit.Entry{OrgID: "other", Action: "theirs.a.b"})
		})
		if err != nil {
			t.Fatal(err)
		}
		got, ids := exported(owner, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("export (-want +got):\n%s", diff)
		}
		// It resumes after the last line that arrived.
		if got, _ := exported(owner, "cursor="+ids[700]); len(got) != n-701 || got[0] != want[701] {
			t.Errorf("resumed with %d lines", len(got))
		}
		if got, _ := exported(owner, "cursor="+ids[n-1]); len(got) != 0 {
			t.Errorf("%d lines after the last", len(got))
		}
		for limit, want := range map[int]int{1: 1, 500: 500, 501: 501, 1_100: 1_100, 5_000: 1_100} {
			if got, _ := exported(owner, fmt.Sprint("limit=", limit)); len(got) != want {
				t.Errorf("%d lines with the limit %d, want %d", len(got), limit, want)
			}
		}
		if got, _ := exported(owner, "action=registry."); len(got) != 11 {
			t.Errorf("%d lines of an action", len(got))
		}
		if got, _ := exported(owner, "actor=ada@example.org&since=2020-01-01"); len(got) != n {
			t.Errorf("%d lines of an actor", len(got))
		}
		for _, query := range []string{"actor=eve", "until=2020-01-01", "since=2090-01-01"} {
			if got, _ := exported(owner, query); len(got) != 0 {
				t.Errorf("%s: %d lines", query, len(got))
			}
		}
		for _, query := range []string{"since=soon", "limit=-1", "cursor=x", "cursor=" + strings.Repeat("x", 37)} {
			owner.Get(exportPath + query).Want(http.StatusBadRequest)
		}
		stranger := w.Org("other")
		stranger.Get(exportPath + "cursor=" + ids[0]).Want(http.StatusBadRequest)
		w.Member(owner.Org, access.Member).Get(exportPath).Want(http.StatusForbidden)

		// What is young is left to the next export.
		log.SettleAfter(time.Hour)
		if got, _ := exported(owner, ""); len(got) != 0 {
			t.Errorf("%d young lines", len(got))
		}
	})
}

// A collector records the ids of log records, by the real schema of OTLP.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	fail   int // requests to refuse
	ids    []string
	header http.Header
	last   map[string]string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if c.fail > 0 {
			c.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var logs otlplogs.LogsData
		if err := protojson.Unmarshal(body, &logs); err != nil {
			t.Errorf("no OTLP: %v", err)
		}
		c.header = r.Header
		for _, record := range logs.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
			c.last = map[string]string{"body": record.GetBody().GetStringValue(), "time": fmt.Sprint(record.GetTimeUnixNano())}
			for _, a := range record.GetAttributes() {
				c.last[a.GetKey()] = a.GetValue().GetStringValue()
			}
			c.ids = append(c.ids, c.last["audit.id"])
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func TestShip(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := apptest.NewWorld(t, db, apptest.Options{})
		client, err := outbound.New(outbound.Options{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		c := newCollector(t)
		log := &audit.Service{DB: db, Jobs: w.Queue, Collector: &audit.Collector{
			URL: c.URL + "/v1/logs", Headers: map[string]string{"Authorization": "Bearer hunter2"}, HTTP: client, Version: "1.2.3",
		}}
		ship := func() {
			t.Helper()
			if err := log.Ship(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		write := func(n int, at time.Duration) {
			t.Helper()
			ctx := access.With(t.Context(), ada())
			err := db.InTx(t.Context(), func(tx *store.Tx) error {
				for range n {
					e := audit.Entry{OrgID: "org", Action: "a.b.c", Target: audit.Target{Kind: "entry", ID: "1", Name: "pdf"}, Detail: audit.Detail{"n": 7}}
					if err := audit.Record(ctx, tx, e); err != nil {
						return err
					}
				}
				_, err := tx.Exec(ctx, `UPDATE audit_entries SET at = at + $1, action = 'x.y.z' WHERE action = 'a.b.c'`, at.Microseconds())
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(1_200, -time.Hour)
		c.fail = 1
		if err := log.Ship(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a collector that refuses: %v", err)
		}
		ship()
		if len(c.ids) != 1_200 {
			t.Fatalf("%d entries were sent, want 1200", len(c.ids))
		}
		want := map[string]string{
			"body": "x.y.z", "time": c.last["time"], "audit.id": c.last["audit.id"], "audit.organisation.id": "org", "audit.action": "x.y.z",
			"audit.actor.kind": "key", "user.id": "ada", "user.email": "ada@example.org", "audit.key.id": "key", "audit.target.kind": "entry",
			"audit.target.id": "1", "audit.target.name": "pdf", "audit.via": "job", "audit.detail": `{"n":7}`,
		}
		if c.last["audit.via"] == "api" {
			want["audit.via"] = "api"
		}
		if diff := cmp.Diff(want, c.last); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if c.header.Get("Authorization") != "Bearer hunter2" {
			t.Error("the header is missing")
		}
		// New ones, and one that was committed late, are sent once each.
		write(3, 0)
		ship()
		write(1, -5*time.Minute)
		ship()
		ship()
		seen := map[string]bool{}
		for _, id := range c.ids {
			seen[id] = true
		}
		if len(c.ids) != 1_204 || len(seen) != 1_204 {
			t.Errorf("%d entries, %d different ones, want 1204", len(c.ids), len(seen))
		}
		if n := w.Count("audit_exported"); n != 4 {
			t.Errorf("%d ids are kept, want those of the overlap", n)
		}
	})
}
