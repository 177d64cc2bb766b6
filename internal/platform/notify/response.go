package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// classifyResponse returns the result for a response, and how long to send
// nothing to the address, whatever the outcome.
func classifyResponse(t Target, resp *http.Response, body []byte) (r Result, pause time.Duration) {
	r = Result{Outcome: outcomeOfStatus(resp.StatusCode), Status: resp.StatusCode}
	r.Detail = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if resp.StatusCode/100 == 3 {
		r.Detail += ": redirects are not followed, set the final address"
		return r, 0
	}
	if excerpt := redactedExcerpt(body, urlSecrets(t)); excerpt != "" {
		r.Detail += ": " + excerpt
	}
	if r.Outcome == Retry {
		r.RetryAfter, _ = outbound.RetryAfter(resp.Header, time.Now())
	}
	if t.Channel == ChatB {
		if r.Outcome == Retry {
			r.RetryAfter = max(r.RetryAfter, discordRetryAfter(body))
		}
		pause = discordRateLimit(resp.Header)
	}
	return r, max(pause, r.RetryAfter)
}

func outcomeOfStatus(status int) Outcome {
	switch {
	case status/100 == 2:
		return Delivered
	case status == http.StatusGone:
		return Gone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return Retry
	default:
		return Failed
	}
}

// discordRetryAfter reads the wait from the body, which is more precise than
// the Retry-After header: {"retry_after": 0.315}.
func discordRetryAfter(body []byte) time.Duration {
	var answer struct {
		RetryAfter float64 `json:"retry_after"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return 0
	}
	return seconds(answer.RetryAfter)
}

// discordRateLimit returns how long the rate limit in the headers of any
// response is used up. Waiting for it avoids the 429 of the next message.
func discordRateLimit(header http.Header) time.Duration {
	if header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	s, err := strconv.ParseFloat(header.Get("X-RateLimit-Reset-After"), 64)
	if err != nil {
		return 0
	}
	return seconds(s)
}

// seconds limits what a receiver can ask for to 0 to maxPause. NaN is 0.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxPause.Seconds()) * float64(time.Second))
}

// Limits of an excerpt of a response.
const (
	excerptRunes  = 200
	excerptBytes  = 1024 // far from the end of what was read (maxResponse), so that no secret is truncated and missed
	minSecretPart = 8    // shorter parts of a URL are ordinary words
)

// redactedExcerpt returns the beginning of a response in one line, with secrets
// replaced by "…": servers often echo the request. No secret may be empty.
func redactedExcerpt(body []byte, secrets []string) string {
	s := string(body)
	// Longest first: a secret may be a prefix of another one.
	secrets = slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	var b strings.Builder
	for i := 0; i < min(len(s), excerptBytes); {
		rest := s[i:]
		if at := slices.IndexFunc(secrets, func(secret string) bool { return strings.HasPrefix(rest, secret) }); at >= 0 {
			b.WriteString("…")
			i += len(secrets[at])
			continue
		}
		_, size := utf8.DecodeRuneInString(rest)
		b.WriteString(rest[:size])
		i += size
	}
	return text.Ellipsis(text.PlainLine(b.String()), excerptRunes)
}

// urlSecrets returns the parts of a target's URL that must not be shown: the
// whole of it, and each part that a server could echo.
func urlSecrets(t Target) []string {
	all := append([]string{t.Address}, t.Secrets...)
	if u, err := outbound.ParseURL(t.Address); err == nil {
		all = append(all, u.String(), withWait(u).RequestURI(), u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery)
		all = append(all, strings.Split(u.EscapedPath(), "/")...)
		all = append(all, strings.Split(u.Path, "/")...)
		for _, values := range u.Query() {
			all = append(all, values...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < minSecretPart })
}
