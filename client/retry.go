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
	// maxRetryAfter is the longest Retry-After that is obeyed; a longer wait is the
	// caller's decision.
	maxRetryAfter = time.Minute
)

// permanent marks an error that a retry would not fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// retry calls try until it succeeds, a retry would be pointless or unsafe, or ctx
// ends.
func retry(ctx context.Context, idempotent bool, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		// Double with each try. The jitter keeps clients that failed together from retrying
		// together.
		wait := firstWait << n
		wait = wait/2 + rand.N(wait/2)
		if e, ok := errors.AsType[*Error](err); ok {
			wait = max(wait, e.RetryAfter)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return err
		}
		if n == maxTries-1 || ctx.Err() != nil || !retryable(err, idempotent) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// retryable reports whether another try may help and does no harm.
func retryable(err error, idempotent bool) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Status {
		case http.StatusTooManyRequests: // the request had no effect
			return e.RetryAfter <= maxRetryAfter
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return idempotent && e.RetryAfter <= maxRetryAfter
		}
		return false
	}
	if isPermanent(err) {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true // the request was not sent
	}
	return idempotent
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
