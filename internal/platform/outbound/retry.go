package outbound

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter bounds what a server can ask for with Retry-After.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads the Retry-After header, seconds or an HTTP date, e.g. "30",
// "0.5" or "Fri, 31 Dec 2027 23:59:59 GMT". It reports false when the server
// sent none that can be understood. The wait is at least 0 and at most a day.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) { // NaN is not a wait, either
			return 0, seconds == 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
