package outbound_test

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func TestParseURL(t *testing.T) {
	for _, raw := range []string{
		"http://example.com", "https://example.com/", "HTTPS://Example.com:8443/a/b?c=d#e", "http://example.com:/",
		"http://10.0.0.1/", "http://[::1]:80/", "http://[fe80::1%25eth0]/", "http://2130706433/", "http://under_score.example/",
		"https://bücher.example/ä", "http://host./", "https://example.com/" + strings.Repeat("ä", 2028),
	} {
		u, err := outbound.ParseURL(raw)
		if err != nil || u == nil {
			t.Errorf("%s: got %v, %v", raw, u, err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"empty", "", "URL must begin with http:// or https://"},
		{"no scheme", "example.com/s3cret", "URL must begin with http:// or https://"},
		{"other scheme", "ftp://example.com/s3cret", "URL must begin with http:// or https://"},
		{"script", "javascript:s3cret", "URL must begin with http:// or https://"},
		{"no host", "http:///s3cret", "URL must have a host"},
		{"port without a host", "http://:80/s3cret", "URL must have a host"},
		{"opaque", "http:s3cret", "URL must have a host"},
		{"user", "http://s3cret@example.com/", "URL must not contain a user name or a password"},
		{"password", "http://u:s3cret@example.com/", "URL must not contain a user name or a password"},
		{"empty user", "http://@example.com/s3cret", "URL must not contain a user name or a password"},
		{"too long", "https://example.com/" + strings.Repeat("ä", 2029), "URL must be at most 2048 characters long"},
		{"line feed", "http://example.com/s3cret\n", "URL must not contain control characters"},
		{"carriage return", "http://example.com/s3cret\r\nX: y", "URL must not contain control characters"},
		{"NUL", "http://example.com/s3cret\x00", "URL must not contain control characters"},
		{"delete", "http://example.com/s3cret\x7f", "URL must not contain control characters"},
		{"next line", "http://example.com/s3cret\u0085", "URL must not contain control characters"},
		{"not UTF-8", "http://example.com/s3cret\xff", "URL must not contain control characters"},
		{"bad escape", "http://example.com/s3cret%zz", "URL is not well formed"},
		{"backslash", `http://s3cret\@127.0.0.1/`, "URL is not well formed"},
		{"bad port", "http://example.com:s3cret/", "URL is not well formed"},
		{"large port", "http://example.com:65536/s3cret", "URL must have a port from 1 to 65535, or none"},
		{"port 0", "http://example.com:0/s3cret", "URL must have a port from 1 to 65535, or none"},
		{"punctuation", "http://a<b>.example/s3cret", "URL must have a valid host"},
		{"long host", "http://" + strings.Repeat("a", 254) + "/s3cret", "URL must have a valid host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := outbound.CheckURL(c.raw)
			if !fault.Is(err, fault.Malformed) || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestLiteralWarning(t *testing.T) {
	const unless = "; requests to it are refused unless --allow-private-targets is set"
	for _, c := range []struct{ raw, want string }{
		{"http://127.0.0.1/s3cret", "127.0.0.1 is a loopback address" + unless},
		{"http://2130706433/", "127.0.0.1 is a loopback address" + unless},
		{"http://localhost:8080/s3cret", "localhost is a loopback address" + unless},
		{"https://10.1.2.3:8443/s3cret?x", "10.1.2.3 is a private address" + unless},
		{"http://10.258/", "10.0.1.2 is a private address" + unless},
		{"http://0xa.0x10203/", "10.1.2.3 is a private address" + unless},
		{"http://[fd00::1]/", "fd00::1 is a private address" + unless},
		{"http://[::ffff:a9fe:a9fe]/", "169.254.169.254 is a link-local address" + unless},
		{"http://[64:ff9b::10.0.0.1]/", "64:ff9b::a00:1 (10.0.0.1) is a private address" + unless},
		{"http://0/", "0.0.0.0 is an unspecified address; requests to it are refused"},
		{"http://224.0.0.1/", "224.0.0.1 is a multicast address; requests to it are refused"},
		{"https://example.com/127.0.0.1", ""},
		{"https://127.0.0.1.example.com/", ""},
		{"https://notlocalhost/", ""},
		{"http://8.8.8.8/", ""},
		{"http://134744072/", ""},
		{"http://0x8.8.8.8/", ""},
		{"http://127.0.0.1.0/", ""},
		{"http://127.0.0.256/", ""},
		{"http://256.1/", ""},
		{"http://4294967296/", ""},
		{"http://0189.0.0.1/", ""},
		{"http://[2606:4700::1111]/", ""},
		{"ftp://127.0.0.1/", ""},
		{"http://127.0.0.1:0/", ""},
		{"", ""},
	} {
		if got := outbound.LiteralWarning(c.raw); got != c.want {
			t.Errorf("%s: got %q, want %q", c.raw, got, c.want)
		}
	}
	for _, host := range append(loopbackSpellings[:len(loopbackSpellings):len(loopbackSpellings)], loopbackSpellings6...) {
		if outbound.LiteralWarning("http://"+host+"/") == "" {
			t.Errorf("%s: no warning", host)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, host := range append(loopbackSpellings[:len(loopbackSpellings):len(loopbackSpellings)], loopbackSpellings6...) {
		f.Add("http://" + host + "/a?b=c#d")
	}
	f.Add("http://u:p@h/")
	f.Add("https://example.com:443/\r\n")
	f.Add("http:opaque")
	f.Fuzz(func(t *testing.T, raw string) {
		warning := outbound.LiteralWarning(raw)
		u, err := outbound.ParseURL(raw)
		if err != nil {
			if warning != "" {
				t.Errorf("a warning about a URL that is refused: %q", warning)
			}
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host || again.Scheme != u.Scheme {
			t.Errorf("does not survive String: %v, %v", again, err)
		}
		if u.User != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("took %q", raw)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && isInside(addr) && warning == "" {
			t.Errorf("no warning about %s", addr)
		}
	})
}

func FuzzLiteralWarning(f *testing.F) {
	f.Add(byte(127), byte(0), byte(0), byte(1))
	f.Add(byte(10), byte(1), byte(2), byte(3))
	f.Add(byte(8), byte(8), byte(8), byte(8))
	f.Add(byte(169), byte(254), byte(169), byte(254))
	f.Fuzz(func(t *testing.T, a, b, c, d byte) {
		addr := netip.AddrFrom4([4]byte{a, b, c, d})
		n := uint32(a)<<24 | uint32(b)<<16 | uint32(c)<<8 | uint32(d)
		want := outbound.LiteralWarning("http://" + addr.String() + "/")
		if isInside(addr) && want == "" {
			t.Errorf("no warning about %s", addr)
		}
		for _, host := range []string{
			addr.String() + ".",
			fmt.Sprintf("%d", n), fmt.Sprintf("%#o", n), fmt.Sprintf("%#x", n), fmt.Sprintf("%#X", n),
			fmt.Sprintf("%d.%d", a, n&0xffffff), fmt.Sprintf("%d.%d.%d", a, b, n&0xffff),
			fmt.Sprintf("%#o.%#x.%d.%#o", a, b, c, d), fmt.Sprintf("%#x.%#o", a, n&0xffffff),
			fmt.Sprintf("[::ffff:%s]", addr), fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff),
		} {
			if got := outbound.LiteralWarning("http://" + host + "/"); got != want {
				t.Errorf("%s: got %q, want %q", host, got, want)
			}
		}
	})
}

// isInside is what the standard library knows about addresses that are not
// public.
func isInside(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast()
}
