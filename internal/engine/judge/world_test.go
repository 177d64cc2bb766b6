package judge_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// key must not be shown.
const key = "sk-hunter2hunter2"

// each runs a test in both wire formats.
func each(t *testing.T, run func(t *testing.T, api string)) {
	for _, api := range []string{judge.OpenAI, judge.Anthropic} {
		t.Run(api, func(t *testing.T) { run(t, api) })
	}
}

// loopbackOnly stops whatever leaves the machine.
func loopbackOnly(_ context.Context, _, address string, _ syscall.RawConn) error {
	if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
		return errors.New("stopped by the test")
	}
	return nil
}

// newJudge returns a judge that asks the server, and the time it waits by.
func newJudge(t *testing.T, s *judgetest.Server, o judge.Options) (*judge.Judge, *fakeClock) {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true, Control: loopbackOnly})
	if err != nil {
		t.Fatal(err)
	}
	o.API = cmp.Or(o.API, judge.OpenAI)
	o.URL, o.Model, o.Key, o.HTTP = s.URL(o.API), cmp.Or(o.Model, "test-model"), cmp.Or(o.Key, key), client
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	j, err := judge.New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeClock{at: time.Now()}
	j.SetClock(c.now, c.sleep)
	return j, c
}

// fakeClock lets waits pass at once and remembers them.
type fakeClock struct {
	mu    sync.Mutex
	at    time.Time
	slept []time.Duration
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	c.slept = append(c.slept, d)
	return ctx.Err()
}

func (c *fakeClock) waits() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.slept)
}

// wantCode returns the error as what it must be.
func wantCode(t *testing.T, err error, want judge.Code) judge.Error {
	t.Helper()
	e, ok := errors.AsType[*judge.Error](err)
	if !ok || e.Code != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	return *e
}

// field returns one field of a request's body as JSON text.
func field(r judgetest.Request, name string) string { return string(r.Fields[name]) }

// question is the simplest prompt with a form.
func question() judge.Prompt {
	return judge.Prompt{
		Version: "test-1",
		System:  "Answer with JSON.",
		User:    "What is six times seven?",
		Schema: &judge.Schema{Name: "number", Version: "number-1", JSON: json.RawMessage(
			`{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer"}}}`)},
		Check: func(answer string) error {
			var got struct{ N *int }
			if json.Unmarshal([]byte(answer), &got) != nil || got.N == nil {
				return errors.New("n is missing")
			}
			return nil
		},
	}
}

const fortyTwo = `{"n":42}`
