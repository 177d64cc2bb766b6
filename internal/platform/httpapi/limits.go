package httpapi

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
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
	// InTx limits are counted by the handler in the transaction of its work, with
	// CountInTx, since one of their own takes as long as a small body does. Requests
	// that it does not count, e.g. invalid ones, are counted before their answer.
	InTx bool
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

// answer sets the RateLimit headers. Over the limit it also refuses the request.
func (l Limit) answer(h http.Header, used count) error {
	reset := strconv.Itoa(used.secondsLeft)
	h.Set("RateLimit-Limit", strconv.Itoa(l.Requests))
	h.Set("RateLimit-Remaining", strconv.Itoa(max(0, l.Requests-used.requests)))
	h.Set("RateLimit-Reset", reset)
	if used.requests > l.Requests {
		h.Set("Retry-After", reset)
		return fault.New(fault.Limited, "Rate limit of %d requests per %s reached; try again in %s s", l.Requests,
			l.period(), reset)
	}
	return nil
}

// A limiter is the rate limiter of incoming requests: it counts them in the database. Those
// of outgoing ones are in notify, judge and host. Concurrent requests of a subject are
// counted in one statement, since each would wait for the commit of the one before.
type limiter struct {
	db     *store.DB
	groups *fair.GroupCommit[window, *int]
	// counts caches the counts that this process knows. When a limit is reached, nothing
	// more is written: an attacker over the limit costs no transactions.
	counts *lru.Cache[window, int]
}

// A window is a period of a subject, in microseconds since the epoch.
type window struct {
	subject    string
	start, end int64
}

func newWindow(subject string, per time.Duration) window {
	start := time.Now().Truncate(per)
	return window{subject, store.Micros(start), store.Micros(start.Add(per))}
}

// used is a count of requests in the window.
func (w window) used(requests int) count {
	return count{requests: requests, secondsLeft: int(max(0, w.end-store.Micros(time.Now()))/1e6) + 1}
}

const (
	maxGroup  = 256     // requests that are counted in one statement
	maxCounts = 8 << 10 // windows in the cache
)

func newLimiter(db *store.DB) limiter {
	counts := lru.New[window, int](maxCounts)
	commit := func(w window, calls []*fair.GroupCall[*int]) {
		// The first client may have disconnected, but not the others.
		now, err := store.Returning(context.WithoutCancel(calls[0].Ctx), db, "Rate window", store.Value[int],
			addRequests, w.subject, w.start, w.end, len(calls))
		if err == nil {
			counts.Put(w, now, 1)
		}
		for i, c := range calls {
			*c.Value = now - len(calls) + 1 + i
			c.Answer(err)
		}
	}
	return limiter{db: db, groups: &fair.GroupCommit[window, *int]{Commit: commit, MaxSize: maxGroup}, counts: counts}
}

type count struct {
	requests    int
	secondsLeft int
}

// take counts one request in a window.
func (l limiter) take(ctx context.Context, w window, limit Limit) (count, error) {
	if known, _ := l.counts.Get(w); known > limit.Requests {
		return w.used(known), nil
	}
	var requests int
	err := l.groups.Do(ctx, w, &requests)
	return w.used(requests), err
}

// hasRoom tells whether a window is known to be far from its limit. Near it, requests
// are counted before anything else is done for them.
func (l limiter) hasRoom(w window, limit Limit) bool {
	known, ok := l.counts.Get(w)
	return ok && known < limit.Requests*9/10
}

// An uncounted request is counted by its handler, or before its answer.
type uncounted struct {
	request  context.Context
	limiter  limiter
	window   window
	limit    Limit
	requests int // in its window, with this one; 0 until its handler counts it
	// secondsLeft is what a refusal in the transaction says: the header says the same.
	secondsLeft int
}

// CountInTx counts requests, which are given by their contexts, if their route has a
// limit that is InTx. Over the limit it fails, and the transaction must not be committed.
func CountInTx(ctx context.Context, tx *store.Tx, requests ...context.Context) error {
	windows := map[window][]*uncounted{}
	for _, r := range requests {
		if s, ok := r.Value(stateKey{}).(*requestState); ok && s.uncounted != nil {
			windows[s.uncounted.window] = append(windows[s.uncounted.window], s.uncounted)
		}
	}
	oldestFirst := func(a, b window) int { return cmp.Compare(a.start, b.start) } // one lock order prevents deadlocks
	for _, w := range slices.SortedFunc(maps.Keys(windows), oldestFirst) {
		all := windows[w]
		rows, err := tx.Query(ctx, addRequests, w.subject, w.start, w.end, len(all))
		now, err := store.One(rows, err, "Rate window", store.Value[int])
		if err != nil {
			return err
		}
		used := w.used(now)
		for i, u := range all {
			u.requests, u.secondsLeft = now-len(all)+1+i, used.secondsLeft
		}
		if err := all[0].limit.answer(http.Header{}, used); err != nil {
			return err
		}
	}
	return nil
}

// settle sets the RateLimit headers of a request that its handler was to count. If it did
// not, or its transaction was not committed, the request is counted here.
func (s *requestState) settle(h http.Header, status int) {
	u := s.uncounted
	if u == nil {
		return
	}
	used := u.window.used(u.requests)
	if u.requests == 0 || status >= http.StatusBadRequest {
		var err error
		if used, err = u.limiter.take(context.WithoutCancel(u.request), u.window, u.limit); err != nil {
			return // the answer matters more than its headers
		}
	} else {
		u.limiter.counts.Put(u.window, u.requests, 1)
	}
	if u.secondsLeft != 0 {
		used.secondsLeft = u.secondsLeft
	}
	_ = u.limit.answer(h, used) // the answer is known already
}

// buckets are the local rate limits: a token bucket per address and route. Each
// process counts for itself and starts anew after a restart. That is enough where
// a limit only bounds the cost of requests, and needs no transaction.
type buckets struct {
	mu    sync.Mutex
	cache *lru.Cache[bucketKey, *bucket]
}

type bucketKey struct {
	method, path string
	addr         netip.Addr
}

// A bucket holds the tokens, i.e. requests, that an address has left.
type bucket struct {
	tokens   float64
	filledAt time.Time
}

// maxBuckets bounds the memory of all buckets: each takes some 300 bytes.
const maxBuckets = 32 << 10

// take takes a token out of the bucket of an address. Loopback addresses have no
// limit: they are processes of this machine, or a reverse proxy that is not
// declared as trusted, whose clients cannot be told apart.
func (b *buckets) take(r Route, addr netip.Addr, now time.Time) count {
	full := float64(r.Limit.Requests)
	if addr.IsLoopback() {
		return count{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := bucketKey{r.Method, r.Path, network(addr)}
	bkt, ok := b.cache.Get(key)
	if !ok {
		bkt = &bucket{tokens: full, filledAt: now}
		b.cache.Put(key, bkt, 1)
	}
	perSecond := full / r.Limit.Per.Seconds()
	bkt.tokens, bkt.filledAt = min(full, bkt.tokens+now.Sub(bkt.filledAt).Seconds()*perSecond), now
	if bkt.tokens < 1 {
		return count{requests: r.Limit.Requests + 1, secondsLeft: int(math.Ceil((1 - bkt.tokens) / perSecond))}
	}
	bkt.tokens--
	untilFull := math.Ceil((full - bkt.tokens) / perSecond)
	return count{requests: r.Limit.Requests - int(bkt.tokens), secondsLeft: int(untilFull)}
}
