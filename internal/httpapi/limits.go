package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/batch"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Limit bounds how many requests a subject may make on a route in each
// period. It is counted in the database, where all replicas see it.
type Limit struct {
	Requests int
	Per      time.Duration
	By       Subject
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
		who, _, _ = net.SplitHostPort(req.RemoteAddr)
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
	groups *batch.Groups[window, *int]
}

// A window is a period of a subject, in microseconds.
type window struct {
	subject    string
	start, end int64
}

// maxCounted is how many requests are counted together.
const maxCounted = 256

func newLimiter(db *store.DB) limiter {
	count := func(w window, calls []*batch.Call[*int]) {
		// The first may have gone, but not the others.
		now, err := countRequests(context.WithoutCancel(calls[0].Ctx), db, w, len(calls))
		for i, c := range calls {
			*c.Value = now - len(calls) + 1 + i
			c.Answer(err)
		}
	}
	return limiter{db: db, groups: &batch.Groups[window, *int]{Run: count, Max: maxCounted}}
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
	err = l.groups.Do(ctx, window{subject, store.Micros(start), store.Micros(end)}, &c.requests)
	return c, err
}

// Sweep removes the counts of periods that are over. It is run on a schedule.
func (a *API) Sweep(ctx context.Context) error {
	return deleteOverWindows(ctx, a.limiter.db, time.Now())
}
