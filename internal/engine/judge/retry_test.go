package judge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// transient are the troubles that may be over at the next attempt.
func transient() map[string]judgetest.Reply {
	all := map[string]judgetest.Reply{"truncated": judgetest.Truncated()}
	for _, status := range []int{408, 409, 429, 500, 502, 503, 504, 529} {
		all[fmt.Sprint(status)] = judgetest.Fail(status, "busy")
	}
	all["text"] = judgetest.Reply{Status: 502, Body: []byte("Bad Gateway")}
	return all
}

func TestRetry(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, trouble := range transient() {
			t.Run(name, func(t *testing.T) {
				s := judgetest.New(t, nil)
				s.Then(trouble, trouble, trouble, judgetest.Text(fortyTwo))
				j, clock := newJudge(t, s, judge.Options{API: api})
				got, err := j.Complete(t.Context(), question())
				if err != nil || got.Text != fortyTwo || got.Record.Attempts != 4 || got.Record.Repaired {
					t.Fatalf("got %+v, %v", got, err)
				}
				wantBackoff(t, clock.waits())
			})
		}
	})
}

func wantBackoff(t *testing.T, got []time.Duration) {
	t.Helper()
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	if len(got) != len(want) {
		t.Fatalf("waited %v, want about %v", got, want)
	}
	for i, wait := range got {
		if wait < want[i]*3/4 || wait > want[i]*5/4 {
			t.Errorf("wait %d was %v, want about %v", i+1, wait, want[i])
		}
	}
}

func TestRetriesEnd(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, trouble := range transient() {
			t.Run(name, func(t *testing.T) {
				s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return trouble })
				j, _ := newJudge(t, s, judge.Options{API: api})
				_, err := j.Complete(t.Context(), question())
				e := wantCode(t, err, judge.Unavailable)
				if n := len(s.Requests()); n != 4 || e.Record.Attempts != 4 || e.Stop || e.Status != trouble.Status {
					t.Errorf("got %+v after %d requests, want it after 4", e, n)
				}
				if trouble.Message != "" && (!strings.Contains(e.Message, "busy") || !strings.Contains(e.Message, "(request req_test)")) {
					t.Errorf("got %q, want the server's words and the request's id", e.Message)
				}
			})
		}
	})
}

func TestNeverAnswers(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Hang() })
		j, clock := newJudge(t, s, judge.Options{API: api, Timeout: 20 * time.Millisecond})
		_, err := j.Complete(t.Context(), question())
		if e := wantCode(t, err, judge.Timeout); e.Record.Attempts != 4 {
			t.Errorf("got %+v, want 4 attempts", e)
		}
		wantBackoff(t, clock.waits())
	})
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String() + "/v1"
	_ = listener.Close()
	j, err := judge.New(judge.Options{API: judge.OpenAI, URL: url, Model: "m", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	clock := &fakeClock{}
	j.SetClock(clock.now, clock.sleep)
	_, err = j.Complete(t.Context(), question())
	if e := wantCode(t, err, judge.Unavailable); !strings.Contains(e.Message, "connection refused") || len(clock.waits()) != 3 {
		t.Errorf("got %v after the waits %v", e, clock.waits())
	}
}

func TestRejected(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for status, hint := range map[int]string{
			400: "nope", 401: "--judge-key", 403: "--judge-key", 404: "--judge-model", 413: "nope", 422: "nope", 307: "--judge-url",
		} {
			t.Run(fmt.Sprint(status), func(t *testing.T) {
				s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Fail(status, "nope") })
				j, _ := newJudge(t, s, judge.Options{API: api})
				_, err := j.Complete(t.Context(), question())
				e := wantCode(t, err, judge.Rejected)
				if n := len(s.Requests()); n != 1 || e.Status != status || !strings.Contains(e.Message, hint) {
					t.Errorf("got %+v after %d requests, want it after 1 with %q", e, n, hint)
				}
				if stop := status == 401 || status == 403; judge.MustStop(err) != stop {
					t.Errorf("stops the run: %t, want %t", !stop, stop)
				}
			})
		}
	})
}

// TestErrorBodies is about servers that are only nearly compatible.
func TestErrorBodies(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"error":{"message":"too long"}}`, "HTTP 413: too long"},
		{`{"error":"too long"}`, "HTTP 413: too long"},
		{`{"object":"error","message":"too long","code":413}`, "HTTP 413: too long"},
		{`{"detail":"too long"}`, "HTTP 413: too long"},
		{`{"detail":[{"loc":["body"],"msg":"too\nlong"}]}`, `HTTP 413: [{"loc":["body"],"msg":"too\nlong"}]`},
		{"too\n\tlong", "HTTP 413: too long"},
		{"", "HTTP 413"},
		{`{"error":{"message":"` + strings.Repeat("x", 400) + `"}}`, "HTTP 413: " + strings.Repeat("x", 299) + "…"},
	} {
		s := judgetest.New(t, nil)
		s.Then(judgetest.Reply{Status: http.StatusRequestEntityTooLarge, Body: []byte(c.body)})
		j, _ := newJudge(t, s, judge.Options{})
		_, err := j.Complete(t.Context(), question())
		if e := wantCode(t, err, judge.Rejected); e.Message != "the model's server answered "+c.want+" (request req_test)" {
			t.Errorf("%s: got %q, want %q", c.body, e.Message, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	date := time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "0.5": time.Second / 2, date: 20 * time.Second} {
		t.Run(value, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Then(judgetest.Reply{Status: 429, Header: http.Header{"Retry-After": {value}}}, judgetest.Text(fortyTwo))
			j, clock := newJudge(t, s, judge.Options{})
			if _, err := j.Complete(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			// The date has whole seconds, and a little time has passed.
			if waits := clock.waits(); len(waits) != 1 || waits[0] > want || waits[0] < want-3*time.Second {
				t.Errorf("waited %v, want %v", waits, want)
			}
		})
	}
	for _, value := range []string{"-1", "0", "soon", "NaN", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)} {
		t.Run(value, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Then(judgetest.Reply{Status: 503, Header: http.Header{"Retry-After": {value}}}, judgetest.Text(fortyTwo))
			j, clock := newJudge(t, s, judge.Options{})
			if _, err := j.Complete(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			if waits := clock.waits(); len(waits) != 1 || waits[0] < 750*time.Millisecond || waits[0] > 1250*time.Millisecond {
				t.Errorf("waited %v, want about a second", waits)
			}
		})
	}
}

// TestWaitsThatDoNotPay gives up at once, and says when to come again.
func TestWaitsThatDoNotPay(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.RateLimited(time.Hour) })
	j, clock := newJudge(t, s, judge.Options{})
	_, err := j.Complete(t.Context(), question())
	if e := wantCode(t, err, judge.Unavailable); e.RetryAfter != time.Hour || e.Record.Attempts != 1 || len(clock.waits()) != 0 {
		t.Errorf("got %+v after the waits %v", e, clock.waits())
	}

	s = judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.RateLimited(50 * time.Second) })
	j, clock = newJudge(t, s, judge.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = j.Complete(ctx, question())
	if e := wantCode(t, err, judge.Unavailable); e.Record.Attempts != 1 || len(clock.waits()) != 0 {
		t.Errorf("got %+v after the waits %v", e, clock.waits())
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Hang() })
	j, _ := newJudge(t, s, judge.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := j.Complete(ctx, question())
	if e := wantCode(t, err, judge.Timeout); e.Record.Attempts != 1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, want one attempt", e)
	}
}

// TestCancel ends a request, a wait for a slot and a wait for an attempt.
func TestCancel(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply {
		arrived <- struct{}{}
		return judgetest.Hang()
	})
	j, _ := newJudge(t, s, judge.Options{Concurrency: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			_, err := j.Complete(ctx, question())
			if !errors.Is(err, context.Canceled) || judge.CodeOf(err) != "" {
				t.Errorf("got %v, want the cancellation", err)
			}
		})
	}
	<-arrived
	cancel()
	wg.Wait()
	if n := len(s.Requests()); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

func TestConcurrency(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text(fortyTwo) })
	s.Latency = 20 * time.Millisecond
	j, _ := newJudge(t, s, judge.Options{Concurrency: 3})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := j.Complete(t.Context(), question()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most := s.MostAtOnce(); most != 3 || len(s.Requests()) != 30 {
		t.Errorf("got %d at once of %d, want 3 of 30", most, len(s.Requests()))
	}
}
