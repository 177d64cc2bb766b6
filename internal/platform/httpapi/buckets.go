package httpapi

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
)

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
