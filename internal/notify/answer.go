package notify

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// retryAfter is how long a receiver wants to be left alone. The header holds
// seconds or a date; chat_b also says it in the body, more exactly.
func retryAfter(c Channel, header http.Header, body []byte) time.Duration {
	wait := headerWait(header.Get("Retry-After"))
	if c == ChatB {
		var answer struct {
			RetryAfter float64 `json:"retry_after"`
		}
		if json.Unmarshal(body, &answer) == nil {
			wait = max(wait, seconds(answer.RetryAfter))
		}
	}
	return wait
}

func headerWait(value string) time.Duration {
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxPause)
	}
	return 0
}

// rateLimitPause is for how long the limit that chat_b counts down in its
// headers is used up.
func rateLimitPause(header http.Header) time.Duration {
	if header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	return headerWait(header.Get("X-RateLimit-Reset-After"))
}

// seconds bounds what a stranger says; not a number is none.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxPause.Seconds()) * float64(time.Second))
}

// Of a stranger's text.
const (
	excerptRunes  = 200
	excerptBytes  = 1024 // far enough from the end of what was read that no secret is cut in two
	minSecretPart = 8    // shorter parts of a URL are words
)

// excerpt returns the beginning of an answer in one line, without the secrets
// in it, none of which is empty: servers like to repeat what they were asked
// for.
func excerpt(text []byte, secrets []string) string {
	s := string(text)
	// A secret may begin with another one.
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
	return cut(oneLine(b.String()), excerptRunes)
}

// secretsOf returns what of a URL's target must not be shown: all of it, and
// the parts that may stand alone.
func secretsOf(t Target) []string {
	all := append([]string{t.Address}, t.Secrets...)
	if u, err := outbound.ParseURL(t.Address); err == nil {
		all = append(all, u.String(), awaited(u).RequestURI(), u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery)
		all = append(all, strings.Split(u.EscapedPath(), "/")...)
		all = append(all, strings.Split(u.Path, "/")...)
		for _, values := range u.Query() {
			all = append(all, values...)
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < minSecretPart })
}
