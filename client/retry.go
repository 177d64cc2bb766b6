package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	maxTries  = 4
	firstWait = 300 * time.Millisecond
	// maxRetryAfter is the longest that we wait because the server wants it; a
	// longer wait is the caller's decision.
	maxRetryAfter = time.Minute
)

// permanent marks an error that another try would meet again.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// retry calls try until it succeeds, another try makes no sense, or ctx ends.
func retry(ctx context.Context, repeatable bool, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		wait := backoff(n, err)
		if n == maxTries-1 || ctx.Err() != nil || !worthwhile(err, repeatable) || !enough(ctx, wait) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// worthwhile reports whether another try may help, and does no harm.
func worthwhile(err error, repeatable bool) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusTooManyRequests: // nothing was done yet
			return e.RetryAfter <= maxRetryAfter
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return repeatable && e.RetryAfter <= maxRetryAfter
		}
		return false
	}
	if isPermanent(err) {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true // nobody has heard of the request
	}
	return repeatable
}

func isPermanent(err error) bool {
	if _, ok := errors.AsType[permanent](err); ok || errors.Is(err, ErrHash) {
		return true
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return true
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}

// backoff doubles with each try; the random part keeps clients that failed
// together from coming back together.
func backoff(n int, err error) time.Duration {
	wait := firstWait << n
	wait = wait/2 + rand.N(wait/2)
	if e, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	return wait
}

// enough reports whether ctx lasts longer than the wait.
func enough(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > wait
}
