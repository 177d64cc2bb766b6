package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Gate bounds the memory that the bodies of its routes take together. A
// request waits at it for a while, and is then told to come back later.
type Gate struct {
	bytes    *semaphore.Weighted
	capacity int64
}

// NewGate returns a gate that lets bodies of so many bytes in at once.
func NewGate(capacity int64) *Gate {
	return &Gate{bytes: semaphore.NewWeighted(capacity), capacity: capacity}
}

const (
	// gatePatience is how long a request waits at a gate.
	gatePatience = 5 * time.Second
	// inflation is how many times larger than announced a gzipped body is
	// expected to be.
	inflation = 16
)

// enter waits for room and returns how to give it back.
func (g *Gate) enter(req *http.Request, r Route) (leave func(), err error) {
	size := min(g.weigh(req, r), g.capacity)
	wait, cancel := context.WithTimeout(req.Context(), gatePatience)
	defer cancel()
	if err := g.bytes.Acquire(wait, size); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fault.New(fault.Unavailable, "The server is busy; try again").After(gatePatience)
		}
		return nil, err
	}
	return func() { g.bytes.Release(size) }, nil
}

// weigh guesses how much memory the body will take: never more than the route
// allows it to.
func (g *Gate) weigh(req *http.Request, r Route) int64 {
	most := max(r.MaxBody, r.MaxInflated)
	switch {
	case req.ContentLength < 0:
		return most
	case req.Header.Get("Content-Encoding") != "":
		return min(req.ContentLength, most/inflation) * inflation
	}
	return min(req.ContentLength, most)
}
