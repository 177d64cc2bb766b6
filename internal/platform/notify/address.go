package notify

import (
	"fmt"
	"io"
	"log/slog"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// CheckAddress validates the address of a target. Its error is Malformed and
// does not contain the address.
func CheckAddress(c Channel, address string) error {
	if c == Email {
		_, err := parseMailAddress(address)
		return err
	}
	return outbound.CheckURL(address)
}

// parseMailAddress also refuses control characters, which would allow header
// injection. The decoded name is checked, too: an encoded word can contain them.
func parseMailAddress(raw string) (*mail.Address, error) {
	address, err := mail.ParseAddress(raw)
	if err != nil || strings.ContainsFunc(raw+address.Name+address.Address, unicode.IsControl) {
		return nil, fault.New(fault.Malformed, "must be one mail address, like ada@example.org")
	}
	return address, nil
}

// Mask redacts an address for display, e.g. "https://hooks.example.org/…" or
// "a…@example.org". The path of a webhook's URL is a secret.
func Mask(c Channel, address string) string {
	if c == Email {
		parsed, err := parseMailAddress(address)
		if err != nil {
			return "…"
		}
		first, _ := utf8.DecodeRuneInString(parsed.Address)
		return string(first) + "…" + parsed.Address[strings.LastIndexByte(parsed.Address, '@'):]
	}
	u, err := outbound.ParseURL(address)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

func (t Target) String() string { return string(t.Channel) + " " + Mask(t.Channel, t.Address) }

// Format keeps the secrets out of every verb, %#v included.
func (t Target) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue keeps the secrets out of the log.
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }
