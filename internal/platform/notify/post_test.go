package notify_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// TestAnswers goes through what a receiver may answer.
func TestAnswers(t *testing.T) {
	all := []notify.Channel{notify.ChatA, notify.ChatB, notify.Webhook}
	hour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name     string
		channels []notify.Channel
		answer   http.HandlerFunc
		want     notify.Outcome
		detail   string
		after    [2]time.Duration // least and most
		requests int
	}{
		{name: "ok", answer: answer(200, "ok"), want: notify.Delivered, detail: "HTTP 200 OK: ok"},
		{name: "no content", answer: answer(204, ""), want: notify.Delivered, detail: "HTTP 204 No Content"},
		{name: "accepted", answer: answer(202, ""), want: notify.Delivered, detail: "HTTP 202 Accepted"},
		{name: "huge", answer: answer(200, strings.Repeat("x", 10<<20)), want: notify.Delivered, detail: "HTTP 200 OK: " + strings.Repeat("x", 199) + "…"},
		{name: "garbage", answer: answer(500, "a\x00\r\n\xff<b>\u202e"), want: notify.Retry, detail: "HTTP 500 Internal Server Error: a \uFFFD<b>"},
		{name: "unknown status", answer: answer(599, ""), want: notify.Retry, detail: "HTTP 599"},
		{name: "unavailable", answer: answer(503, "", "Retry-After", "7"), want: notify.Retry, detail: "HTTP 503 Service Unavailable", after: same(7 * time.Second)},
		{name: "request timeout", answer: answer(408, ""), want: notify.Retry, detail: "HTTP 408 Request Timeout"},
		{name: "limited", answer: answer(429, ""), want: notify.Retry, detail: "HTTP 429 Too Many Requests"},
		{name: "limited, seconds", answer: answer(429, "", "Retry-After", "120"), want: notify.Retry, after: same(2 * time.Minute)},
		{name: "limited, date", answer: answer(429, "", "Retry-After", hour), want: notify.Retry, after: [2]time.Duration{58 * time.Minute, time.Hour}},
		{name: "limited, old date", answer: answer(429, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), want: notify.Retry},
		{name: "limited, for ever", answer: answer(429, "", "Retry-After", "1e300"), want: notify.Retry, after: same(24 * time.Hour)},
		{name: "limited, negative", answer: answer(429, "", "Retry-After", "-5"), want: notify.Retry},
		{name: "limited, not a number", answer: answer(429, "", "Retry-After", "NaN"), want: notify.Retry},
		{
			name: "limited, in the body", channels: []notify.Channel{notify.ChatB},
			answer: answer(429, `{"message":"slow down","retry_after":1.5,"global":false}`, "Retry-After", "1"),
			want:   notify.Retry, after: same(1500 * time.Millisecond),
			detail: `HTTP 429 Too Many Requests: {"message":"slow down","retry_after":1.5,"global":false}`,
		},
		{
			name: "limited, in a body that nobody reads", channels: []notify.Channel{notify.ChatA, notify.Webhook},
			answer: answer(429, `{"retry_after":1.5}`), want: notify.Retry,
		},
		{name: "bad request to a webhook", channels: []notify.Channel{notify.Webhook}, answer: answer(400, "no"), want: notify.Failed, detail: "HTTP 400 Bad Request: no"},
		{name: "bad request to a chat", channels: all[:2], answer: answer(400, "no_text"), want: notify.Failed, detail: "HTTP 400 Bad Request: no_text", requests: 2},
		{name: "unauthorized", answer: answer(401, ""), want: notify.Failed, detail: "HTTP 401 Unauthorized"},
		{name: "forbidden", answer: answer(403, "invalid_token"), want: notify.Failed, detail: "HTTP 403 Forbidden: invalid_token"},
		{name: "not found", answer: answer(404, "no_service"), want: notify.Failed, detail: "HTTP 404 Not Found: no_service"},
		{name: "gone", answer: answer(410, "channel_is_archived"), want: notify.Gone, detail: "HTTP 410 Gone: channel_is_archived"},
		{
			name: "redirect", answer: answer(307, "", "Location", "/elsewhere"), want: notify.Failed,
			detail: "HTTP 307 Temporary Redirect: redirects are not followed, set the final address",
		},
		{name: "torn", answer: torn, want: notify.Delivered, detail: "HTTP 200 OK: half"},
	} {
		channels := c.channels
		if channels == nil {
			channels = all
		}
		for _, channel := range channels {
			t.Run(c.name+"/"+string(channel), func(t *testing.T) {
				r := receive(t, c.answer)
				got := newSender(t, notify.Options{}).Send(t.Context(), r.target(channel), firing())
				if got.Outcome != c.want || got.RetryAfter < c.after[0] || got.RetryAfter > c.after[1] || got.Throttled {
					t.Errorf("got %+v, want %s, retry after %v", got, c.want, c.after)
				}
				if c.detail != "" && got.Detail != c.detail {
					t.Errorf("got detail %q, want %q", got.Detail, c.detail)
				}
				if got.Status == 0 || got.Latency <= 0 {
					t.Errorf("got status %d and latency %v", got.Status, got.Latency)
				}
				if n := len(r.requests()); n != max(c.requests, 1) {
					t.Errorf("got %d requests, want %d", n, max(c.requests, 1))
				}
			})
		}
	}
}

func same(d time.Duration) [2]time.Duration { return [2]time.Duration{d, d} }

// torn breaks off in the middle of its body.
func torn(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func TestRequest(t *testing.T) {
	for _, c := range []struct {
		channel    notify.Channel
		query      string
		wantQuery  string
		wantSigned bool
	}{
		{notify.ChatA, "", "", false},
		{notify.ChatB, "", "wait=true", false},
		{notify.ChatB, "?thread_id=7&wait=false", "thread_id=7&wait=true", false},
		{notify.Webhook, "?a=b", "a=b", true},
	} {
		t.Run(string(c.channel)+c.query, func(t *testing.T) {
			r := receive(t, answer(200, ""))
			target := r.target(c.channel)
			target.Address += c.query
			newSender(t, notify.Options{}).Send(t.Context(), target, firing())
			got := r.requests()[0]
			if got.Method != http.MethodPost || got.URL.Path != secretPath || got.URL.RawQuery != c.wantQuery {
				t.Errorf("got %s %s, want the query %q", got.Method, got.URL, c.wantQuery)
			}
			if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("User-Agent") != "Whetstone" {
				t.Errorf("got header %v", got.Header)
			}
			if signed := got.Header.Get("webhook-signature") != ""; signed != c.wantSigned {
				t.Errorf("signed: %t, want %t", signed, c.wantSigned)
			}
		})
	}
}

// TestSignatureVector is the one of the Standard Webhooks specification.
func TestSignatureVector(t *testing.T) {
	got, err := notify.Sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestWebhookIsSigned(t *testing.T) {
	r := receive(t, answer(500, ""))
	s := newSender(t, notify.Options{})
	target := r.target(notify.Webhook)
	target.Secrets = []string{secret, oldSecret}
	for range 2 {
		s.Send(t.Context(), target, firing())
	}
	for _, got := range r.requests() {
		for _, key := range target.Secrets {
			receiver, err := standardwebhooks.NewWebhook(key)
			if err != nil {
				t.Fatal(err)
			}
			if err := receiver.Verify(got.body, got.Header); err != nil {
				t.Errorf("a receiver with one of the two secrets refuses: %v", err)
			}
		}
		if id := got.Header.Get("webhook-id"); id != firing().ID {
			t.Errorf("got id %q, want the same on every attempt", id)
		}
		if n := len(strings.Fields(got.Header.Get("webhook-signature"))); n != 2 {
			t.Errorf("got %d signatures, want 2", n)
		}
	}
}

func TestUnsendable(t *testing.T) {
	with := func(change func(*notify.Notice)) notify.Notice {
		n := firing()
		change(&n)
		return n
	}
	nan := []float64{0}
	nan[0] /= nan[0]
	r := receive(t, answer(200, ""))
	hook := r.target(notify.Webhook)
	for _, c := range []struct {
		name   string
		target notify.Target
		notice notify.Notice
		want   string
	}{
		{"no id", hook, with(func(n *notify.Notice) { n.ID = "" }), "the notice has no usable id"},
		{"header in the id", hook, with(func(n *notify.Notice) { n.ID = "a\r\nX: y" }), "the notice has no usable id"},
		{"dot in the id", hook, with(func(n *notify.Notice) { n.ID = "a.b" }), "the notice has no usable id"},
		{"header in the episode", hook, with(func(n *notify.Notice) { n.EpisodeID = "a\nb" }), "the notice has no usable id"},
		{"status", hook, with(func(n *notify.Notice) { n.Status = "" }), "the status of the notice is not known"},
		{"type", hook, with(func(n *notify.Notice) { n.Type = "x" }), "the type of the notice is not known"},
		{"channel", notify.Target{Channel: "pigeon"}, firing(), "the channel is not known"},
		{"not a number", hook, with(func(n *notify.Notice) { n.PassRate = &nan[0] }), "the notice holds a number that JSON cannot carry"},
		{"no secret", notify.Target{Channel: notify.Webhook, Address: hook.Address}, firing(), "webhook_secret must be set: rotate the secret"},
		{
			"bad secret",
			notify.Target{Channel: notify.Webhook, Address: hook.Address, Secrets: []string{"hunter2"}},
			firing(),
			"webhook_secret must be whsec_ and the base64 of 24 to 64 bytes",
		},
		{"scheme", notify.Target{Channel: notify.ChatA, Address: "ftp://example.org/x"}, firing(), "URL must begin with http:// or https://"},
		{"no mail server", notify.Target{Channel: notify.Email, Address: "ops@example.org"}, firing(), "no mail server is configured: set --smtp-url and --mail-from"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := newSender(t, notify.Options{}).Send(t.Context(), c.target, c.notice)
			if got.Outcome != notify.Failed || got.Detail != c.want {
				t.Errorf("got %+v, want it failed with %q", got, c.want)
			}
		})
	}
	if n := len(r.requests()); n != 0 {
		t.Errorf("%d requests were made, want none", n)
	}
}

func TestPrivateAddressIsNeverDialled(t *testing.T) {
	g := &guard{}
	client, err := outbound.New(outbound.Options{Control: g.control})
	if err != nil {
		t.Fatal(err)
	}
	s, err := notify.New(notify.Options{HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"https://127.0.0.1" + secretPath:      "refused: 127.0.0.1 is a loopback address; set --allow-private-targets to allow it",
		"http://10.1.2.3:8080" + secretPath:   "refused: 10.1.2.3 is a private address; set --allow-private-targets to allow it",
		"http://169.254.169.254" + secretPath: "refused: 169.254.169.254 is a link-local address; set --allow-private-targets to allow it",
		"http://[::1]" + secretPath:           "refused: ::1 is a loopback address; set --allow-private-targets to allow it",
		"http://localhost:9" + secretPath:     "refused: localhost resolves to a loopback address; set --allow-private-targets to allow it",
	} {
		got := s.Send(t.Context(), notify.Target{Channel: notify.ChatA, Address: address}, firing())
		if got.Outcome != notify.Failed || got.Detail != want {
			t.Errorf("got %+v, want it failed with %q", got, want)
		}
	}
	if len(g.reached) != 0 {
		t.Errorf("reached %v, want nothing", g.reached)
	}
}

func TestNoAnswer(t *testing.T) {
	closed := receive(t, answer(200, ""))
	closed.Close()
	never := receive(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	impatient, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		target notify.Target
		want   string
	}{
		{"nobody listens", t.Context(), closed.target(notify.ChatA), closed.URL + ": connection refused"},
		{"never", impatient, never.target(notify.ChatB), never.URL + ": timed out"},
		{"cancelled", cancelled, never.target(notify.Webhook), "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := newSender(t, notify.Options{}).Send(c.ctx, c.target, firing())
			if got.Outcome != notify.Retry || got.Status != 0 || !strings.HasPrefix(got.Detail, c.want) {
				t.Errorf("got %+v, want a retry because of %q", got, c.want)
			}
			wantNoSecret(t, c.target, got.Detail)
		})
	}
}

// TestPauseIsKept: who asked for a pause is not even connected to.
func TestPauseIsKept(t *testing.T) {
	for name, limited := range map[string]http.HandlerFunc{
		"asked":      answer(429, "", "Retry-After", "60"),
		"counted":    answer(204, "", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "60.5"),
		"overloaded": answer(503, "", "Retry-After", "60"),
	} {
		t.Run(name, func(t *testing.T) {
			r := receive(t, limited)
			s := newSender(t, notify.Options{})
			s.Send(t.Context(), r.target(notify.ChatB), firing())
			got := s.Send(t.Context(), r.target(notify.ChatB), firing())
			if got.Outcome != notify.Retry || !got.Throttled || got.RetryAfter < 50*time.Second || got.RetryAfter > 61*time.Second {
				t.Errorf("got %+v, want it held for a minute", got)
			}
			if n := len(r.requests()); n != 1 {
				t.Errorf("got %d requests, want 1", n)
			}
			other := r.target(notify.ChatB)
			other.Address += "/other"
			s.Send(t.Context(), other, firing())
			if n := len(r.requests()); n != 2 {
				t.Errorf("got %d requests, want one to another webhook of that host", n)
			}
			s.Send(t.Context(), r.target(notify.ChatB), notices()["test"])
			if n := len(r.requests()); n != 3 {
				t.Errorf("got %d requests, want a test to be sent at once", n)
			}
		})
	}
}

// TestSecretsAreNotShown lets servers repeat what they were asked for.
func TestSecretsAreNotShown(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "The requested URL %s (http://%s%s) of %s was not found", r.URL.RequestURI(), r.Host, r.URL, r.URL.Path[20:])
	})
	for _, c := range []notify.Channel{notify.ChatA, notify.ChatB, notify.Webhook} {
		target := r.target(c)
		target.Address += "?token=0123456789abcdef&v=1"
		got := newSender(t, notify.Options{}).Send(t.Context(), target, firing())
		if !strings.HasPrefix(got.Detail, "HTTP 404 Not Found: The requested URL …") {
			t.Errorf("got %q", got.Detail)
		}
		wantNoSecret(t, target, got.Detail)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "target", target)
		wantNoSecret(t, target, fmt.Sprintf("%v %+v %#v %s %q", target, target, &target, target, target)+log.String())
	}
	long := notify.Target{Channel: notify.Webhook, Address: "https://example.org/" + strings.Repeat("s", 2000)}
	if got := notify.Excerpt(long, strings.Repeat(long.Address, 3)[:4096]); strings.Contains(got, "sss") {
		t.Errorf("the end of what was read shows a part of the address: %q", got)
	}
}

func wantNoSecret(t *testing.T, target notify.Target, text string) {
	t.Helper()
	parts := append([]string{"xYzSecretToken123456", "T0AAAAAAA", "0123456789abcdef"}, target.Secrets...)
	if i := slices.IndexFunc(parts, func(part string) bool { return strings.Contains(text, part) }); i >= 0 {
		t.Errorf("%q holds the secret %q", text, parts[i])
	}
}

// TestConcurrentSends is for the race detector.
func TestConcurrentSends(t *testing.T) {
	r := receive(t, answer(200, "ok"))
	s := newSender(t, notify.Options{})
	results := make(chan notify.Result)
	for range 20 {
		go func() { results <- s.Send(t.Context(), r.target(notify.Webhook), firing()) }()
	}
	for range 20 {
		if got := <-results; got.Outcome != notify.Delivered {
			t.Errorf("got %+v", got)
		}
	}
}
