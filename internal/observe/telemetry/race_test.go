package telemetry_test

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// crash pushes and fails between the raw body and the transaction.
func (w *world) crash(c *client, pushID string, canonical object) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.T.Context())
	defer cancel()
	stop := func() { cancel() }
	w.bucket.afterPut.Store(&stop)
	defer w.bucket.afterPut.Store(nil)
	c.in(during{c.T, ctx}).push(pushID, canonical).Want(http.StatusServiceUnavailable)
}

// during is a test whose requests end with a context.
type during struct {
	apptest.T
	ctx context.Context
}

func (d during) Context() context.Context { return d.ctx }

// TestCrash: a push that failed can be retried, and then counts.
func TestCrash(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		id := uuid.NewString()
		w.crash(ada, id, invocations(check("1", nil)))
		ada.Get("/api/v1/push/" + id).Want(http.StatusNotFound)
		ada.Get("/v1/skills/pdf").Want(http.StatusNotFound)
		if n := len(w.BlobKeys()); n != 1 {
			t.Errorf("%d bodies, want 1: the body is kept first", n)
		}
		ada.push(id, invocations(check("1", nil))).Want(http.StatusCreated).WantBody(accepted(id, 1))
		ada.wantChecks(1)
		if n := len(w.BlobKeys()); n != 1 {
			t.Errorf("%d bodies, want 1", n)
		}
		if n := w.Count("telemetry_pushes WHERE blob_key = $1", w.BlobKeys()[0]); n != 1 {
			t.Error("the push does not know its body")
		}
	})
}

// TestPushersAtOnce lets eight pushers send overlapping records of the same
// skills at the same time, also under aliases. Reports of one field agree, so that
// the order does not matter.
func TestPushersAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		now := time.Now().UTC().Truncate(time.Millisecond)
		m := newModel()
		var wg sync.WaitGroup
		for n := range 8 {
			by := []*client{ada, bob}[n%2]
			var pushes []object
			for round := range 6 {
				pushes = append(pushes, overlapping(m, by, now, n*round))
			}
			wg.Go(func() {
				for _, p := range pushes {
					if a := by.push(uuid.NewString(), p); a.Status != http.StatusCreated {
						t.Errorf("%d %s", a.Status, a.Body)
					}
				}
			})
		}
		wg.Wait()
		for _, name := range []string{"skill 0", "skill 1", "skill 2", "final"} {
			got := ada.Get("/v1/skills/" + strings.ReplaceAll(name, " ", "%20")).Want(http.StatusOK).Object()
			delete(got["skill"].(object), "skill_id")
			want := m.detail(skillKey{ada.Org.ID, name}, dayOf(time.Now()), 30)
			if diff := cmp.Diff(apptest.Plain(t, want), any(got), nearly()...); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if log := w.Logged.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
			t.Errorf("the log has troubles:\n%s", log)
		}
	})
}

// overlapping returns a push whose records others report, too, and adds the merged
// records to the model.
func overlapping(m *model, by *client, now time.Time, seed int) object {
	var records, gradings []object
	for i := range 12 {
		k := (seed + i) % 15
		at := now.Add(-time.Duration(k) * 24 * time.Hour / 2)
		r := invocation{
			skill: skillKey{by.Org.ID, fmt.Sprint("skill ", k%3)}, user: by.User.ID, session: fmt.Sprint("s", k%4),
			at: at, said: now, triggered: k%2 == 0,
		}
		if seed%3 == 0 { // this one was made later: it renames some, and knows a confidence
			r.said = now.Add(time.Minute)
			r.confidence = p(0.25)
			if k%5 == 0 {
				r.skill.name = "final"
			}
		}
		record := check(fmt.Sprint(k), object{
			"skill_name": r.skill.name, "session_id": r.session, "occurred_at": stamp(at), "triggered": r.triggered,
			"confidence": r.confidence, "normalized_at": stamp(r.said), "tool_call_id": fmt.Sprint(k % 2),
		})
		records = append(records, record)
		m.invoked(fmt.Sprint(k), r)
		gradings = append(gradings, object{
			"grading_id": fmt.Sprint(k), "session_id": r.session, "skill_name": "skill 1",
			"graded_at": stamp(at), "pass_rate": float64(k%2) / 2,
		})
		m.graded(fmt.Sprint(k), grading{
			skill: skillKey{by.Org.ID, "skill 1"}, user: by.User.ID, session: r.session, at: at, rate: big.NewRat(int64(k%2), 2),
		})
	}
	return object{
		"skill_invocations": records, "grading_results": gradings,
		"sessions": []any{object{"session_id": fmt.Sprint("s", seed%4), fmt.Sprint("from ", seed): true}},
	}
}

// TestSamePushAtOnce: of several requests with the same push_id one is applied.
func TestSamePushAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		for round := range 5 {
			id, records := uuid.NewString(), invocations(check(fmt.Sprint(round), nil))
			var wg sync.WaitGroup
			answers := make([]apptest.Response, 6)
			for i := range answers {
				wg.Go(func() { answers[i] = ada.push(id, records) })
			}
			wg.Wait()
			made := 0
			for _, a := range answers {
				if a.Status == http.StatusCreated {
					made++
					a.WantBody(accepted(id, 1))
					continue
				}
				a.Want(http.StatusOK).WantBody(duplicate(id))
			}
			if made != 1 {
				t.Errorf("%d were new", made)
			}
			ada.wantChecks(round + 1)
		}
	})
}

// TestRecordsAtOnce: concurrent reports of one record are all merged.
func TestRecordsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		for round := range 4 {
			want := object{"session_id": fmt.Sprint(round)}
			var wg sync.WaitGroup
			for i := range 8 {
				key := fmt.Sprint("field ", i)
				want[key] = i
				wg.Go(func() {
					ada.push(uuid.NewString(), object{"sessions": []any{object{"session_id": fmt.Sprint(round), key: i}}}).
						Want(http.StatusCreated)
				})
			}
			wg.Wait()
			for _, got := range ada.records("session") {
				if got["session_id"] != fmt.Sprint(round) {
					continue
				}
				if diff := cmp.Diff(apptest.Plain(t, want), any(got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		}
	})
}
