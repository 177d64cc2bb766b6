package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// How a call tries.
const (
	maxAttempts = 4
	firstWait   = time.Second // doubled after each attempt
	maxWait     = time.Minute // that a server can ask for before the call gives up
	temperature = 0.0
)

// model is an endpoint that answers prompts.
type model struct {
	wire      wire
	endpoint  *url.URL
	name      string
	key       string
	http      *outbound.Client
	maxTokens int
	prices    Prices
	lane      *lane
	memory    *memory

	mu   sync.Mutex
	used Totals
}

// failure is a request without an answer, and what it means.
type failure struct {
	Error
	refusal *refusal // set when the server may refuse a parameter only
	retry   bool
}

// exchange makes requests until there is an answer, the endpoint refuses all
// of them or the attempts are used up. It adds to the record what each used.
// Its error is the context's or an *Error.
func (m *model) exchange(ctx context.Context, c call, rec *Record) (reply, error) {
	for failed := 0; ; {
		c.able = m.memory.get()
		r, f, err := m.attempt(ctx, c, rec)
		if err != nil {
			return reply{}, err
		}
		if f == nil {
			return r, nil
		}
		if f.refusal != nil && m.memory.learn(m.wire, c, *f.refusal) {
			continue
		}
		if failed++; !f.retry || failed == maxAttempts {
			return reply{}, &f.Error
		}
		if again, err := m.wait(ctx, f, failed); err != nil {
			return reply{}, err
		} else if !again {
			return reply{}, &f.Error
		}
	}
}

// wait lets time pass before the next attempt. It reports false when there is
// no use in one: the server wants to be left alone for too long, or the
// caller's deadline comes first.
func (m *model) wait(ctx context.Context, f *failure, failed int) (bool, error) {
	wait := f.RetryAfter
	if wait == 0 {
		wait = time.Duration(float64(firstWait<<(failed-1)) * (0.75 + rand.Float64()/2))
	}
	deadline, bounded := ctx.Deadline()
	if wait > maxWait || bounded && deadline.Before(m.lane.clock.now().Add(wait)) {
		return false, nil
	}
	if f.RetryAfter > 0 {
		m.lane.pause(wait) // the next attempt rests with all the others
		return true, nil
	}
	if err := m.lane.clock.sleep(ctx, wait); err != nil {
		return false, ended(err)
	}
	return true, nil
}

// attempt makes one request. The error is the context's.
func (m *model) attempt(ctx context.Context, c call, rec *Record) (reply, *failure, error) {
	if err := m.lane.enter(ctx); err != nil {
		return reply{}, nil, ended(err)
	}
	defer m.lane.leave()
	rec.Attempts++
	if c.schema != nil {
		rec.Structured = c.able.structured(m.wire)
	}
	rec.Temperature = nil
	if c.able.temperature {
		rec.Temperature = new(temperature)
	}
	started := time.Now()
	status, header, body, err := m.post(ctx, m.wire.body(c))
	rec.LatencyMS += time.Since(started).Milliseconds()
	if err != nil {
		return m.unanswered(ctx, err)
	}
	rec.RequestID = requestID(header)
	if status/100 != 2 {
		return reply{}, m.declined(status, header, body), nil
	}
	r := m.wire.read(body)
	r.text = m.redacted(strings.ReplaceAll(r.text, "\x00", ""))
	spent := Usage{InputTokens: r.input, OutputTokens: r.output}
	spent.Cost = m.prices.of(spent)
	rec.add(spent)
	if r.model != "" {
		rec.Model = oneLine(r.model, 200)
	}
	rec.Raw = bounded(r.text, maxRaw)
	return r, nil, nil
}

func (m *model) post(ctx context.Context, content any) (status int, header http.Header, body []byte, err error) {
	text, err := json.Marshal(content)
	if err != nil {
		return 0, nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint.String(), bytes.NewReader(text))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Whetstone")
	m.wire.header(req.Header, m.key)
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if fault.Is(err, fault.TooLarge) {
		return resp.StatusCode, resp.Header, nil, nil // no answer that anybody could use
	}
	return resp.StatusCode, resp.Header, body, err
}

// unanswered says what a request without an answer means. The error is the
// context's.
func (m *model) unanswered(ctx context.Context, err error) (reply, *failure, error) {
	if ctx.Err() != nil {
		return reply{}, nil, ended(ctx.Err())
	}
	f := &failure{Error: Error{Code: Rejected, Message: "the request to the model's server could not be made", cause: err}}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Message = m.redacted(e.Message)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.retry = Timeout, true
	case fault.Is(err, fault.BadGateway):
		f.Code, f.retry = Unavailable, true
	}
	return reply{}, f, nil
}

// declined says what a status other than success means.
func (m *model) declined(status int, header http.Header, body []byte) *failure {
	r := readRefusal(body)
	f := &failure{Error: Error{Code: Rejected, Status: status, Message: fmt.Sprintf("the model's server answered HTTP %d", status)}}
	if text := oneLine(m.redacted(r.message), 300); text != "" && status != http.StatusUnauthorized {
		f.Message += ": " + text
	}
	switch {
	case status/100 == 3:
		f.Message += "; redirects are not followed, set --judge-url to the final address"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Stop = true
		f.Message += "; check --judge-key"
	case status == http.StatusNotFound:
		f.Message += "; check --judge-url and --judge-model"
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		f.refusal = &r
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500:
		f.Code, f.retry = Unavailable, true
		f.RetryAfter = retryAfter(header.Get("Retry-After"))
	}
	if id := requestID(header); id != "" {
		f.Message += " (request " + id + ")"
	}
	return f
}

// retryAfter reads seconds or a date; what is neither is no wish.
func retryAfter(value string) time.Duration {
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		if !(s > 0) {
			return 0
		}
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// requestID is what the server's people ask for when something is wrong.
func requestID(header http.Header) string {
	return oneLine(cmp.Or(header.Get("Request-Id"), header.Get("X-Request-Id")), 100)
}

// redacted takes the key out of a stranger's text: servers like to repeat what
// they were asked with.
func (m *model) redacted(text string) string {
	if m.key == "" {
		return text
	}
	return strings.ReplaceAll(text, m.key, "[secret]")
}

func (m *model) count(rec Record, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Calls++
	if failed {
		m.used.Errors++
	}
	m.used.add(rec.Usage)
}

func (m *model) totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
