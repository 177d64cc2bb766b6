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
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// The retries of a call.
const (
	maxAttempts  = 4
	firstBackoff = time.Second // exponential: doubled after each attempt
	maxWait      = time.Minute // longest Retry-After; a call that should wait longer fails
	temperature  = 0.0
)

// model is an endpoint that answers prompts.
type model struct {
	wire       wire
	endpoint   *url.URL
	name       string
	key        string
	secrets    text.Secrets
	http       *outbound.Client
	maxTokens  int
	limiter    *limiter
	negotiated *negotiated
}

// failure is a request without a usable response, and what to do about it.
type failure struct {
	Error
	errorBody *errorBody // set when the server may have refused only a parameter
	retry     bool
}

// exchange makes requests until there is a response, the endpoint refuses all
// of them or the attempts are used up. It adds the usage of each to the record.
// Its error is the context's or an *Error.
func (m *model) exchange(ctx context.Context, c call, rec *Record) (reply, error) {
	for failed := 0; ; {
		c.features = m.negotiated.current()
		r, f, err := m.attempt(ctx, c, rec)
		if err != nil {
			return reply{}, err
		}
		if f == nil {
			return r, nil
		}
		if f.errorBody != nil && m.negotiated.downgrade(m.wire, c, *f.errorBody) {
			continue // the same request without the refused parameter; not counted as an attempt
		}
		if failed++; !f.retry || failed == maxAttempts {
			return reply{}, &f.Error
		}
		if again, err := m.backOff(ctx, f, failed); err != nil {
			return reply{}, err
		} else if !again {
			return reply{}, &f.Error
		}
	}
}

// backOff waits before the next attempt: for Retry-After, or exponentially with
// jitter. It reports false if there should be none, since the wait is too long
// or the caller's deadline comes first.
func (m *model) backOff(ctx context.Context, f *failure, failed int) (bool, error) {
	wait := f.RetryAfter
	if wait == 0 {
		// Jitter of a quarter each way, so that callers who failed together don't retry together.
		wait = time.Duration(float64(firstBackoff<<(failed-1)) * (0.75 + rand.Float64()/2))
	}
	deadline, hasDeadline := ctx.Deadline()
	if wait > maxWait || hasDeadline && deadline.Before(m.limiter.clock.now().Add(wait)) {
		return false, nil
	}
	if f.RetryAfter > 0 {
		m.limiter.pause(wait) // the next attempt waits with the requests of other callers
		return true, nil
	}
	if err := m.limiter.clock.sleep(ctx, wait); err != nil {
		return false, contextError(err)
	}
	return true, nil
}

// attempt makes one request. The error is the context's.
func (m *model) attempt(ctx context.Context, c call, rec *Record) (reply, *failure, error) {
	if err := m.limiter.acquire(ctx); err != nil {
		return reply{}, nil, contextError(err)
	}
	defer m.limiter.release()
	rec.Attempts++
	if c.schema != nil {
		rec.Structured = c.features.structured(m.wire)
	}
	// Reset: an earlier attempt of this call may have had it.
	rec.Temperature = nil
	if c.features.temperature {
		rec.Temperature = new(temperature)
	}
	started := time.Now()
	status, header, body, err := m.post(ctx, m.wire.body(c))
	rec.LatencyMS += time.Since(started).Milliseconds()
	if err != nil {
		return m.classifyTransportError(ctx, err)
	}
	rec.RequestID = requestID(header)
	if status/100 != 2 {
		return reply{}, m.classifyStatus(status, header, body), nil
	}
	r := m.wire.read(body)
	// PostgreSQL refuses NUL characters in text.
	r.text = strings.ReplaceAll(r.text, "\x00", "")
	rec.add(r.usage)
	if r.model != "" {
		rec.Model = excerpt(r.model, 200)
	}
	// Raw is that of the last attempt. It is redacted before it is truncated, as half a secret
	// isn't recognised.
	rec.Raw = text.Truncate(m.redact(r.text), maxRaw)
	return r, nil, nil
}

// post makes the request and reads the whole response. The client limits its size.
func (m *model) post(ctx context.Context, content any) (status int, header http.Header, body []byte, err error) {
	encoded, err := json.Marshal(content)
	if err != nil {
		return 0, nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint.String(), bytes.NewReader(encoded))
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
		return resp.StatusCode, resp.Header, nil, nil // an empty body is not usable, either
	}
	return resp.StatusCode, resp.Header, body, err
}

// classifyTransportError returns the failure of a request without a response.
// The error is the context's.
func (m *model) classifyTransportError(ctx context.Context, err error) (reply, *failure, error) {
	if ctx.Err() != nil {
		return reply{}, nil, contextError(ctx.Err())
	}
	f := &failure{Error: Error{Code: Rejected, Message: "the request to the model's server could not be made", cause: err}}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Message = m.redact(e.Message)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.retry = Timeout, true
	case fault.Is(err, fault.BadGateway):
		f.Code, f.retry = Unavailable, true
	}
	return reply{}, f, nil
}

// classifyStatus returns the failure for a status other than 2xx.
func (m *model) classifyStatus(status int, header http.Header, body []byte) *failure {
	r := parseErrorBody(body)
	message := fmt.Sprintf("the model's server answered HTTP %d", status)
	// The body of a 401 repeats parts of the key, e.g. "sk-ab...yz".
	if detail := excerpt(m.redact(r.message), 300); detail != "" && status != http.StatusUnauthorized {
		message += ": " + detail
	}
	f := &failure{Error: Error{Code: Rejected, Status: status, Message: message}}
	switch {
	case status/100 == 3:
		f.Message += "; redirects are not followed, set --judge-url to the final address"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Stop = true
		f.Message += "; check --judge-key"
	case status == http.StatusNotFound:
		f.Message += "; check --judge-url and --judge-model"
	// The server may have refused only a parameter, which downgrade finds out.
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		f.errorBody = &r
	// The vendors' own SDKs retry the same statuses.
	case status == http.StatusRequestTimeout, status == http.StatusConflict,
		status == http.StatusTooManyRequests, status >= 500:
		f.Code, f.retry = Unavailable, true
		f.RetryAfter, _ = outbound.RetryAfter(header, time.Now())
	}
	if id := requestID(header); id != "" {
		f.Message += " (request " + id + ")"
	}
	return f
}

// requestID is the id that the server's support asks for.
func requestID(header http.Header) string {
	return excerpt(cmp.Or(header.Get("Request-Id"), header.Get("X-Request-Id")), 100)
}

// redact removes the secrets from a text that is stored or logged: servers often echo
// the request. An answer is redacted after its verdict, which must not depend on
// the key.
func (m *model) redact(s string) string { return m.secrets.Redact(s) }
