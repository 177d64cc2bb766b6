package config

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// masked stands for a secret wherever settings are shown.
const masked = "[secret]"

// A Secret is a setting that is never shown.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// Format keeps the secret out of every verb, %#v and wrong ones included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps the secret out of every encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// PEM is the secret's text if it is PEM, else what stands in the file that it
// names.
func (s Secret) PEM() ([]byte, error) {
	if strings.Contains(string(s), "-----BEGIN") {
		return []byte(s), nil
	}
	return os.ReadFile(string(s))
}

// A URL is an address that may hold a password, which is never shown.
type URL string

func (u URL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return masked
	}
	shown := secretParameter.ReplaceAllString(string(u), "${1}"+masked)
	if _, ok := parsed.User.Password(); ok {
		return password.ReplaceAllString(shown, "${1}"+masked+"@")
	}
	return shown
}

var (
	// password stands between the user and the last @ before the path.
	password = regexp.MustCompile(`^([^:]+://[^:/?#]*:)[^/?#]*@`)
	// secretParameter is a parameter that drivers read secrets from.
	secretParameter = regexp.MustCompile(`(?i)([?&][^=&#]*(?:password|secret|token|key)[^=&#]*=)[^&#]*`)
)

// Format keeps the password out of every verb, %#v and wrong ones included.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText keeps the password out of every encoding.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// A Duration is a length of time as people write it: 60s, 15m, 30d.
type Duration time.Duration

func (d Duration) String() string {
	const day = 24 * time.Hour
	t := time.Duration(d)
	if t >= day && t%day == 0 {
		return fmt.Sprintf("%dd", t/day)
	}
	return t.String()
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a positive duration; d stands for days.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a duration like 60s, 15m, 12h or 30d", s)
		}
		*d = Duration(time.Duration(n) * 24 * time.Hour) //nolint:gosec // 16 bits of days fit
		return nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t <= 0 {
		return fmt.Errorf("%q is not a duration like 60s, 15m, 12h or 30d", s)
	}
	*d = Duration(t)
	return nil
}

// An Age is a Duration that may be 0, which means for ever.
type Age time.Duration

func (a Age) String() string {
	if a == 0 {
		return "0"
	}
	return Duration(a).String()
}

// MarshalText writes what UnmarshalText reads.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads 0 or a duration.
func (a *Age) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*a = 0
		return nil
	}
	return (*Duration)(a).UnmarshalText(text)
}

// Days is the duration in whole days, at least one.
func (d Duration) Days() int { return max(1, int(time.Duration(d)/(24*time.Hour))) }
