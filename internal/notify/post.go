package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// maxWebhookBody bounds what a webhook gets, in bytes.
const maxWebhookBody = 20_000

// post delivers a notice by HTTP.
func (s *Sender) post(ctx context.Context, t Target, n Notice) Result {
	u, err := outbound.ParseURL(t.Address)
	if err != nil {
		return failed(shown(err))
	}
	bodies, err := httpBodies(t.Channel, n)
	if err != nil {
		return failed(shown(err))
	}
	w := way{host: "host " + u.Host, address: string(t.Channel) + " " + t.Address, now: n.Status == Test}
	if t.Channel != Webhook {
		w.every = chatEvery
	}
	leave, err := s.lanes.enter(ctx, w)
	if err != nil {
		return held(err)
	}
	defer leave()
	started := time.Now()
	r, pause := s.attempt(ctx, t, u, n.ID, bodies[0])
	if r.Status == http.StatusBadRequest && len(bodies) > 1 {
		r, pause = s.attempt(ctx, t, u, n.ID, bodies[1])
	}
	if pause > 0 {
		s.lanes.pause(w, pause)
	}
	r.Latency = time.Since(started)
	return r
}

// httpBodies returns what to send, and for a chat also what to send when it
// does not take the first.
func httpBodies(c Channel, n Notice) ([][]byte, error) {
	switch c {
	case ChatA:
		rich, plain := chatABodies(n)
		return encode(rich, plain)
	case ChatB:
		rich, plain := chatBBodies(n)
		return encode(rich, plain)
	default: // Webhook
		bodies, err := encode(newWebhookBody(n))
		if err == nil && len(bodies[0]) > maxWebhookBody {
			err = fault.New(fault.TooLarge, "the notice is larger than %d bytes", maxWebhookBody)
		}
		return bodies, err
	}
}

// encode writes <, > and & as they are: the bodies are not for web pages.
func encode(values ...any) (bodies [][]byte, err error) {
	for _, v := range values {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return nil, fault.New(fault.Malformed, "the notice holds a number that JSON cannot carry").Because(err)
		}
		bodies = append(bodies, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
	return bodies, nil
}

// attempt makes one request. It also returns for how long the address should
// be spared, whatever the outcome.
func (s *Sender) attempt(ctx context.Context, t Target, u *url.URL, id string, body []byte) (r Result, pause time.Duration) {
	if t.Channel == ChatB {
		u = awaited(u)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return failed("the address of the alert is not well formed"), 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Whetstone")
	if t.Channel == Webhook {
		if err := sign(req.Header, t.Secrets, id, body); err != nil {
			return failed("webhook_secret " + shown(err)), 0
		}
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return unanswered(err), 0
	}
	defer resp.Body.Close()
	// The status decides; what of the body cannot be read is not missed.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answered(t, resp, text)
}

// unanswered judges an attempt without an answer.
func unanswered(err error) Result {
	if errors.Is(err, context.Canceled) {
		return Result{Outcome: Retry, Detail: "interrupted"}
	}
	if outbound.IsRefused(err) || fault.Is(err, fault.Malformed) {
		return failed(shown(err))
	}
	return Result{Outcome: Retry, Detail: shown(err)}
}

// answered judges an answer.
func answered(t Target, resp *http.Response, body []byte) (r Result, pause time.Duration) {
	r = Result{Outcome: outcomeOf(resp.StatusCode), Status: resp.StatusCode}
	r.Detail = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if resp.StatusCode/100 == 3 {
		r.Detail += ": redirects are not followed, set the alert to the final address"
		return r, 0
	}
	if text := excerpt(body, secretsOf(t)); text != "" {
		r.Detail += ": " + text
	}
	if r.Outcome == Retry {
		r.RetryAfter = retryAfter(t.Channel, resp.Header, body)
	}
	if t.Channel == ChatB {
		pause = rateLimitPause(resp.Header)
	}
	return r, max(pause, r.RetryAfter)
}

func outcomeOf(status int) Outcome {
	switch {
	case status/100 == 2:
		return Delivered
	case status == http.StatusGone:
		return Gone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return Retry
	default:
		return Failed
	}
}

// shown is the part of an error that is for its reader.
func shown(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "the notice could not be sent"
}
