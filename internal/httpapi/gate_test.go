package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// gated is an API with two routes that share a gate of 100 bytes. It has no
// connections, so that it can live in a bubble of synctest.
type gated struct {
	*httpapi.API
	t    *testing.T
	held chan struct{} // ends what is being held
}

type bodyInput struct{ RawBody []byte }

type bodyOutput struct {
	Size int `json:"size"`
}

const gateCapacity = 100

func newGated(t *testing.T) *gated {
	g := &gated{t: t, held: make(chan struct{})}
	g.API = httpapi.New(httpapi.Options{
		Auth: callers, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	gate := httpapi.NewGate(gateCapacity)
	httpapi.Add(g.API, func(_ context.Context, in bodyInput) (bodyOutput, error) {
		<-g.held
		return bodyOutput{len(in.RawBody)}, nil
	}, httpapi.Route{Method: "POST", Path: "/hold", MaxBody: 1000, Gate: gate})
	httpapi.Add(g.API, func(_ context.Context, in bodyInput) (bodyOutput, error) {
		return bodyOutput{len(in.RawBody)}, nil
	}, httpapi.Route{Method: "POST", Path: "/take", MaxBody: 50, MaxInflated: 80, Gate: gate})
	return g
}

// post sends a body; a length of -1 tells none.
func (g *gated) post(ctx context.Context, path string, body io.Reader, length int64, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, path, body)
	req.ContentLength = length
	req.Header.Set("Authorization", "Bearer owner")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	g.ServeHTTP(rec, req)
	return rec
}

// hold lets a body of n bytes in and keeps it there until held is closed.
func (g *gated) hold(n int) (answered <-chan *httptest.ResponseRecorder) {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() { out <- g.post(g.t.Context(), "/hold", strings.NewReader(strings.Repeat("x", n)), int64(n)) }()
	synctest.Wait()
	return out
}

func (g *gated) take(n int) *httptest.ResponseRecorder {
	return g.post(g.t.Context(), "/take", strings.NewReader(strings.Repeat("x", n)), int64(n))
}

// wantBusy checks that a request was told to come back later, and when.
func wantBusy(t *testing.T, rec *httptest.ResponseRecorder) {
	t.Helper()
	const message = `{"error":{"message":"The server is busy; try again; request `
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "5" || !strings.HasPrefix(rec.Body.String(), message) {
		t.Errorf("%d, Retry-After %q, %s", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
	}
}

// TestGateWeights fills the gate so that a body just fits, and so that it just
// does not.
func TestGateWeights(t *testing.T) {
	const gz = "Content-Encoding: gzip"
	for _, c := range []struct {
		name   string
		length int64
		header []string
		weight int
	}{
		{"as long as it says", 10, nil, 10},
		{"no longer than the route reads", 5_000, nil, 80},
		{"nobody knows how long", -1, nil, 80},
		{"gzip, sixteen times as long", 3, []string{gz}, 48},
		{"gzip, no longer than the route inflates", 30, []string{gz}, 80},
		{"gzip, nobody knows how long", -1, []string{gz}, 80},
	} {
		for _, room := range []int{c.weight, c.weight - 1} {
			synctest.Test(t, func(t *testing.T) {
				g := newGated(t)
				held := g.hold(gateCapacity - room)
				start := time.Now()
				rec := g.post(t.Context(), "/take", strings.NewReader("x"), c.length, c.header...)
				waited, busy := time.Since(start), rec.Code == http.StatusServiceUnavailable
				if want := room < c.weight; busy != want || (waited != 0) != want {
					t.Errorf("%s, room for %d: status %d after %v", c.name, room, rec.Code, waited)
				}
				close(g.held)
				<-held
			})
		}
	}
}

// TestGateTurnsAway: what does not fit waits for five seconds and is told to
// come back; then it fits, and nothing was lost.
func TestGateTurnsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		first, second := g.hold(60), g.hold(40)
		start := time.Now()
		wantBusy(t, g.take(1))
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited for %v", waited)
		}
		close(g.held)
		for _, held := range []<-chan *httptest.ResponseRecorder{first, second} {
			if rec := <-held; rec.Code != http.StatusOK {
				t.Errorf("what was there: %d %s", rec.Code, rec.Body)
			}
		}
		if rec := g.take(50); rec.Code != http.StatusOK || rec.Body.String() != "{\"size\":50}\n" {
			t.Errorf("again: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestGateLetsInWhoWaits: who waits goes on as soon as there is room.
func TestGateLetsInWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		held := g.hold(100)
		go func() {
			time.Sleep(3 * time.Second)
			close(g.held)
		}()
		start := time.Now()
		if rec := g.take(50); rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited for %v", waited)
		}
		<-held
	})
}

// TestGateLargerThanItself: a body that is larger than the gate goes in alone.
func TestGateLargerThanItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		held := g.hold(500)
		wantBusy(t, g.take(1))
		close(g.held)
		if rec := <-held; rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// TestGateForgetsWhoLeft: who goes away while waiting takes no room.
func TestGateForgetsWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		held := g.hold(100)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		start := time.Now()
		g.post(ctx, "/take", strings.NewReader("x"), 1)
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited for %v after the client had left", waited)
		}
		close(g.held)
		<-held
		if rec := <-g.hold(100); rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// TestGateStandsBehindTheGuard: who may not come in does not wait.
func TestGateStandsBehindTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t)
		held := g.hold(100)
		start := time.Now()
		rec := g.post(t.Context(), "/take", strings.NewReader("x"), 1, "Authorization: Bearer nobody")
		if rec.Code != http.StatusUnauthorized || time.Since(start) != 0 {
			t.Errorf("%d after %v", rec.Code, time.Since(start))
		}
		close(g.held)
		<-held
	})
}
