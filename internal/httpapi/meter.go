package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// What a body takes of the memory budget. The figures are upper bounds of what
// was measured with bodies made to take as much as they can.
const (
	// byteCost is for each byte: the buffer it is read into, which grows by
	// doubling, and the texts that are decoded from it.
	byteCost = 4
	// valueCost is for each value of a JSON body: a suite of [0,0,0...] takes 305
	// bytes for each case that its schema refuses, a push 170 for each record.
	valueCost = 320
	// meterStep is how much is read before memory is taken for it.
	meterStep = 256 << 10
)

// A meteredReader takes memory for what comes out of it: not for what a header
// announces, and of a compressed body for what it inflates to.
type meteredReader struct {
	from  io.Reader
	ctx   context.Context
	share *share
	// failed keeps a problem as the cause of those that follow from it.
	failed func(*fault.Error) *fault.Error

	values    *valueCounter // nil if the body is no JSON
	counted   int64
	maxValues int64
}

// meter returns a reader that takes memory for what the request sends. It is
// given back when the request has been answered.
func (a *API) meter(req *http.Request, public bool, from io.Reader) *meteredReader {
	m := &meteredReader{from: from, ctx: req.Context(), failed: func(e *fault.Error) *fault.Error { return e }}
	budget := a.memory
	if public {
		budget = a.publicMemory
	}
	s, ok := req.Context().Value(stateKey{}).(*requestState)
	if ok && s.memory != nil {
		m.share = s.memory
		return m
	}
	if m.share = budget.share(); ok {
		s.memory = m.share
	}
	return m
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.from.Read(p[:min(len(p), meterStep)])
	cost := int64(n) * byteCost
	if m.values != nil {
		values := m.values.count(p[:n])
		cost += values * valueCost
		if m.counted += values; m.counted > m.maxValues {
			return 0, m.failed(tooManyValues(m.maxValues))
		}
	}
	if err := m.share.grow(m.ctx, cost); err != nil {
		if busy, ok := errors.AsType[*fault.Error](err); ok {
			return 0, m.failed(busy)
		}
		return 0, err
	}
	return n, err
}

func tooManyValues(limit int64) *fault.Error {
	return fault.New(fault.TooLarge, "The body is over the limit of %d values; send smaller batches", limit)
}

// TakeMemory takes memory for what an operation is about to decode its body
// into, where that is more than the frame can tell from the bytes. It is given
// back when the request has been answered. Without a request it takes nothing.
func TakeMemory(ctx context.Context, n int64) error {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok && s.memory != nil {
		return s.memory.grow(ctx, n)
	}
	return nil
}

// valuesOf returns what counts the values of a body, or nil if it is no JSON.
func valuesOf(r Route, op *huma.Operation, req *http.Request) *valueCounter {
	media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")) // without one it is JSON
	if op.RequestBody.Content[jsonType] == nil && (r.MaxValues == 0 || media == "application/x-protobuf") {
		return nil
	}
	return &valueCounter{}
}

// A valueCounter counts the values of a JSON text that comes in pieces: each
// array and object begins with one, and each comma begins another.
type valueCounter struct {
	inString, escaped bool
}

func (c *valueCounter) count(p []byte) (values int64) {
	for _, b := range p {
		switch {
		case c.escaped:
			c.escaped = false
		case b == '"':
			c.inString = !c.inString
		case c.inString:
			c.escaped = b == '\\'
		case b == ',' || b == '[' || b == '{':
			values++
		}
	}
	return values
}
