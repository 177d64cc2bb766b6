package quota_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		text, want string // "" if it is refused
	}{
		{"free=5MiB", "free=5MiB,pro=20GiB,team=100GiB,enterprise=unlimited"},
		{"free=0, team=unlimited,enterprise=1TiB", "free=0,pro=20GiB,team=unlimited,enterprise=1TiB"},
		{"free=1536", "free=1536,pro=20GiB,team=100GiB,enterprise=unlimited"},
		{"", ""},
		{"free", ""},
		{"gold=1GiB", ""},
		{"free=-1", ""},
		{"free=1GB", ""},
		{"free=9000000000TiB", ""},
	} {
		var got quota.Limits
		err := got.UnmarshalText([]byte(c.text))
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("%q: %s, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[quota.Bytes]string{0: "0 bytes", 1023: "1023 bytes", 1 << 10: "1.0 KiB", 3 << 29: "1.5 GiB", 5 << 40: "5.0 TiB"} {
		if got := n.Short(); got != want {
			t.Errorf("%d is %q, want %q", int64(n), got, want)
		}
	}
}

// world is two organisations, of which the first is on the free plan.
type world struct {
	*quota.Service
	small, big string
}

func newWorld(t *testing.T, db *store.DB, limits quota.Limits) *world {
	t.Helper()
	people := &auth.Service{DB: db, Log: slog.New(slog.DiscardHandler)}
	w := &world{Service: &quota.Service{DB: db, Limits: limits}}
	for name, id := range map[string]*string{"small": &w.small, "big": &w.big} {
		plan := map[string]access.Plan{"small": access.Free, "big": access.Enterprise}[name]
		o, err := people.CreateOrg(t.Context(), name, plan)
		if err != nil {
			t.Fatal(err)
		}
		*id = o.ID
	}
	return w
}

func (w *world) add(t *testing.T, orgID string, kind quota.Kind, n int64) error {
	t.Helper()
	return w.DB.InTx(t.Context(), func(tx *store.Tx) error { return w.Add(t.Context(), tx, orgID, kind, n) })
}

func (w *world) wantUsage(t *testing.T, orgID string, want quota.Usage) {
	t.Helper()
	got, err := w.Usage(t.Context(), orgID)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, usage (-want +got):\n%s", err, diff)
	}
}

func TestAdd(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		limit := int64(1000)
		w := newWorld(t, db, quota.Limits{access.Free: limit})
		w.wantUsage(t, w.small, quota.Usage{Limit: &limit})
		for _, step := range []struct {
			kind    quota.Kind
			n, used int64
			refused bool
		}{
			{quota.Registry, 600, 600, false},
			{quota.Sources, 400, 1000, false},
			{quota.Sources, 1, 1000, true},
			{quota.Registry, -100, 900, false},
			{quota.Telemetry, 101, 900, true},
			{quota.Telemetry, 100, 1000, false},
		} {
			if room := w.Room(t.Context(), w.small, step.n); step.n > 0 && fault.Is(room, fault.TooLarge) != step.refused {
				t.Errorf("room for %d: %v, want refused %v", step.n, room, step.refused)
			}
			err := w.add(t, w.small, step.kind, step.n)
			if fault.Is(err, fault.TooLarge) != step.refused || err != nil && !step.refused {
				t.Errorf("add %d: %v, want refused %v", step.n, err, step.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "its plan allows 1000 bytes") {
				t.Errorf("%v does not name the limit", err)
			}
			w.wantUsage(t, w.small, quota.Usage{Used: step.used, Limit: &limit})
		}
		// A plan without a limit, and whoever asks nobody.
		if err := w.add(t, w.big, quota.Registry, 1<<50); err != nil {
			t.Error(err)
		}
		w.wantUsage(t, w.big, quota.Usage{Used: 1 << 50})
		var none *quota.Service
		err := db.InTx(t.Context(), func(tx *store.Tx) error { return none.Add(t.Context(), tx, w.small, quota.Evals, 5000) })
		if err != nil || none.Room(t.Context(), w.small, 1<<50) != nil {
			t.Errorf("without limits: %v", err)
		}
		w.wantUsage(t, w.small, quota.Usage{Used: 6000, Limit: &limit})
		used, err := w.Used(t.Context())
		if diff := cmp.Diff(map[string]int64{w.small: 6000, w.big: 1 << 50}, used); diff != "" || err != nil {
			t.Errorf("%v, used by all (-want +got):\n%s", err, diff)
		}
	})
}

// TestAddAtOnce has many who store something at the same time. All that passes
// fits.
func TestAddAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		limit := int64(1000)
		w := newWorld(t, db, quota.Limits{access.Free: limit})
		var wg sync.WaitGroup
		var mu sync.Mutex
		passed := 0
		for range 30 {
			wg.Go(func() {
				err := w.add(t, w.small, quota.Registry, 90)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					passed++
				} else if !fault.Is(err, fault.TooLarge) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if passed != 11 {
			t.Errorf("%d passed, want 11", passed)
		}
		w.wantUsage(t, w.small, quota.Usage{Used: 990, Limit: &limit})
	})
}

func TestRecount(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		w.Counts = []quota.Count{{Kind: quota.Registry, SQL: fmt.Sprintf(`SELECT id AS org_id, 70 AS bytes FROM organisations WHERE id = '%s'`, w.big)}}
		if err := w.add(t, w.small, quota.Registry, 5); err != nil {
			t.Fatal(err)
		}
		check := func() invariants.Finding {
			t.Helper()
			found, err := w.Check(t.Context(), db)
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			return found[0]
		}
		if f := check(); f.Status != invariants.Advice || !strings.Contains(f.Message, "kind registry were counted wrong: 2, such as big") {
			t.Errorf("got %+v, want two wrong counts", f)
		}
		if err := w.Recount(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := check(); f.Status != invariants.Good {
			t.Errorf("after the recount: %+v", f)
		}
		w.wantUsage(t, w.small, quota.Usage{})
		w.wantUsage(t, w.big, quota.Usage{Used: 70})
	})
}
