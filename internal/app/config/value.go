package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// redacted replaces secrets wherever settings are shown.
const redacted = "[secret]"

// A Secret is a setting that is always redacted. Every way of printing is redacted, because
// settings end up in logs, errors and JSON by accident. A conversion to string gets at it.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format redacts the secret for every verb, including %#v and wrong ones.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText redacts the secret in every encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// PEM returns the secret if it is PEM, else the content of the file that it names. In files of
// settings a path is easier; in environment variables of containers the text is.
func (s Secret) PEM() ([]byte, error) {
	if strings.Contains(string(s), "-----BEGIN") {
		return []byte(s), nil
	}
	return os.ReadFile(string(s))
}

// Secrets are secrets by name. Its values redact themselves.
type Secrets map[string]Secret

// Decode reads NAME=KEY, or a table of the file. The errors of kong's own decoder
// would quote a key.
func (s *Secrets) Decode(ctx *kong.DecodeContext) error {
	if *s == nil {
		*s = Secrets{}
	}
	switch v := ctx.Scan.Pop().Value.(type) {
	case string:
		for _, pair := range kong.SplitEscaped(v, ctx.Value.Tag.MapSep) {
			name, key, ok := strings.Cut(pair, "=")
			if !ok {
				return errors.New("must be NAME=KEY")
			}
			(*s)[name] = Secret(key)
		}
	case map[string]any:
		for name, value := range v {
			key, ok := value.(string)
			if !ok {
				return fmt.Errorf("must have a text for %s", name)
			}
			(*s)[name] = Secret(key)
		}
	default:
		return errors.New("must be NAME=KEY")
	}
	return nil
}

// A URL is an address that may have a password or another secret, which is always
// redacted.
type URL string

// String redacts the password and secret parameters. It works on the text: parsing and
// formatting again would escape or drop parts of it.
func (u URL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return redacted
	}
	shown := secretParameter.ReplaceAllString(string(u), "${1}"+redacted)
	if _, ok := parsed.User.Password(); ok {
		return password.ReplaceAllString(shown, "${1}"+redacted+"@")
	}
	return shown
}

var (
	// password matches the text between the user and the last @ before the path.
	password = regexp.MustCompile(`^([^:]+://[^:/?#]*:)[^/?#]*@`)
	// secretParameter matches parameters from which drivers read secrets.
	secretParameter = regexp.MustCompile(`(?i)([?&][^=&#]*(?:password|secret|token|key)[^=&#]*=)[^&#]*`)
)

// Format redacts the password for every verb, including %#v and wrong ones.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText redacts the password in every encoding.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// A Duration is a time.Duration that is also written in days, e.g. "30d". time.ParseDuration
// has no days, and "720h" is hard to read.
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

// UnmarshalText parses a positive duration; d is the unit for days.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		// 0 is refused: what it would mean differs by setting. Age allows it.
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a duration like 60s, 15m, 12h or 30d", s)
		}
		*d = Duration(time.Duration(n) * 24 * time.Hour) // 16 bits of days fit
		return nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t <= 0 {
		return fmt.Errorf("%q is not a duration like 60s, 15m, 12h or 30d", s)
	}
	*d = Duration(t)
	return nil
}

// An Age is a Duration that may be 0, which means forever.
type Age time.Duration

func (a Age) String() string {
	if a == 0 {
		return "0"
	}
	return Duration(a).String()
}

// MarshalText writes what UnmarshalText reads.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses 0 or a duration.
func (a *Age) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*a = 0
		return nil
	}
	return (*Duration)(a).UnmarshalText(text)
}

// Days is the duration in whole days, at least one.
func (d Duration) Days() int { return max(1, int(time.Duration(d)/(24*time.Hour))) }
