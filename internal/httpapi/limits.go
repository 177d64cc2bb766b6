package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
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

type limiter struct {
	db *store.DB
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
	err = l.db.InGroup(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `
			INSERT INTO rate_windows (subject, starts_at, ends_at, requests) VALUES ($1, $2, $3, 1)
			ON CONFLICT (subject, starts_at) DO UPDATE SET requests = rate_windows.requests + 1
			RETURNING requests`, subject, store.Micros(start), store.Micros(end))
		c.requests, err = store.One(rows, err, "Rate window", store.Value[int])
		return err
	})
	return c, err
}

// Sweep removes the counts of periods that are over. It is run on a schedule.
func (a *API) Sweep(ctx context.Context) error {
	_, err := a.limiter.db.Exec(ctx, `DELETE FROM rate_windows WHERE ends_at < $1`, store.Micros(time.Now()))
	return err
}
