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

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// refusal marks an error as a decision of this package, apart from Denied
// errors that others make.
type refusal struct{ cause *fault.Error }

func (r *refusal) Error() string { return r.cause.Error() }

func (r *refusal) Unwrap() error { return r.cause }

func refuse(format string, args ...any) error {
	return &refusal{fault.New(fault.Denied, "refused: "+format, args...)}
}

// IsRefused reports whether err says that a request was not made, or a
// redirect not followed, because it may not go there. Trying again does not
// help as long as the address and the settings are the same.
func IsRefused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// clean returns what may be shown of an error of net/http. That package puts
// the URL, the Location and bytes of the answer (in which a server may echo the
// request) into its texts, so only errors of known types are kept.
func clean(origin string, err error) error {
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

// describe says in a few words what went wrong, for the user who gave the
// address, and returns the cause that may be logged, or nil.
func describe(err error) (text string, cause error) {
	if isTimeout(err) {
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

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
