package telemetry_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestLargePush: a push of several parts counts as a whole, and once.
func TestLargePush(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		const count = telemetry.MaxPart + 1
		checks, requests := make([]object, count), make([]object, count)
		at := stamp(time.Now())
		for i := range count {
			id := strconv.Itoa(i)
			checks[i] = check(id, object{"session_id": "s" + id, "occurred_at": at})
			requests[i] = object{
				"request_id": id, "session_id": "s" + id, "occurred_at": at, "skill_name": "pdf", "model": "m", "output_tokens": 1,
			}
		}
		for range 2 { // the second time as after a crash: under another id, some parts are there
			id := uuid.NewString()
			ada.push(id, object{"skill_invocations": checks, "model_requests": requests}).
				Want(http.StatusCreated).WantBody(accepted(id, 2*count))
			ada.wantChecks(count)
			for _, table := range []string{"cost_requests", "agent_sessions", "agent_session_events"} {
				if n := w.Count(table); n != count {
					t.Errorf("%d rows of %s, want %d", n, table, count)
				}
			}
		}
		if n := w.Count("telemetry_pushes"); n != 2 {
			t.Errorf("%d pushes, want 2", n)
		}
	})
}
