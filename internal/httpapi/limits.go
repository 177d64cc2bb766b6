package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Limit bounds how many requests a subject may make on a route in each
// period. It is counted in the database, where all replicas see it, unless it
// is local.
type Limit struct {
	Requests int
	Per      time.Duration
	By       Subject
	// Local limits are counted by each process in its memory, for routes where
	// a transaction would cost more than the answer. They are by address.
	Local bool
	// Failures, for the forms of pages, counts only requests that failed, after
	// they did: what others behind the same address got wrong keeps nobody from
	// getting it right.
	Failures bool
}

// PublicLimit is for what anybody may read and is cheap to answer. It is far
// above what people and their machines do behind one address.
func PublicLimit() *Limit {
	return &Limit{Requests: 6000, Per: time.Minute, By: ByAddress, Local: true}
}

// A Subject is who a limit counts.
type Subject int

// The subjects.
const (
	ByOrg Subject = iota
	ByKey
	ByAddress // for routes without a key
)

func (l Limit) subject(req *http.Request, r Route, c access.Caller) string {
	var who string
	switch l.By {
	case ByOrg:
		who = c.OrgID
	case ByKey:
		who = c.KeyID
	case ByAddress:
		who = network(ClientAddr(req.Context())).String()
	}
	return r.Method + " " + r.Path + " " + who
}

func (l Limit) period() string {
	switch l.Per {
	case time.Hour:
		return "hour"
	case time.Minute:
		return "minute"
	}
	return l.Per.String()
}

// A limiter counts requests. Those of a subject that come at the same time are
// counted together: each would wait for the commit of the one before.
type limiter struct {
	db     *store.DB
	groups *store.GroupCommit[window, *int]
	// full are windows whose limit was reached: nothing more is written for them.
	full *lru.Cache[window, struct{}]
}

// A window is a period of a subject, in microseconds.
type window struct {
	subject    string
	start, end int64
}

const (
	maxCounted = 256     // requests that are counted together
	maxFull    = 8 << 10 // windows that are known to be full
)

func newLimiter(db *store.DB) limiter {
	count := func(w window, calls []*store.GroupCall[*int]) {
		// The first may have gone, but not the others.
		now, err := countRequests(context.WithoutCancel(calls[0].Ctx), db, w, len(calls))
		for i, c := range calls {
			*c.Value = now - len(calls) + 1 + i
			c.Answer(err)
		}
	}
	return limiter{
		db: db, groups: &store.GroupCommit[window, *int]{Commit: count, MaxSize: maxCounted},
		full: lru.New[window, struct{}](maxFull),
	}
}

type count struct {
	requests    int
	secondsLeft int
}

// take counts one request in the period that is now.
func (l limiter) take(ctx context.Context, subject string, limit Limit) (c count, err error) {
	now := time.Now()
	start := now.Truncate(limit.Per)
	end := start.Add(limit.Per)
	c.secondsLeft = int(end.Sub(now).Seconds()) + 1
	w := window{subject, store.Micros(start), store.Micros(end)}
	if _, full := l.full.Get(w); full {
		c.requests = limit.Requests + 1
		return c, nil
	}
	err = l.groups.Do(ctx, w, &c.requests)
	if err == nil && c.requests > limit.Requests {
		l.full.Put(w, struct{}{}, 1)
	}
	return c, err
}

// Sweep removes the counts of periods that are over. It is run on a schedule.
func (a *API) Sweep(ctx context.Context) error {
	return deleteOverWindows(ctx, a.limiter.db, time.Now())
}
