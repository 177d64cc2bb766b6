package notify

import (
	"context"
	"errors"
	"time"
)

// Sign makes the signature of a webhook's body.
var Sign = signature

// Excerpt returns the excerpt of a target's response that is shown.
func Excerpt(t Target, text string) string { return redactedExcerpt([]byte(text), urlSecrets(t)) }

// RateLimiter exports rateLimiter.
type RateLimiter struct{ *rateLimiter }

// The rate limits.
const (
	MaxPerHost   = maxPerHost
	ChatInterval = chatInterval
	ChatBurst    = chatBurst
	MaxWait      = maxWait
	MaxLimits    = maxLimits
)

// NewRateLimiter returns an empty rate limiter.
func NewRateLimiter() RateLimiter { return RateLimiter{newRateLimiter()} }

// Acquire waits until a message may be sent to a chat.
func (l RateLimiter) Acquire(ctx context.Context, host, address string) (release func(), err error) {
	return l.acquire(ctx, delivery{host: host, address: address, interval: chatInterval})
}

// Pause sends nothing to a chat for some time.
func (l RateLimiter) Pause(address string, wait time.Duration) {
	l.pause(delivery{address: address, interval: chatInterval}, wait)
}

// Len is the number of hosts and addresses whose state is kept.
func (l RateLimiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.limits)
}

// ThrottledFor returns the wait of a throttledError.
func ThrottledFor(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*throttledError](err)
	if !ok {
		return 0, false
	}
	return e.wait, true
}
