package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fair"
	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Limit is a rate limit: how many requests a subject may make on a route in each
// fixed window of time. It is counted in the database, which all replicas share,
// unless it is local.
type Limit struct {
	Requests int
	Per      time.Duration
	By       Subject
	// Local limits are token buckets in the memory of each process, for routes
	// where a transaction would cost more than the answer. They are by address.
	Local bool
	// Failures, for the forms of pages, counts only failed requests, after they
	// failed: wrong passwords of others behind the same address do not block a
	// right one.
	Failures bool
}

// PublicLimit is for anonymous requests that are cheap to answer. It is far above
// the legitimate traffic of one address.
func PublicLimit() *Limit {
	return &Limit{Requests: 6000, Per: time.Minute, By: ByAddress, Local: true}
}

// A Subject is what a limit counts requests by.
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

// A limiter counts requests in the database. Concurrent requests of a subject are
// counted in one statement, since each would wait for the commit of the one before.
type limiter struct {
	db     *store.DB
	groups *fair.GroupCommit[window, *int]
	// full caches windows whose limit is reached, for which nothing more is
	// written: an attacker over the limit costs no transactions.
	full *lru.Cache[window, struct{}]
}

// A window is a period of a subject, in microseconds since the epoch.
type window struct {
	subject    string
	start, end int64
}

const (
	maxGroup       = 256     // requests that are counted in one statement
	maxFullWindows = 8 << 10 // in the cache
)

func newLimiter(db *store.DB) limiter {
	count := func(w window, calls []*fair.GroupCall[*int]) {
		// The first client may have disconnected, but not the others.
		now, err := countRequests(context.WithoutCancel(calls[0].Ctx), db, w, len(calls))
		for i, c := range calls {
			*c.Value = now - len(calls) + 1 + i
			c.Answer(err)
		}
	}
	return limiter{
		db: db, groups: &fair.GroupCommit[window, *int]{Commit: count, MaxSize: maxGroup},
		full: lru.New[window, struct{}](maxFullWindows),
	}
}

type count struct {
	requests    int
	secondsLeft int
}

// take counts one request in the current window.
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

// Sweep deletes the counts of past windows. It runs on a schedule.
func (a *API) Sweep(ctx context.Context) error {
	return deletePastWindows(ctx, a.limiter.db, time.Now())
}
