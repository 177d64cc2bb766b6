package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// period is so long that no test sees two of them.
const period = 100 * 365 * 24 * time.Hour

func limited(requests int, by httpapi.Subject) func(*httpapi.API) {
	return func(a *httpapi.API) {
		limit := &httpapi.Limit{Requests: requests, Per: period, By: by}
		httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/limited/{id}", Public: by == httpapi.ByAddress, Limit: limit})
		httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/apart/{id}", Public: by == httpapi.ByAddress, Limit: limit})
	}
}

// limitedInTx is limited with a handler that counts requests in its transaction, unless
// they are for the id "same", counts them as three for "three", and rolls it back for "none".
func limitedInTx(db *store.DB, requests int) func(*httpapi.API) {
	handle := func(ctx context.Context, in idInput) (out findOutput, err error) {
		err = db.InTx(ctx, func(tx *store.Tx) error {
			all := map[string]int{"same": 0, "three": 3}
			n, ok := all[in.ID]
			if !ok {
				n = 1
			}
			if err := httpapi.CountInTx(ctx, tx, slices.Repeat([]context.Context{ctx}, n)...); err != nil {
				return err
			}
			out, err = find(ctx, in)
			return err
		})
		return out, err
	}
	return func(a *httpapi.API) {
		limit := &httpapi.Limit{Requests: requests, Per: period, By: httpapi.ByOrg, InTx: true}
		httpapi.Add(a, handle, httpapi.Route{Method: "GET", Path: "/limited/{id}", Limit: limit})
	}
}

// TestLimitIsExact sends more requests than allowed, at once and to two
// servers on one database.
func TestLimitIsExact(t *testing.T) {
	const allowed = 25
	storetest.Each(t, func(t *testing.T, db *store.DB) { sendTooMany(t, db, allowed, limited(allowed, httpapi.ByOrg)) })
}

func TestLimitInTxIsExact(t *testing.T) {
	const allowed = 25
	storetest.Each(t, func(t *testing.T, db *store.DB) { sendTooMany(t, db, allowed, limitedInTx(db, allowed)) })
}

func sendTooMany(t *testing.T, db *store.DB, allowed int64, routes func(*httpapi.API)) {
	const sent = 60
	frames := []*frame{newFrame(t, db, routes), newFrame(t, db, routes)}
	var passed, refused atomic.Int64
	var wait sync.WaitGroup
	for i := range sent {
		wait.Go(func() {
			switch a := frames[i%2].do(t, "GET", "/limited/1", ""); a.Status {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
	wait.Wait()
	if passed.Load() != allowed || refused.Load() != sent-allowed {
		t.Errorf("%d passed and %d were refused; want %d and %d", passed.Load(), refused.Load(), allowed, sent-allowed)
	}
}

// TestLimitInTx: every request counts once, whether its handler counts it, does not, or
// rolls back.
func TestLimitInTx(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		one, two := newFrame(t, db, limitedInTx(db, 20)), newFrame(t, db, limitedInTx(db, 20))
		ids := []struct {
			id     string
			status int
		}{{"1", 200}, {"none", 404}, {"same", 200}, {"too-long", 400}}
		for n := range 20 {
			f := []*frame{one, two}[n/4%2]
			a := f.do(t, "GET", "/limited/"+ids[n%4].id, "")
			if a.Status != ids[n%4].status {
				t.Errorf("%s: status %d", ids[n%4].id, a.Status)
			}
			a.WantHeader("RateLimit-Limit", "20")
			a.WantHeader("RateLimit-Remaining", strconv.Itoa(19-n))
		}
		for n := range 8 {
			a := two.do(t, "GET", "/limited/"+ids[n%4].id, "")
			reset := a.Header.Get("RateLimit-Reset")
			a.WantHeader("Retry-After", reset)
			a.WantError(429, fmt.Sprintf("Rate limit of 20 requests per 876000h0m0s reached; try again in %s s", reset))
		}
	})
}

// TestLimitInTxOfOthers: another process has used up the limit, of which this one knows
// nothing yet.
func TestLimitInTxOfOthers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		one, two := newFrame(t, db, limitedInTx(db, 20)), newFrame(t, db, limitedInTx(db, 20))
		two.do(t, "GET", "/limited/1", "")
		for range 19 {
			one.do(t, "GET", "/limited/1", "").WantHeader("RateLimit-Limit", "20")
		}
		for range 3 {
			a := two.do(t, "GET", "/limited/1", "")
			a.WantHeader("RateLimit-Remaining", "0")
			a.WantHeader("Retry-After", a.Header.Get("RateLimit-Reset"))
			a.WantError(429, fmt.Sprintf("Rate limit of 20 requests per 876000h0m0s reached; try again in %s s", a.Header.Get("RateLimit-Reset")))
		}
	})
}

// TestLimitInTxRolledBack: requests of one transaction that are over the limit together
// use up nothing but what they count alone.
func TestLimitInTxRolledBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		one, two := newFrame(t, db, limitedInTx(db, 20)), newFrame(t, db, limitedInTx(db, 20))
		two.do(t, "GET", "/limited/1", "")
		for range 17 {
			one.do(t, "GET", "/limited/1", "")
		}
		for _, step := range []struct {
			id, left string
			status   int
		}{{"three", "1", 429}, {"1", "0", 200}, {"1", "0", 429}} {
			a := two.do(t, "GET", "/limited/"+step.id, "")
			if a.Status != step.status {
				t.Errorf("%s: status %d, want %d", step.id, a.Status, step.status)
			}
			a.WantHeader("RateLimit-Remaining", step.left)
		}
	})
}

func TestLimitHeaders(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, limited(2, httpapi.ByKey))
		for _, c := range []struct {
			id        string
			status    int
			remaining string
		}{
			{"1", 200, "1"}, {"none", 404, "0"}, {"1", 429, "0"}, {"1", 429, "0"},
		} {
			a := f.do(t, "GET", "/limited/"+c.id, "")
			if a.Status != c.status {
				t.Errorf("status %d, want %d", a.Status, c.status)
			}
			a.WantHeader("RateLimit-Limit", "2")
			a.WantHeader("RateLimit-Remaining", c.remaining)
			reset := a.Header.Get("RateLimit-Reset")
			if n, err := strconv.ParseInt(reset, 10, 64); err != nil || n < 1 || n > int64(period.Seconds()) {
				t.Errorf("RateLimit-Reset: %q", reset)
			}
			if c.status == http.StatusTooManyRequests {
				a.WantHeader("Retry-After", reset)
				a.WantError(429, fmt.Sprintf("Rate limit of 2 requests per 876000h0m0s reached; try again in %s s", reset))
			}
		}
	})
}

// TestLimitSubjects uses up a limit of one request and looks who else may go on.
func TestLimitSubjects(t *testing.T) {
	for _, c := range []struct {
		name      string
		by        httpapi.Subject
		colleague int // another key of the same organisation
		stranger  int // a key of another one
	}{
		{"by organisation", httpapi.ByOrg, 429, 200},
		{"by key", httpapi.ByKey, 200, 200},
		{"by address", httpapi.ByAddress, 429, 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				f := newFrame(t, db, limited(1, c.by))
				for _, step := range []struct {
					path, key string
					status    int
				}{
					{"/limited/1", "owner", 200},
					{"/limited/2", "owner", 429},
					{"/limited/1", "member", c.colleague},
					{"/limited/1", "small-viewer", c.stranger},
					{"/apart/1", "owner", 200},
				} {
					if a := f.do(t, "GET", step.path, "", "Authorization: Bearer "+step.key); a.Status != step.status {
						t.Errorf("%s by %s: status %d, want %d", step.path, step.key, a.Status, step.status)
					}
				}
			})
		})
	}
}

// TestLimitComesAfterTheKey and before validation: nobody may use up the
// limit of others, and bad requests count.
func TestLimitComesAfterTheKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, limited(1, httpapi.ByOrg))
		f.do(t, "GET", "/limited/1", "", "Authorization: Bearer stranger").WantError(401, "Unknown API key")
		f.do(t, "GET", "/limited/too-long", "").WantIssues("id", "id: expected length <= 5")
		if a := f.do(t, "GET", "/limited/too-long", ""); a.Status != 429 {
			t.Errorf("status %d, want 429", a.Status)
		}
	})
}

func TestSweep(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, func(a *httpapi.API) {
			limited(1, httpapi.ByOrg)(a)
			httpapi.Add(a, find, httpapi.Route{Method: "GET", Path: "/brief/{id}", Limit: &httpapi.Limit{Requests: 1, Per: time.Nanosecond}})
		})
		f.do(t, "GET", "/limited/1", "")
		f.do(t, "GET", "/brief/1", "").WantJSON(200, `{"id":"1","org":"acme"}`)
		if err := f.API.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := db.Query(t.Context(), `SELECT subject FROM rate_windows`)
		left, err := store.All(rows, err, store.Value[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0] != "GET /limited/{id} acme" {
			t.Errorf("left are %q, want the period that is now", left)
		}
	})
}

// TestLimitThatCannotBeCounted must refuse rather than let everybody through.
func TestLimitThatCannotBeCounted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, limited(1, httpapi.ByOrg))
		if _, err := db.Exec(t.Context(), `DROP TABLE rate_windows`); err != nil {
			t.Fatal(err)
		}
		f.do(t, "GET", "/limited/1", "", harmlessID).WantError(500, "Internal error; request proxy-7_A")
	})
}

// TestFullWindowIsNotCounted: a subject over its limit costs no transaction.
func TestFullWindowIsNotCounted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		f := newFrame(t, db, limited(2, httpapi.ByOrg))
		for range 10 {
			f.do(t, "GET", "/limited/1", "")
		}
		rows, err := db.Query(t.Context(), `SELECT requests FROM rate_windows`)
		counted, err := store.One(rows, err, "Rate window", store.Value[int])
		if err != nil || counted != 3 {
			t.Errorf("%d requests were counted, %v; want 3", counted, err)
		}
	})
}
