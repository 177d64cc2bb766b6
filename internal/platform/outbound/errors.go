package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// refusal marks an error as a decision of this package, and distinguishes it
// from Denied errors of others.
type refusal struct{ cause *fault.Error }

func (r *refusal) Error() string { return r.cause.Error() }

func (r *refusal) Unwrap() error { return r.cause }

func refuse(format string, args ...any) error {
	return &refusal{fault.New(fault.Denied, "refused: "+format, args...)}
}

// IsRefused reports whether the SSRF guard refused a request or a redirect. A
// retry does not help as long as the address and the settings are the same.
func IsRefused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// redactError returns an error of net/http without secrets. That package puts
// the URL, the Location header and bytes of the response (in which a server may
// echo the request) into its messages, so only errors of known types are kept.
func redactError(origin string, err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return fmt.Errorf("%s: %w", origin, f)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", origin, context.Canceled)
	}
	text, cause := describe(err)
	return fault.New(fault.BadGateway, "%s: %s", origin, text).Because(cause)
}

// describe returns a short message for the user who entered the address, and
// the cause that may be logged, or nil.
func describe(err error) (text string, cause error) {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "timed out", context.DeadlineExceeded
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return "host not found", e
		}
		return "the host could not be looked up", e
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not valid", e
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the server does not speak TLS", http.ErrSchemeMismatch
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "connection refused", e
		}
		return "the connection failed", e
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed too early", io.ErrUnexpectedEOF
	}
	return "the request could not be completed", nil
}
