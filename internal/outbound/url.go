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

	"github.com/whetstone-dev/whetstone/internal/fault"
)

const (
	maxURL  = 2048 // characters
	maxHost = 253  // bytes, as in DNS
)

// ParseURL reads an address that a user gave. It must be an http or https URL
// with a host, at most 2,048 characters long, without control characters and
// without a user name or a password: those would be sent, stored and shown
// where nobody expects a secret. Its error is Malformed and does not hold the
// URL. Which addresses may be reached is decided when they are dialled.
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

// checkURL holds the rules that also a URL from a request or a redirect must
// keep. url.Parse lowers the scheme.
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
	if !isPort(u.Port()) {
		return fault.New(fault.Malformed, "URL must have a port from 1 to 65535, or none")
	}
	return nil
}

// isHostName is lenient about letters, which may be of any script, and strict
// about punctuation, which has no place in a name.
func isHostName(s string) bool {
	return s != "" && len(s) <= maxHost && !strings.ContainsFunc(s, func(r rune) bool {
		if r >= utf8.RuneSelf {
			return r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
		}
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
	})
}

func isPort(s string) bool {
	if s == "" {
		return true
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// LiteralWarning returns a sentence for the user when the host of the URL is
// an address outside the public network, in whatever spelling, and "" when it
// is not or when ParseURL does not take the URL. What it does not see, such as
// a name that resolves to a private address, is refused when it is dialled.
func LiteralWarning(raw string) string {
	u, err := ParseURL(raw)
	if err != nil {
		return ""
	}
	host := plainHost(u.Hostname())
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return "localhost is a loopback address; requests to it are refused unless --allow-private-targets is set"
	}
	addr, ok := literal(host)
	if !ok {
		return ""
	}
	s, ok := specialOf(bare(addr))
	if !ok {
		return ""
	}
	if !s.own {
		return fmt.Sprintf("%s is %s; requests to it are refused", s, s.name)
	}
	return fmt.Sprintf("%s is %s; requests to it are refused unless --allow-private-targets is set", s, s.name)
}

// plainHost returns the host in the letters that a look-up would use: net/http
// turns full-width digits, ideographic full stops and the like into ASCII and
// drops what is invisible.
func plainHost(host string) string {
	host = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, host)
	return canonicalHost(strings.ReplaceAll(norm.NFKC.String(host), "。", "."))
}

// literal reads an address in any spelling that a resolver may take for one.
// Besides the usual forms that is what C's inet_aton reads: one to four
// numbers, decimal, octal or hexadecimal, the last of which fills all the
// bytes that remain.
func literal(host string) (netip.Addr, bool) {
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
