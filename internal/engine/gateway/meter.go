package gateway

import (
	"context"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// A Usage is what requests have used.
type Usage struct {
	Requests int64
	Tokens   pricing.Tokens
	Micros   int64 // millionths of a dollar, of the requests whose price is known
	// Unpriced is the number of requests whose price is unknown.
	Unpriced int64
	// Estimated is the number of requests whose tokens the server did not report,
	// e.g. since the program did not read the answer to its end.
	Estimated int64
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	u.Requests += v.Requests
	u.Tokens = pricing.Tokens{
		Input: u.Tokens.Input + v.Tokens.Input, Output: u.Tokens.Output + v.Tokens.Output,
		CacheRead:  u.Tokens.CacheRead + v.Tokens.CacheRead,
		CacheWrite: u.Tokens.CacheWrite + v.Tokens.CacheWrite, CacheWriteHour: u.Tokens.CacheWriteHour + v.Tokens.CacheWriteHour,
	}
	u.Micros += v.Micros
	u.Unpriced += v.Unpriced
	u.Estimated += v.Estimated
	return u
}

// USD returns the money in dollars, or nil if a price is unknown.
func (u Usage) USD() *float64 {
	if u.Unpriced > 0 {
		return nil
	}
	return new(pricing.Dollars(u.Micros))
}

func (u Usage) tokens() int64 {
	t := u.Tokens
	return t.Input + t.Output + t.CacheRead + t.CacheWrite
}

// A Budget is the most that requests may use. A zero field is no limit.
type Budget struct {
	Requests int64
	Tokens   int64 // of all kinds
	Micros   int64
}

// spent reports whether nothing is left of the budget once the amount held is
// used, too.
func (b Budget) spent(u Usage, held amount) bool {
	return b.Requests > 0 && u.Requests >= b.Requests ||
		b.Tokens > 0 && u.tokens()+held.tokens >= b.Tokens ||
		b.Micros > 0 && u.Micros+held.micros >= b.Micros
}

// An amount is what one request uses, or several hold.
type amount struct{ tokens, micros int64 }

// A Meter counts what requests use, against a budget. The meter of a trial has
// that of its run as parent: a request counts in both and needs something left
// of both budgets. It is safe for concurrent use.
//
// What a request will cost is not known before it is answered. Each one in flight
// holds the most that it can cost, and one begins only while the budget has more
// left than what is held; the others wait. Until a first answer shows what this
// model costs, one request is in flight at a time. So a budget is exceeded by at
// most one request, however many are made at the same time.
type Meter struct {
	parent *Meter
	budget Budget
	ledger *ledger
	// spent is closed on the first refusal, not when the budget runs out: the last request may have
	// ended the task.
	spent chan struct{}

	used    Usage
	flying  int    // requests in flight that cost something
	held    amount // by them
	known   bool   // a request was answered, so that largest is known
	largest amount // of one request
}

// A ledger is what a meter and all its children share. One mutex for the whole tree: a request
// changes all meters up to the root at once.
type ledger struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a request has ended
}

// NewMeter returns a meter with what was used before. The parent may be nil.
func NewMeter(b Budget, used Usage, parent *Meter) *Meter {
	m := &Meter{parent: parent, budget: b, used: used, spent: make(chan struct{})}
	if parent != nil {
		m.ledger = parent.ledger
	} else {
		m.ledger = &ledger{changed: make(chan struct{})}
	}
	return m
}

// Used returns what was used so far. Requests in flight count, but not yet what
// they use.
func (m *Meter) Used() Usage {
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	return m.used
}

// Add counts usage outside the gateway against the same budget, e.g. that of a judge. It never
// refuses: what was used was used.
func (m *Meter) Add(u Usage) {
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	for at := m; at != nil; at = at.parent {
		at.used = at.used.Plus(u)
		at.saw(u)
		at.known = true
	}
}

// Reserve makes work outside the gateway wait its turn as requests do: it holds as much as the
// largest so far has cost. Call Add with what the work has used, and then release. The function is
// nil if the budget is spent, or the context has ended.
func (m *Meter) Reserve(ctx context.Context) (release func()) {
	h := m.begin(ctx, amount{tokens: 1, micros: 1})
	if h == nil {
		return nil
	}
	return func() { h.end(Usage{Requests: -1}) } // Add has counted the requests
}

// Spent is closed when a request is refused because nothing is left of the
// budget.
func (m *Meter) Spent() <-chan struct{} { return m.spent }

// IsSpent reports whether Spent is closed.
func (m *Meter) IsSpent() bool {
	select {
	case <-m.spent:
		return true
	default:
		return false
	}
}

// A hold is the most that a request in flight may use.
type hold struct {
	meter *Meter
	amount
	free bool
}

// begin counts a request that uses an amount at most; one of zero is free. It waits
// while the requests in flight may use up what is left. It returns nil if a budget
// is spent, or the context has ended.
func (m *Meter) begin(ctx context.Context, most amount) *hold {
	for {
		h, changed := m.tryBegin(most)
		if changed == nil {
			return h
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryBegin begins a request or says why not: a channel to wait for, or neither if a budget is
// spent. All meters up to the root are checked before the first one is changed.
func (m *Meter) tryBegin(most amount) (_ *hold, changed <-chan struct{}) {
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	free := most == amount{}
	for at := m; at != nil; at = at.parent {
		if at.budget.spent(at.used, amount{}) {
			if !at.IsSpent() {
				close(at.spent)
			}
			return nil, nil
		}
		if free {
			continue
		}
		if at.mustWait() {
			return nil, m.ledger.changed
		}
		// It may cost more than its size says, e.g. with a picture by its URL.
		most.tokens, most.micros = max(most.tokens, at.largest.tokens), max(most.micros, at.largest.micros)
	}
	h := &hold{m, most, free}
	for at := m; at != nil; at = at.parent {
		at.used.Requests++
		at.held.tokens += most.tokens
		at.held.micros += most.micros
		if !free {
			at.flying++
		}
	}
	return h, nil
}

// mustWait reports whether the requests in flight may use up what is left.
func (m *Meter) mustWait() bool {
	limited := m.budget.Tokens > 0 || m.budget.Micros > 0
	return limited && !m.known && m.flying > 0 || m.budget.spent(m.used, m.held)
}

// saw learns what one request may use; the ledger is locked.
func (m *Meter) saw(u Usage) {
	m.largest.tokens, m.largest.micros = max(m.largest.tokens, u.tokens()), max(m.largest.micros, u.Micros)
	m.known = m.known || u.tokens() > 0
}

// end replaces the hold by what the request used, and wakes up all that wait.
func (h *hold) end(u Usage) {
	l := h.meter.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := h.meter; at != nil; at = at.parent {
		at.held.tokens -= h.tokens
		at.held.micros -= h.micros
		at.saw(u)
		at.used = at.used.Plus(u)
		if !h.free {
			at.flying--
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}
