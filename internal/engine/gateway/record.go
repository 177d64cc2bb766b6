package gateway

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// An Exchange is a request and its answer, as far as they are kept.
type Exchange struct {
	At       time.Time
	Duration time.Duration
	Path     string
	Status   int  // 0 if there was no answer
	Metered  bool // it is one that costs, unlike counting tokens
	Tokens   pricing.Tokens
	// Request is the end of the request: each one repeats the conversation before
	// it. Answer is the beginning of the answer.
	Request, Answer string
}

// Limits of one exchange in the record.
const (
	maxRecordedRequest = 16 << 10
	maxRecordedAnswer  = 64 << 10
	maxExchanges       = 1_000
)

// A record keeps exchanges until its bytes are used up. The first ones are kept, since they show
// how the agent began; every later one repeats the conversation anyway.
type record struct {
	exchanges []Exchange
	left      int
}

func (r *record) add(e Exchange) {
	if len(r.exchanges) == maxExchanges || r.left <= 0 {
		return
	}
	e.Answer = e.Answer[:min(len(e.Answer), r.left)]
	r.left -= len(e.Answer)
	e.Request = e.Request[len(e.Request)-min(len(e.Request), r.left):]
	r.left -= len(e.Request)
	r.exchanges = append(r.exchanges, e)
}

// A head keeps the first bytes that are written to it.
type head struct {
	limit int
	kept  []byte
}

// Write implements io.Writer. It never fails.
func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}
