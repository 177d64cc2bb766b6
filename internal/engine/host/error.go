package host

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// Failure turns an error of a library, or an error response, into one with a
// kind. The library's own message may contain the URL, so it is only logged.
func Failure(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode >= http.StatusBadRequest {
		return statusError(resp).Because(err)
	}
	if resp != nil && resp.StatusCode >= http.StatusMultipleChoices {
		return fault.New(fault.BadGateway,
			"The code host redirects this request, e.g. because the repository was renamed").Because(err)
	}
	// There was no response, or one that cannot be parsed.
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return fault.New(fault.BadGateway, "the code host's answer cannot be understood").Because(err)
}

// statusError returns the error for a status of 400 or more.
func statusError(resp *http.Response) *fault.Error {
	if wait, limited := rateLimited(resp); limited {
		return fault.New(fault.Limited,
			"The code host's rate limit is reached; try again in %s", wait.Round(time.Second)).After(wait)
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fault.New(fault.NotFound, "The code host does not have this, or the installation may not see it")
	case http.StatusConflict:
		return fault.New(fault.NotFound, "The repository has no commits")
	case http.StatusUnauthorized:
		return fault.New(fault.Denied, "The code host does not accept the installation's token")
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return fault.New(fault.Denied, "The installation lacks a permission for this")
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return fault.New(fault.Malformed, "The code host refuses this as invalid (status %d)", resp.StatusCode)
	}
	return fault.New(fault.BadGateway, "The code host answered with status %d", resp.StatusCode)
}

const (
	// defaultWait is how long to wait for a rate limit that names no time.
	defaultWait = time.Minute
	// maxWait bounds what a code host can ask for: a reset in milliseconds, or
	// from a clock that is wrong, would postpone a job by years.
	maxWait = 24 * time.Hour
)

// rateLimited reports whether a rate limit is reached, and how long to wait: for
// Retry-After, until the limit is reset, or defaultWait. GitHub uses 403 for its
// rate limits, too.
func rateLimited(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests {
		return 0, false
	}
	if wait, ok := outbound.RetryAfter(resp.Header, time.Now()); ok {
		return wait, true
	}
	// GitLab has the names without X-.
	if cmp.Or(resp.Header.Get("X-Ratelimit-Remaining"), resp.Header.Get("Ratelimit-Remaining")) == "0" {
		at := cmp.Or(resp.Header.Get("X-Ratelimit-Reset"), resp.Header.Get("Ratelimit-Reset"))
		reset, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return defaultWait, true
		}
		return min(max(time.Until(time.Unix(reset, 0)), time.Second), maxWait), true
	}
	return defaultWait, resp.StatusCode == http.StatusTooManyRequests
}
