package host

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// Failure gives what a library or a server answered a kind. The library's own
// text may hold the URL, so it is only logged.
func Failure(resp *http.Response, err error) error {
	if resp == nil || resp.StatusCode < http.StatusBadRequest {
		return transportFailure(err)
	}
	return answer(resp).Because(err)
}

// transportFailure is an error without an answer, or with one that was not
// understood.
func transportFailure(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return fault.New(fault.BadGateway, "the code host's answer cannot be understood").Because(err)
}

// answer says what a refusal means.
func answer(resp *http.Response) *fault.Error {
	if wait, limited := limit(resp); limited {
		return fault.New(fault.Limited, "The code host limits our requests; the next makes sense in %s", wait.Round(time.Second)).After(wait)
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fault.New(fault.NotFound, "The code host has no such thing, or the installation may not see it")
	case http.StatusConflict:
		return fault.New(fault.NotFound, "The repository has no commits")
	case http.StatusUnauthorized:
		return fault.New(fault.Denied, "The code host does not accept the installation's token")
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return fault.New(fault.Denied, "The installation lacks a permission for this")
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return fault.New(fault.Malformed, "The code host refuses this as not valid (status %d)", resp.StatusCode)
	}
	return fault.New(fault.BadGateway, "The code host answered with status %d", resp.StatusCode)
}

// patience is how long to wait when a limit names no time.
const patience = time.Minute

// limit reports whether an answer means that a rate limit is reached, and how
// long to wait: what Retry-After says, or until the limit is reset, or a while.
func limit(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		reset, err := strconv.ParseInt(resp.Header.Get("X-Ratelimit-Reset"), 10, 64)
		if err != nil {
			return patience, true
		}
		return max(time.Until(time.Unix(reset, 0)), time.Second), true
	}
	return patience, resp.StatusCode == http.StatusTooManyRequests
}
