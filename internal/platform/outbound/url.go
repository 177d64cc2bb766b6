package outbound

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

const (
	maxURL  = 2048 // characters
	maxHost = 253  // bytes, as in DNS
)

// ParseURL parses an address that a user entered. It must be an http or https
// URL with a host, at most 2,048 characters long, without control characters and
// without a user name or a password, which would be stored and shown as part of
// the URL. Its error is Malformed and does not contain the URL. Whether the
// address may be reached is decided by the dial hook.
func ParseURL(raw string) (*url.URL, error) {
	if utf8.RuneCountInString(raw) > maxURL {
		return nil, fault.New(fault.Malformed, "URL must be at most %d characters long", maxURL)
	}
	if !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl) {
		return nil, fault.New(fault.Malformed, "URL must not contain control characters")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fault.New(fault.Malformed, "URL is not well formed")
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

// CheckURL returns the error of ParseURL.
func CheckURL(raw string) error {
	_, err := ParseURL(raw)
	return err
}

// checkURL validates a parsed URL, also one of a request or a redirect. The
// scheme is in lower case already: url.Parse does that.
func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fault.New(fault.Malformed, "URL must begin with http:// or https://")
	}
	if u.User != nil {
		return fault.New(fault.Malformed, "URL must not contain a user name or a password")
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return fault.New(fault.Malformed, "URL must have a host")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !isHostName(u.Hostname()) {
		return fault.New(fault.Malformed, "URL must have a valid host")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return fault.New(fault.Malformed, "URL must have a port from 1 to 65535, or none")
	}
	return nil
}

// isHostName accepts letters of any script (internationalized names), but of
// the ASCII punctuation only what host names use.
func isHostName(s string) bool {
	return s != "" && len(s) <= maxHost && !strings.ContainsFunc(s, func(r rune) bool {
		if r >= utf8.RuneSelf {
			return r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
		}
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
	})
}

// LiteralWarning returns a warning for the user when the host of the URL is an
// address outside the public Internet, in whatever spelling (e.g.
// "http://0x7f.1/"), and "" when it is not or when ParseURL refuses the URL. It
// is a courtesy at input time: the dial hook refuses what it does not see, such
// as a name that resolves to a private address.
func LiteralWarning(raw string) string {
	u, err := ParseURL(raw)
	if err != nil {
		return ""
	}
	host := normalizeHost(u.Hostname())
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "localhost is a loopback address; requests to it are refused unless --allow-private-targets is set"
	}
	addr, ok := parseAnyAddr(host)
	if !ok {
		return ""
	}
	s, ok := lookupSpecial(normalizeAddr(addr))
	if !ok {
		return ""
	}
	if !s.allowable {
		return fmt.Sprintf("%s is %s; requests to it are refused", s, s.name)
	}
	return fmt.Sprintf("%s is %s; requests to it are refused unless --allow-private-targets is set", s, s.name)
}

// normalizeHost returns the host as net/http would resolve it: full-width
// digits, ideographic full stops and the like become ASCII, and invisible
// characters are dropped.
func normalizeHost(host string) string {
	host = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, host)
	return canonicalHost(strings.ReplaceAll(norm.NFKC.String(host), "。", "."))
}

// parseAnyAddr parses an IP address in any spelling that a resolver may accept.
// Besides the usual forms these are those of C's inet_aton: one to four numbers,
// decimal, octal or hexadecimal, the last of which fills the remaining bytes,
// e.g. "0x7f.1" or "2130706433" for 127.0.0.1.
func parseAnyAddr(host string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		size := 8
		if i == len(parts)-1 {
			size = 8 * (4 - i)
		}
		n, err := strconv.ParseUint(part, 0, size)
		if err != nil {
			return netip.Addr{}, false
		}
		value = value<<size | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}
