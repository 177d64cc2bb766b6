package notify_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// The facts' secret and another one.
const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oldSecret = "whsec_b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xkLW9sZC0="
)

// secretPath is the part of a webhook's URL that must not be shown.
const secretPath = "/services/T0AAAAAAA/B0BBBBBBB/xYzSecretToken123456"

// A guard records what the client would reach, and stops all but loopback.
type guard struct {
	mu      sync.Mutex
	reached []string
}

func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reached = append(g.reached, address)
	if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
		return errors.New("stopped by the test")
	}
	return nil
}

// newSender returns a sender that reaches loopback, with the mail settings in o.
func newSender(t *testing.T, o notify.Options) *notify.Sender {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowList: []string{"127.0.0.1"}, Control: new(guard).control})
	if err != nil {
		t.Fatal(err)
	}
	o.HTTP = client
	s, err := notify.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A request is one that a receiver got.
type request struct {
	*http.Request
	body []byte
}

// A receiver is a real server on loopback that remembers what it got.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

// receive starts a receiver that answers the n-th request with the n-th
// handler, and all further ones with the last.
func receive(t *testing.T, answers ...http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got = append(r.got, request{req, body})
		answer := answers[min(len(r.got), len(answers))-1]
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// target is the receiver's secret address on a channel.
func (r *receiver) target(c notify.Channel) notify.Target {
	return notify.Target{Channel: c, Address: r.URL + secretPath, Secrets: []string{secret}}
}

// answer makes a handler from a status, a body and pairs of header names and values.
func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func at(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 123_000_000, time.UTC) }

// notices are one of each sort.
func notices() map[string]notify.Notice {
	firing := notify.Notice{
		ID: "msg_0002", EpisodeID: "msg_0002", Status: notify.Firing, Type: notify.PassRateBelow,
		AlertID: "0199-alert", SkillID: "0199-skill", Skill: "my-skill",
		Threshold: 0.7, PassRate: new(0.65), SampleSize: 20, Interval: &[2]float64{0.4329, 0.8188},
		WindowFrom: at(5, 10), WindowTo: at(12, 10), WindowSessions: 25,
		TriggeredAt: at(12, 10), Since: new(at(12, 9)), LastSessionAt: new(at(12, 8)),
		Sequence: 1, Version: new("1.3.0"), Note: "Rolled back to 1.2.0",
		URL: "https://whetstone.example.org/skills/0199-skill?tab=health&days=7",
	}
	resolved := firing
	resolved.ID, resolved.Status, resolved.Sequence, resolved.Note = "msg_0004", notify.Resolved, 3, ""
	resolved.PassRate, resolved.TriggeredAt, resolved.Version = new(0.7273), at(14, 11), nil
	reminder := firing
	reminder.ID, reminder.Status, reminder.Sequence = "msg_0003", notify.Reminder, 2
	silent := notify.Notice{
		ID: "msg_0005", Status: notify.Firing, Type: notify.NoData,
		AlertID: "0199-quiet", SkillID: "0199-skill", Skill: "my-skill",
		Threshold: 7, DaysSilent: new(9.0), WindowFrom: at(5, 10), WindowTo: at(14, 10),
		TriggeredAt: at(14, 10), LastSessionAt: new(at(5, 10)), Sequence: 1,
		URL: "https://whetstone.example.org/skills/0199-skill",
	}
	heard := silent
	heard.ID, heard.EpisodeID, heard.Status, heard.Sequence = "msg_0006", "msg_0005", notify.Resolved, 2
	heard.DaysSilent, heard.WindowSessions, heard.LastSessionAt = new(0.1), 1, new(at(14, 8))
	test := notify.Notice{
		ID: "msg_0001", Status: notify.Test, Type: notify.PassRateBelow, AlertID: "0199-alert",
		Threshold: 0.8, TriggeredAt: at(4, 10), URL: "https://whetstone.example.org/",
	}
	return map[string]notify.Notice{
		"firing": firing, "resolved": resolved, "reminder": reminder,
		"no_data": silent, "no_data_resolved": heard, "test": test,
	}
}

func firing() notify.Notice { return notices()["firing"] }
