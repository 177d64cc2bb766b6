package signals_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func accepted(n, duplicates int) object {
	return object{"status": "accepted", "accepted": n, "duplicates": duplicates}
}

func TestIngest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		first := batch(signal("pdf", "missed_trigger", "k1", 0.5, ""), signal(" pdf ", "missed_trigger", "k2", 1, ""), signal("csv", "x", "k1", 0, ""))
		c.post(first).want(http.StatusOK).wantBody(accepted(2, 1))
		c.post(first).want(http.StatusOK).wantBody(accepted(0, 3))
		c.post(batch(signal("pdf", "missed_trigger", "k2", 0.5, ""), signal("pdf", "x", "k3", 0.5, ""))).want(http.StatusOK).
			wantBody(accepted(1, 1))
		w.org(t).post(first).want(http.StatusOK).wantBody(accepted(2, 1)) // source keys are per organisation
		session := sessionBody("pdf", "uc_sha256_0123456789ab", "2026-W07", object{"triggered": true})
		for range 2 { // identical bodies are two sessions
			c.post(session).want(http.StatusCreated).wantBody(object{"status": "accepted"})
		}
		if n := c.count("signals"); n != 5 {
			t.Errorf("%d signals are stored, want 5", n)
		}
	})
}

func TestIngestGzip(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org(t)
		raw, err := json.Marshal(batch(signal("pdf", "x", "k", 0.5, "")))
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		c.Do(http.MethodPost, path, packed.Bytes(), "Content-Encoding: gzip").Want(http.StatusOK).WantBody(accepted(1, 0))
		big := slices.Concat(raw, bytes.Repeat([]byte(" "), 8<<20))
		c.Post(path, big).WantError(http.StatusRequestEntityTooLarge, "The body is over the limit of 8 MiB")
	})
}

// TestIngestAtOnce sends the same batches concurrently.
func TestIngestAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		var wg sync.WaitGroup
		for sender := range 4 {
			wg.Go(func() {
				for n := range 6 {
					var signals []object
					for i := range 20 {
						signals = append(signals, signal("pdf", "x", fmt.Sprint("k", (n*10+i+sender*7)%70), 0.5, fmt.Sprint("cohort", i%4)))
					}
					c.post(batch(signals...)).want(http.StatusOK)
				}
			})
		}
		wg.Wait()
		o := c.get("/api/v1/creator-signals/overview").want(http.StatusOK).object()
		if got, want := o["total_signals"], float64(c.count("signals")); got != want || want != 70 {
			t.Errorf("%v signals are counted and %v stored, want 70", got, want)
		}
	})
}

func TestIngestRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		good := func() object { return signal("pdf", "missed_trigger", "k", 0.5, "") }
		with := func(field string, value any) object {
			o := good()
			if o[field] = value; value == nil {
				delete(o, field)
			}
			return batch(good(), o)
		}
		many := make([]object, 1001)
		for i := range many {
			many[i] = signal("pdf", "x", fmt.Sprint(i), 0.5, "")
		}
		says := func(field string, value any) object {
			return sessionBody("pdf", "uc", "2026-W07", object{field: value})
		}
		outside := func(field string, value any) object {
			o := sessionBody("pdf", "uc", "2026-W07", object{})
			if o[field] = value; value == nil {
				delete(o, field)
			}
			return o
		}
		const name = "skill_name must be a skill's own name of 1 to 200 bytes"
		for _, test := range []struct {
			name string
			body any
			want []string
		}{
			{"not JSON", `{"signals":`, []string{"", "the body is not valid JSON: unexpected end of JSON input"}},
			{"no object", `[]`, []string{"", "the body must be a JSON object"}},
			{"empty body", ``, []string{"signals", "signals is required"}},
			{"null", `{"signals":null}`, []string{"signals", "signals is required"}},
			{"text", `{"signals":"x"}`, []string{"signals", "signals must be an array of signals or the object of one session"}},
			{"0 signals", batch([]object{}...), []string{"signals", "signals must hold 1 to 1000 signals"}},
			{"1001 signals", batch(many...), []string{"signals", "signals must hold 1 to 1000 signals"}},
			{"no objects", `{"signals":[null,5]}`, []string{"signals.0", "signals.0 must be an object", "signals.1", "signals.1 must be an object"}},
			{"confidence 2", with("confidence", 2), []string{"signals.1.confidence", "confidence must be between 0 and 1"}},
			{"confidence below 0", with("confidence", -0.1), []string{"signals.1.confidence", "confidence must be between 0 and 1"}},
			{"confidence as text", with("confidence", "high"), []string{"signals.1.confidence", "confidence must be a number"}},
			{"no confidence", with("confidence", nil), []string{"signals.1.confidence", "confidence is required"}},
			{"no source_key", with("source_key", nil), []string{"signals.1.source_key", "source_key is required"}},
			{"empty source_key", with("source_key", ""), []string{"signals.1.source_key", "source_key must be 1 to 256 characters long"}},
			{"source_key as number", with("source_key", 5), []string{"signals.1.source_key", "source_key must be text"}},
			{"no skill_name", with("skill_name", nil), []string{"signals.1.skill_name", "skill_name is required"}},
			{"blank skill_name", with("skill_name", " "), []string{"signals.1.skill_name", name}},
			{"long skill_name", with("skill_name", strings.Repeat("x", 201)), []string{"signals.1.skill_name", name}},
			{"skill_name as list", with("skill_name", []int{}), []string{"signals.1.skill_name", "skill_name must be text"}},
			{"no signal_type", with("signal_type", nil), []string{"signals.1.signal_type", "signal_type is required"}},
			{"long signal_type", with("signal_type", strings.Repeat("x", 65)), []string{"signals.1.signal_type", "signal_type must be 1 to 64 characters long"}},
			{"signal_type as flag", with("signal_type", true), []string{"signals.1.signal_type", "signal_type must be text"}},
			{"empty user_cohort", with("user_cohort", ""), []string{"signals.1.user_cohort", "user_cohort must be 1 to 128 characters long"}},
			{"user_cohort of the body", object{"signals": []object{good()}, "user_cohort": 5}, []string{"user_cohort", "user_cohort must be text"}},
			{"several", batch(object{"skill_name": "pdf", "confidence": 3}), []string{
				"signals.0.signal_type", "signal_type is required", "signals.0.source_key", "source_key is required",
				"signals.0.confidence", "confidence must be between 0 and 1",
			}},

			{"session without a skill", outside("skill_name", nil), []string{"skill_name", "skill_name is required"}},
			{"session with a list as skill", outside("skill_name", []int{}), []string{"skill_name", "skill_name must be text"}},
			{"session without a type", outside("signal_type", nil), []string{"signal_type", "signal_type is required"}},
			{"session of another version", outside("version", 2), []string{"version", "version must be 1"}},
			{"session with a bad creator", outside("relay_destination", "me"), []string{"relay_destination", "relay_destination must be a UUID"}},
			{"session with a bad cohort", outside("user_cohort", 5), []string{"user_cohort", "user_cohort must be text"}},
			{"session with a bad week", outside("timestamp_bucket", "2026-W54"), []string{"timestamp_bucket", "timestamp_bucket must be an ISO week like 2026-W07"}},
			{"session in the future", outside("timestamp_bucket", "2999-W01"), []string{"timestamp_bucket", "timestamp_bucket must not be in the future"}},
			{"session with a bad client", outside("client_version", false), []string{"client_version", "client_version must be text"}},
			{"session with triggered as text", says("triggered", "yes"), []string{"signals.triggered", "triggered must be true or false"}},
			{"session with miss_detected as number", says("miss_detected", 1), []string{"signals.miss_detected", "miss_detected must be true or false"}},
			{"session with a bad invocation", says("invocation_type", "magic"), []string{"signals.invocation_type", "invocation_type must be one of explicit, implicit, contextual, missed"}},
			{"session with a bad grade", says("execution_grade", "D"), []string{"signals.execution_grade", "execution_grade must be one of A, B, C, F"}},
			{"session with a bad query bucket", says("query_bucket", "gossip"), []string{
				"signals.query_bucket",
				"query_bucket must be one of comparison, troubleshooting, migration, configuration, analysis, search, generation, testing, refactoring, documentation, other",
			}},
		} {
			t.Run(test.name, func(t *testing.T) { c.in(t).post(test.body).WantIssues(test.want...) })
		}
		if n := c.count("signals"); n != 0 {
			t.Errorf("%d signals are stored, want none", n)
		}
		viewer := w.member(t, c.Org, access.Viewer)
		viewer.post(batch(good())).WantError(http.StatusForbidden, "This needs the permission telemetry:write")
		viewer.get("/api/v1/creator-signals/overview").want(http.StatusOK)
		nobody := w.Anonymous()
		nobody.Key = "st_test_none"
		nobody.Post(path, batch(good())).Want(http.StatusUnauthorized)
	})
}

// onReplicas returns two members of an organisation, each at a replica of its own.
func onReplicas(t *testing.T, db *store.DB) (c, colleague *client) {
	t.Helper()
	one, two := newWorld(t, db), newWorld(t, db)
	c = one.org(t)
	colleague = one.member(t, c.Org, access.Member)
	colleague.World = two.World
	return c, colleague
}

// TestRateLimitAtOnce: of many bodies that arrive at once, which are counted and stored in
// groups, exactly as many pass as the limit allows, and only those are stored.
func TestRateLimitAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c, colleague := onReplicas(t, db)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for sender := range 20 {
			wg.Go(func() {
				for n := range 17 {
					from := []*client{c, colleague}[sender%2]
					switch a := from.post(batch(signal("pdf", "x", fmt.Sprint(sender, "-", n), 0.5, ""))); a.Status {
					case http.StatusOK:
						passed.Add(1)
					case http.StatusTooManyRequests:
					default:
						t.Errorf("status %d: %s", a.Status, a.Body)
					}
				}
			})
		}
		wg.Wait()
		if stored := c.count("signals"); passed.Load() != 300 || stored != 300 {
			t.Errorf("%d of 340 bodies passed, and %d signals are stored; want 300", passed.Load(), stored)
		}
	})
}

// TestRateLimit: two replicas share one limit.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c, colleague := onReplicas(t, db)
		var wg sync.WaitGroup
		for _, c := range []*client{c, colleague} {
			for range 4 {
				wg.Go(func() {
					for n := range 37 {
						c.post(batch(signal("pdf", "x", fmt.Sprint(n), 0.5, ""))).want(http.StatusOK)
					}
				})
			}
		}
		wg.Wait() // 296
		for left := range 4 {
			a := colleague.post(`{}`).want(http.StatusBadRequest) // invalid requests count, too
			if got, want := a.Header.Get("RateLimit-Remaining"), fmt.Sprint(3-left); got != want ||
				a.Header.Get("RateLimit-Limit") != "300" {
				t.Errorf("RateLimit-Remaining %s of %s, want %s of 300", got, a.Header.Get("RateLimit-Limit"), want)
			}
		}
		for _, c := range []*client{c, colleague} {
			a := c.post(batch(signal("pdf", "x", "n", 0.5, ""))).want(http.StatusTooManyRequests)
			reset := a.Header.Get("RateLimit-Reset")
			if reset == "" || a.Header.Get("Retry-After") != reset {
				t.Errorf("Retry-After %q, RateLimit-Reset %q", a.Header.Get("Retry-After"), reset)
			}
			a.WantError(http.StatusTooManyRequests, "Rate limit of 300 requests per hour reached; try again in "+reset+" s")
		}
		newWorld(t, db).org(t).post(batch(signal("pdf", "x", "k", 0.5, ""))).want(http.StatusOK) // the limit is per organisation
	})
}
