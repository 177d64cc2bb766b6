package httpapi

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/lru"
)

// buckets are the local limits: a token bucket for each address on each route.
// A process counts for itself and forgets at a restart, which is good enough
// where only the cost of requests is to be bounded, and takes no transaction.
type buckets struct {
	mu   sync.Mutex
	kept *lru.Cache[bucketKey, *bucket]
}

type bucketKey struct {
	method, path string
	addr         netip.Addr
}

// A bucket holds the requests that an address has left.
type bucket struct {
	left float64
	at   time.Time // when that was so
}

// maxBuckets bounds the memory of all buckets; a bucket takes some 300 bytes.
const maxBuckets = 32 << 10

func newBuckets() *buckets {
	return &buckets{kept: lru.New[bucketKey, *bucket](maxBuckets)}
}

// take takes one request out of the bucket of an address. A loopback address
// has as many as it wants: it is a process of this machine, or a proxy that was
// not declared, whose clients cannot be told apart.
func (b *buckets) take(r Route, addr netip.Addr, now time.Time) count {
	full := float64(r.Limit.Requests)
	if addr.IsLoopback() {
		return count{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := bucketKey{r.Method, r.Path, network(addr)}
	of, ok := b.kept.Get(key)
	if !ok {
		of = &bucket{left: full, at: now}
		b.kept.Put(key, of, 1)
	}
	perSecond := full / r.Limit.Per.Seconds()
	of.left, of.at = min(full, of.left+now.Sub(of.at).Seconds()*perSecond), now
	if of.left < 1 {
		return count{requests: r.Limit.Requests + 1, secondsLeft: int(math.Ceil((1 - of.left) / perSecond))}
	}
	of.left--
	untilFull := math.Ceil((full - of.left) / perSecond)
	return count{requests: r.Limit.Requests - int(of.left), secondsLeft: int(untilFull)}
}
