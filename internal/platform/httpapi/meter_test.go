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

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// metered is an API with two routes that share a budget for 100 bytes of
// bodies. It has no connections, so that it can live in a bubble of synctest.
type metered struct {
	*httpapi.API
	t    *testing.T
	held chan struct{} // ends what is being held
}

type bodyInput struct{ RawBody []byte }

type bodyOutput struct {
	Size int `json:"size"`
}

const (
	// byteCost is what a byte of a body takes of the budget.
	byteCost = 4
	// room is for how many bytes of bodies there is room.
	room = 100
)

func newMetered(t *testing.T) *metered {
	g := &metered{t: t, held: make(chan struct{})}
	g.API = httpapi.New(httpapi.Options{
		Auth: callers, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Version: "test",
		Memory: httpapi.NewBudget(room*byteCost, 0), PublicMemory: httpapi.NewBudget(room*byteCost, 0),
	})
	httpapi.Add(g.API, func(_ context.Context, in bodyInput) (bodyOutput, error) {
		<-g.held
		return bodyOutput{len(in.RawBody)}, nil
	}, httpapi.Route{Method: "POST", Path: "/hold", MaxBody: 1000})
	httpapi.Add(g.API, func(_ context.Context, in bodyInput) (bodyOutput, error) {
		return bodyOutput{len(in.RawBody)}, nil
	}, httpapi.Route{Method: "POST", Path: "/take", MaxBody: 50, MaxInflated: 80})
	return g
}

// post sends a body; a length of -1 tells none.
func (g *metered) post(ctx context.Context, path string, body io.Reader, length int64, headers ...string) *httptest.ResponseRecorder {
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
func (g *metered) hold(n int) (answered <-chan *httptest.ResponseRecorder) {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() { out <- g.post(g.t.Context(), "/hold", strings.NewReader(strings.Repeat("x", n)), int64(n)) }()
	synctest.Wait()
	return out
}

func (g *metered) take(n int) *httptest.ResponseRecorder {
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

// TestBodiesTakeWhatCame fills the budget so that a body just fits, and so that
// it just does not: what counts is what came, inflated, and not what a header
// announces.
func TestBodiesTakeWhatCame(t *testing.T) {
	packed := string(zipped(t, strings.Repeat("x", 70)))
	for _, c := range []struct {
		name   string
		body   string
		length int64
		header []string
		weight int
	}{
		{"as long as it says", "0123456789", 10, nil, 10},
		{"announces more than it sends", "x", 5_000, nil, 1},
		{"announces nothing", "0123456789", -1, nil, 10},
		{"announces less", "0123456789", 1, nil, 10},
		{"gzip, as long as it inflates to", packed, int64(len(packed)), []string{"Content-Encoding: gzip"}, 70},
		{"gzip, announces nothing", packed, -1, []string{"Content-Encoding: gzip"}, 70},
	} {
		for _, left := range []int{c.weight, c.weight - 1} {
			synctest.Test(t, func(t *testing.T) {
				g := newMetered(t)
				held := g.hold(room - left)
				start := time.Now()
				rec := g.post(t.Context(), "/take", strings.NewReader(c.body), c.length, c.header...)
				waited, busy := time.Since(start), rec.Code == http.StatusServiceUnavailable
				if want := left < c.weight; busy != want || (waited != 0) != want {
					t.Errorf("%s, room for %d: status %d after %v", c.name, left, rec.Code, waited)
				}
				close(g.held)
				<-held
			})
		}
	}
}

// TestHalfReadBodies: bodies that each wait for the room that another holds do
// not wait for long. The youngest is turned away at once, the oldest goes on.
func TestHalfReadBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
		close(g.held)
		var senders []*io.PipeWriter
		var answers []chan *httptest.ResponseRecorder
		for range 4 {
			from, to := io.Pipe()
			answer := make(chan *httptest.ResponseRecorder, 1)
			senders, answers = append(senders, to), append(answers, answer)
			go func() { answer <- g.post(t.Context(), "/hold", from, -1) }()
			_, _ = io.WriteString(to, strings.Repeat("x", 25))
			synctest.Wait()
		}
		start := time.Now()
		for _, to := range senders {
			go func() {
				_, _ = io.WriteString(to, strings.Repeat("x", 25))
				_ = to.Close()
			}()
		}
		var codes []int
		for i, answer := range answers {
			rec := <-answer
			codes = append(codes, rec.Code)
			if rec.Code != http.StatusOK {
				wantBusy(t, rec)
			}
			_ = senders[i].Close()
		}
		if codes[0] != http.StatusOK || codes[3] != http.StatusServiceUnavailable || time.Since(start) != 0 {
			t.Errorf("%v after %v", codes, time.Since(start))
		}
	})
}

// TestGateTurnsAway: what does not fit waits for five seconds and is told to
// come back; then it fits, and nothing was lost.
func TestGateTurnsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
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

// TestBudgetLetsInWhoWaits: who waits goes on as soon as there is room.
func TestBudgetLetsInWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
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

// TestBodyLargerThanTheBudget: a body that is larger than the budget goes in alone.
func TestBodyLargerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
		held := g.hold(500)
		wantBusy(t, g.take(1))
		close(g.held)
		if rec := <-held; rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// TestBudgetForgetsWhoLeft: who goes away while waiting takes no room.
func TestBudgetForgetsWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
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

// TestBudgetComesAfterTheGuard: who may not come in does not wait.
func TestBudgetComesAfterTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
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

// TestPublicBodiesTakeTheirOwn: what strangers send takes no memory from those
// with a key.
func TestPublicBodiesTakeTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
		httpapi.Add(g.API, func(_ context.Context, in bodyInput) (bodyOutput, error) {
			<-g.held
			return bodyOutput{len(in.RawBody)}, nil
		}, httpapi.Route{Method: "POST", Path: "/public", Public: true, Limit: httpapi.PublicLimit(), MaxBody: 1000})
		done := make(chan struct{})
		go func() {
			g.post(t.Context(), "/public", strings.NewReader(strings.Repeat("x", room)), room)
			close(done)
		}()
		synctest.Wait()
		wantBusy(t, g.post(t.Context(), "/public", strings.NewReader("x"), 1))
		if rec := g.take(50); rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		close(g.held)
		<-done
	})
}

// TestOperationTakesMemory: what an operation decodes its body into counts.
func TestOperationTakesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newMetered(t)
		httpapi.Add(g.API, func(ctx context.Context, in bodyInput) (bodyOutput, error) {
			return bodyOutput{len(in.RawBody)}, httpapi.ReserveMemory(ctx, 50*byteCost)
		}, httpapi.Route{Method: "POST", Path: "/decode"})
		held := g.hold(50)
		wantBusy(t, g.post(t.Context(), "/decode", strings.NewReader("x"), 1))
		close(g.held)
		<-held
		if rec := g.post(t.Context(), "/decode", strings.NewReader("x"), 1); rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if rec := g.take(50); rec.Code != http.StatusOK {
			t.Errorf("not all was given back: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestMaxValues: a JSON body is bounded by what it becomes. Text is not counted.
func TestMaxValues(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		mountThings(a)
		httpapi.Add(a, func(_ context.Context, in bodyInput) (bodyOutput, error) {
			return bodyOutput{len(in.RawBody)}, nil
		}, httpapi.Route{Method: "POST", Path: "/raw", MaxValues: 4})
	})
	const most = httpapi.DefaultMaxValues - 2 // beside the object and its other member
	list := func(n int) string {
		return `{"name":"x","other":[` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + `]}`
	}
	f.do(t, "POST", "/things", list(most)).WantJSON(201, `{"name":"x"}`)
	f.do(t, "POST", "/things", list(most+1)).WantError(413, "The body is over the limit of 50000 values; send smaller batches")
	f.do(t, "POST", "/things", `{"name":"x","other":"`+strings.Repeat(`,[{\"`, 100_000)+`"}`).WantJSON(201, `{"name":"x"}`)
	f.do(t, "POST", "/raw", `[1,2,3,4]`).WantJSON(200, `{"size":9}`)
	f.do(t, "POST", "/raw", `[1,2,3,4,5]`).WantError(413, "The body is over the limit of 4 values; send smaller batches")
	f.do(t, "POST", "/raw", `[1,2,3,4,5]`, "Content-Type: application/x-protobuf").WantJSON(200, `{"size":11}`)
}

// TestManyIssues: an answer lists a thousand problems, however many there are.
func TestManyIssues(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	a := f.do(t, "POST", "/things", `{"name":"x","cases_json":[`+strings.TrimSuffix(strings.Repeat("0,", 20_000), ",")+`]}`)
	if n := strings.Count(string(a.Body), `"path"`); a.Status != 400 || n != 1+1000 {
		t.Errorf("status %d, %d problems in %d bytes", a.Status, n, len(a.Body))
	}
}
