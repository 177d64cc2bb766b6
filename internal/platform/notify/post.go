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
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// maxWebhookBody is the largest body that is sent to a webhook, in bytes.
const maxWebhookBody = 20_000

// A Message is sent to a webhook as it is.
type Message struct {
	ID   string // as that of a Notice
	Body []byte // JSON
	// Immediate ignores the pause that the receiver has asked for: a person waits for
	// the result.
	Immediate bool
}

// Post makes one attempt to send a signed message, as Send does with notices.
func (s *Sender) Post(ctx context.Context, t Target, m Message) Result {
	switch {
	case t.Channel != Webhook:
		return failed("only a webhook takes messages")
	case !isID(m.ID):
		return failed("the message has no usable id")
	case len(m.Body) > maxWebhookBody:
		return failed(fmt.Sprintf("the message is larger than %d bytes", maxWebhookBody))
	}
	return s.send(ctx, t, m)
}

// send makes one attempt, and another one with the plain body, if there is one, when
// the first is refused.
func (s *Sender) send(ctx context.Context, t Target, m Message, plain ...[]byte) Result {
	u, err := outbound.ParseURL(t.Address)
	if err != nil {
		return failed(publicMessage(err))
	}
	d := delivery{host: "host " + u.Host, address: string(t.Channel) + " " + t.Address, immediate: m.Immediate}
	if t.Channel != Webhook {
		d.interval = chatInterval
	}
	release, err := s.limiter.acquire(ctx, d)
	if err != nil {
		return notSent(err)
	}
	defer release()
	started := time.Now()
	// A chat that dislikes the rich form would refuse it on every retry. A second
	// try with plain text loses the formatting, not the alert.
	r, pause := s.attempt(ctx, t, u, m.ID, m.Body)
	if r.Status == http.StatusBadRequest && len(plain) > 0 {
		r, pause = s.attempt(ctx, t, u, m.ID, plain[0])
	}
	if pause > 0 {
		s.limiter.pause(d, pause)
	}
	r.Latency = time.Since(started)
	return r
}

// httpBodies returns the body to send, and for a chat also the plain one to
// send if the first is refused.
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

// encode does not escape <, > and &: the bodies are not embedded in HTML.
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

// attempt makes one request. It also returns how long to send nothing to the
// address, whatever the outcome.
func (s *Sender) attempt(
	ctx context.Context, t Target, u *url.URL, id string, body []byte,
) (r Result, pause time.Duration) {
	if t.Channel == ChatB {
		u = withWait(u)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return failed("the address is not well formed"), 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Whetstone")
	if t.Channel == Webhook {
		if err := sign(req.Header, t.Secrets, id, body); err != nil {
			return failed("webhook_secret " + publicMessage(err)), 0
		}
	}
	resp, err := s.http.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return Result{Outcome: Retry, Detail: "interrupted"}, 0
	case outbound.IsRefused(err), fault.Is(err, fault.Malformed):
		return failed(publicMessage(err)), 0
	case err != nil:
		return Result{Outcome: Retry, Detail: publicMessage(err)}, 0
	}
	defer resp.Body.Close()
	// The status decides the outcome; the body is only for the excerpt.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	return classifyResponse(t, resp, text)
}

// publicMessage returns the part of an error that may be shown.
func publicMessage(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "the notice could not be sent"
}
