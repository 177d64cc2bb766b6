package notify

import (
	"fmt"
	"io"
	"log/slog"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// CheckAddress reports whether a notice can be addressed so. Its error is
// Malformed and does not hold the address.
func CheckAddress(c Channel, address string) error {
	if c == Email {
		_, err := parseMailAddress(address)
		return err
	}
	return outbound.CheckURL(address)
}

// parseMailAddress also refuses what would begin a new line in a header or a
// command. A name may hide that in an encoded word.
func parseMailAddress(raw string) (*mail.Address, error) {
	address, err := mail.ParseAddress(raw)
	if err != nil || strings.ContainsFunc(raw+address.Name+address.Address, unicode.IsControl) {
		return nil, fault.New(fault.Malformed, "must be one mail address, like ada@example.org")
	}
	return address, nil
}

// Mask returns what may be shown of an address: a URL's host, since the rest
// of a webhook's URL is a secret, and a mail address's first letter and domain.
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
