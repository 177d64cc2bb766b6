package audit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func record(ctx context.Context, t *testing.T, db *store.DB, e audit.Entry) {
	t.Helper()
	if err := db.InTx(ctx, func(tx *store.Tx) error { return audit.Record(ctx, tx, e) }); err != nil {
		t.Fatal(err)
	}
}

func ada() access.Caller {
	return access.Caller{OrgID: "org", UserID: "ada", KeyID: "key", Email: "ada@example.org"}
}

// TestRecord has a row for every kind of actor.
func TestRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		browser := audit.By(access.With(t.Context(), ada()), audit.Web)
		approved := access.With(t.Context(), access.Caller{UserID: "ada", Email: "ada@example.org"})
		for _, c := range []struct {
			name  string
			ctx   context.Context
			actor audit.Actor
			via   audit.Via
			who   string
		}{
			{"job", t.Context(), audit.System, audit.Job, ""},
			{"command", audit.By(t.Context(), audit.CLI), audit.Command, audit.CLI, ""},
			{"browser", browser, audit.User, audit.Web, "ada@example.org"},
			{"program", audit.By(access.With(t.Context(), ada()), audit.API), audit.Key, audit.API, "ada@example.org"},
			{"approved login", approved, audit.User, audit.Job, "ada@example.org"},
		} {
			record(c.ctx, t, db, audit.Entry{OrgID: c.name, Action: "a.b.c", Target: audit.Target{Kind: "k", ID: "1", Name: "one"}, Detail: audit.Detail{
				"kept": 1, "null": nil, "null pointer": (*string)(nil),
			}})
			got, more, err := (&audit.Service{DB: db}).List(t.Context(), c.name, audit.Filter{Limit: 10})
			if err != nil || more || len(got) != 1 {
				t.Fatalf("%s: %v, %t, %v", c.name, got, more, err)
			}
			e := got[0]
			if e.Actor != c.actor || e.Via != c.via || e.ActorName != c.who || e.Target.Name != "one" || time.Since(e.At) > time.Minute {
				t.Errorf("%s: recorded as %+v", c.name, e)
			}
			if diff := cmp.Diff(audit.Detail{"kept": float64(1)}, e.Detail); diff != "" {
				t.Errorf("%s: detail (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// TestRolledBackChangeLeavesNothing is why Record takes the transaction.
func TestRolledBackChangeLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		boom := errors.New("boom")
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			if err := audit.Record(t.Context(), tx, audit.Entry{OrgID: "org", Action: "a.b.c"}); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		if got, _, err := (&audit.Service{DB: db}).List(t.Context(), "org", audit.Filter{Limit: 10}); err != nil || len(got) > 0 {
			t.Errorf("it left %v, %v", got, err)
		}
		// An entry that cannot be written takes the change with it.
		err = db.InTx(t.Context(), func(tx *store.Tx) error {
			return audit.Record(t.Context(), tx, audit.Entry{OrgID: "org", Action: "a.b.c", Detail: audit.Detail{"bad": func() {}}})
		})
		if err == nil {
			t.Error("an entry without its detail was written")
		}
	})
}

// newOwner returns the owner of a new organisation without audit entries.
func newOwner(t *testing.T, db *store.DB) *apptest.Caller {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	(&audit.Service{DB: db}).Mount(w.API)
	owner := w.Org("acme")
	w.Exec("DELETE FROM audit_entries") // of the organisation, its user and their key
	return owner
}

const path = "/api/v1/audit?"

// list returns the actions of a page of entries.
func list(c *apptest.Caller, query string) (actions []string, next string) {
	c.T.Helper()
	page := c.Get(path + query).Want(http.StatusOK)
	for _, e := range page.List("entries") {
		actions = append(actions, apptest.Text(e, "action"))
	}
	return actions, apptest.Text(page.Object(), "next_cursor")
}

func TestList(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		owner := newOwner(t, db)
		org, start := owner.Org.ID, store.Now()
		ctx := access.With(t.Context(), ada())
		all := []string{
			"alerts.rule.disable", "registry.entry.delete", "auth.key.create", "registry.version.publish", "registry.entry.create",
		}
		for i := range 4 {
			target := audit.Target{Kind: "entry", ID: fmt.Sprint("id", i), Name: "deploy"}
			record(ctx, t, db, audit.Entry{OrgID: org, Action: all[4-i], Target: target})
		}
		record(t.Context(), t, db, audit.Entry{OrgID: org, Action: all[0], Target: audit.Target{ID: "id9"}})
		record(ctx, t, db, audit.Entry{OrgID: "other", Action: "theirs.a.b", Target: audit.Target{ID: "id0", Name: "deploy"}})
		at := func(d time.Duration) string { return url.QueryEscape(start.Add(d).Format(time.RFC3339Nano)) }
		for _, c := range []struct {
			query string
			want  []string
		}{
			{"", all},
			{"action=registry.", []string{all[1], all[3], all[4]}},
			{"action=registry.entry", []string{all[1], all[4]}},
			{"action=%25", nil},
			{"action=entry", nil},
			{"actor=ada", all[1:]},
			{"actor=key", all[1:]}, // the kind of actor, and the id of the key
			{"actor=ada%40example.org", all[1:]},
			{"actor=system", all[:1]},
			{"actor=eve", nil},
			{"target=id1", []string{all[3]}},
			{"target=deploy", all[1:]},
			{"target=deploy&action=auth", []string{all[2]}},
			{"since=" + at(-time.Hour), all},
			{"since=" + at(time.Hour), nil},
			{"until=" + at(time.Hour), all},
			{"until=" + at(-time.Hour), nil},
			{"since=2020-01-01&until=" + at(time.Hour), all},
			{"until=2020-01-01", nil},
		} {
			got, next := list(owner, c.query)
			if diff := cmp.Diff(c.want, got); diff != "" || next != "" {
				t.Errorf("%q: next %q (-want +got):\n%s", c.query, next, diff)
			}
		}
		var paged []string
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			var got []string
			got, next = list(owner, "limit=2&cursor="+next)
			if paged = append(paged, got...); len(got) > 2 || pages > 3 {
				t.Fatalf("page %d has %v", pages, got)
			}
		}
		if diff := cmp.Diff(all, paged); diff != "" {
			t.Errorf("in pages (-want +got):\n%s", diff)
		}
	})
}

func TestListRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		owner := newOwner(t, db)
		record(t.Context(), t, db, audit.Entry{OrgID: "other", Action: "a.b.c"})
		theirs, _, err := (&audit.Service{DB: db}).List(t.Context(), "other", audit.Filter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{
			"limit=0", "limit=201", "since=soon", "until=1.1.2026",
			"cursor=x", "cursor=" + theirs[0].ID, "cursor=" + strings.Repeat("x", 37),
		} {
			owner.Get(path + query).Want(http.StatusBadRequest)
		}
		owner.World.Member(owner.Org, access.Member).Get(path).WantError(http.StatusForbidden, "This needs the permission admin")
		_, _, err = (&audit.Service{DB: db}).List(t.Context(), "org", audit.Filter{Before: "none", Limit: 1})
		if !fault.Is(err, fault.Malformed) {
			t.Errorf("an unknown cursor: %v", err)
		}
	})
}
