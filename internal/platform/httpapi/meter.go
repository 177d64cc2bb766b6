package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// What a body costs of the memory budget. The figures are upper bounds of what was
// measured with bodies that were made to take as much as they can.
const (
	// byteCost is per byte: for the buffer it is read into, which grows by
	// doubling, and the strings that are decoded from it.
	byteCost = 4
	// valueCost is per value of a JSON body: a suite of [0,0,0...] takes 305 bytes
	// for each case that its schema refuses, a push 170 for each record.
	valueCost = 320
	// meterStep is how much is read before memory is reserved for it.
	meterStep = 256 << 10
)

// A meteredReader reserves memory for what is read from it: not for what a header
// announces, and for the decompressed bytes of a compressed body.
type meteredReader struct {
	from  io.Reader
	ctx   context.Context
	share *memoryShare
	// failed keeps a problem as the cause of later ones.
	failed func(*fault.Error) *fault.Error

	values    *valueCounter // nil if the body is not JSON
	counted   int64
	maxValues int64
}

// meter returns a reader that reserves memory for what the request sends. The
// memory is released after the answer.
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
	if m.share = budget.share(req.Context()); ok {
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
			return 0, m.failed(fault.New(fault.TooLarge,
				"The body is over the limit of %d values; send smaller batches", m.maxValues))
		}
	}
	if err := m.share.Grow(m.ctx, cost); err != nil {
		if busy, ok := errors.AsType[*fault.Error](err); ok {
			return 0, m.failed(busy)
		}
		return 0, err
	}
	return n, err
}

// ReserveMemory reserves memory for what an operation decodes its body into,
// where that is more than the body's bytes suggest. It is released after the
// answer. Outside of a request it does nothing.
func ReserveMemory(ctx context.Context, n int64) error {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok && s.memory != nil {
		return s.memory.Grow(ctx, n)
	}
	return nil
}

// newValueCounter returns nil if the body is not JSON.
func newValueCounter(r Route, isJSON bool, req *http.Request) *valueCounter {
	media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")) // JSON if there is none
	if !isJSON && (r.MaxValues == 0 || media == "application/x-protobuf") {
		return nil
	}
	return &valueCounter{}
}

// A valueCounter counts the values of a JSON text that is read in chunks: every
// array or object starts one, and every comma another.
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
