package outbound_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// ranges has for each refused range its ends and some well-known members.
var ranges = []struct {
	is    string
	own   bool // can be opened
	addrs []string
}{
	{"a private address", true, []string{
		"10.0.0.0", "10.0.0.1", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
		"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00:ec2::254", "fd00::1%eth0",
		"::ffff:10.0.0.1", "::ffff:c0a8:1", "64:ff9b::10.0.0.1", "64:ff9b::ac10:1", "2002:a00:1::", "2002:c0a8:0101::1",
		"::10.0.0.1", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
	}},
	{"a loopback address", true, []string{
		"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "::1%lo", "::ffff:127.0.0.1", "::ffff:7f00:1",
		"64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1",
	}},
	{"a link-local address", true, []string{
		"169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::", "fe80::1%eth0", "febf::1",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
	}},
	{"a carrier-grade NAT address", true, []string{
		"100.64.0.0", "100.100.100.200", "100.127.255.255", "::ffff:100.64.0.1", "64:ff9b::6440:1", "2002:6440:1::",
	}},
	{"a site-local address", true, []string{"fec0::", "feff::1"}},
	{"a benchmark address", true, []string{"198.18.0.0", "198.19.255.255", "2001:2::", "2001:2:0:ffff::1", "::ffff:198.18.0.1"}},
	{"a cloud metadata address", true, []string{"168.63.129.16", "::ffff:168.63.129.16"}},
	{"an unspecified address", false, []string{
		"0.0.0.0", "0.255.255.255", "::", "::%lo", "::ffff:0.0.0.0", "64:ff9b::", "2002::1", "::2",
	}},
	{"a multicast address", false, []string{"224.0.0.0", "239.255.255.255", "ff00::", "ff02::1%eth0", "::ffff:224.0.0.1"}},
	{"a broadcast address", false, []string{"255.255.255.255", "::ffff:255.255.255.255", "64:ff9b::ffff:ffff"}},
	{"a reserved address", false, []string{
		"240.0.0.0", "255.255.255.254", "192.0.0.0", "192.0.0.192", "192.0.0.255", "192.88.99.1",
		"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "5f00::1", "::ffff:240.0.0.1",
	}},
	{"a documentation address", false, []string{
		"192.0.2.0", "192.0.2.255", "198.51.100.1", "203.0.113.255", "2001:db8::", "2001:db8:ffff::1",
		"3fff::", "3fff:fff::1", "::ffff:192.0.2.1",
	}},
	{"a discard address", false, []string{"100::", "100::ffff:ffff:ffff:ffff"}},
}

func TestDialHookRefuses(t *testing.T) {
	for _, r := range ranges {
		for _, addr := range r.addrs {
			t.Run(addr, func(t *testing.T) {
				err := outbound.DialHook(t.Context(), outbound.Options{}, "name.example", addr)
				if !outbound.IsRefused(err) || !fault.Is(err, fault.Denied) {
					t.Fatalf("got %v, want a refusal", err)
				}
				want := "refused: name.example resolves to " + r.is
				if r.own {
					want += "; set --allow-private-targets to allow it"
				}
				if err.Error() != want {
					t.Errorf("got %q, want %q", err, want)
				}
				literal := outbound.DialHook(t.Context(), outbound.Options{}, addr, addr)
				if literal == nil || !strings.Contains(literal.Error(), " is "+r.is) {
					t.Errorf("as a literal: got %v, want it to say %q", literal, r.is)
				}
				opened := outbound.DialHook(t.Context(), outbound.Options{AllowPrivate: true}, "name.example", addr)
				if outbound.IsRefused(opened) == r.own {
					t.Errorf("with AllowPrivate: got %v, want it allowed: %t", opened, r.own)
				}
			})
		}
	}
}

// TestDialHookMessage repeats an address that the user wrote.
func TestDialHookMessage(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1":          "refused: 10.0.0.1 is a private address; set --allow-private-targets to allow it",
		"::ffff:10.0.0.1":   "refused: 10.0.0.1 is a private address; set --allow-private-targets to allow it",
		"64:ff9b::10.0.0.1": "refused: 64:ff9b::a00:1 (10.0.0.1) is a private address; set --allow-private-targets to allow it",
		"224.0.0.1":         "refused: 224.0.0.1 is a multicast address",
	} {
		err := outbound.DialHook(t.Context(), outbound.Options{}, addr, addr)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", addr, err, want)
		}
	}
}

func TestDialHookAllowsPublicAddresses(t *testing.T) {
	for _, addr := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
		"191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
		"2001:200::", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::", "2606:4700::1111", "3ffe::1", "3fff:1000::",
		"::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
	} {
		if err := outbound.DialHook(t.Context(), outbound.Options{}, "name.example", addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestDialHookRefusesWhatIsNoAddress(t *testing.T) {
	if err := outbound.DialHook(t.Context(), outbound.Options{}, "name.example", "name.example"); err == nil {
		t.Error("the hook let a name pass")
	}
}

func TestAllowList(t *testing.T) {
	list := []string{"Hooks.Corp.example.", "10.1.0.0/16", "127.0.0.1", "::ffff:192.168.0.7", "fd00::/64", "ff02::1", "192.0.2.0/24"}
	for _, c := range []struct {
		name, host, addr string
		allowed          bool
	}{
		{"host", "hooks.corp.example", "10.9.9.9", true},
		{"host in other spelling", "HOOKS.corp.example.", "127.0.0.2", true},
		{"below the host", "x.hooks.corp.example", "10.9.9.9", false},
		{"other host", "corp.example", "10.9.9.9", false},
		{"CIDR", "name.example", "10.1.2.3", true},
		{"CIDR, mapped", "name.example", "::ffff:10.1.2.3", true},
		{"CIDR, through NAT64", "name.example", "64:ff9b::10.1.2.3", true},
		{"outside the CIDR", "name.example", "10.2.0.0", false},
		{"address", "127.0.0.1", "127.0.0.1", true},
		{"next address", "127.0.0.2", "127.0.0.2", false},
		{"mapped entry", "name.example", "192.168.0.7", true},
		{"IPv6 CIDR", "name.example", "fd00::7", true},
		{"IPv6 CIDR with a zone", "name.example", "fd00::7%eth0", true},
		{"public", "name.example", "8.8.8.8", true},
		{"multicast cannot be opened", "name.example", "ff02::1", false},
		{"documentation cannot be opened", "name.example", "192.0.2.1", false},
		{"nor by the host", "hooks.corp.example", "0.0.0.0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := outbound.DialHook(t.Context(), outbound.Options{AllowList: list}, c.host, c.addr)
			if got := !outbound.IsRefused(err); got != c.allowed {
				t.Errorf("got %v, want allowed: %t", err, c.allowed)
			}
		})
	}
}

func TestNewNamesTheBadEntry(t *testing.T) {
	for _, entry := range []string{"", "10.0.0.0/33", "host:80", "http://host", "*.example", "a b"} {
		_, err := outbound.New(outbound.Options{AllowList: []string{"10.0.0.1", entry}})
		if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), `"`+entry+`"`) {
			t.Errorf("%q: got %v, want a Malformed error that names it", entry, err)
		}
	}
}

// loopbackSpellings are hosts that lead to loopback. libc's resolver answers
// those that Go does not read as addresses.
var loopbackSpellings = []string{
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0X7F.0.0.1",
	"0177.0.0.1", "0177.0.0.01", "0x7f.1", "0x7f.0.0x0.01", "127.0.0.1..", "127.255.255.254",
	"localhost", "LocalHost", "localhost.", "app.localhost",
	"１２７.0.0.1", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.0.0.1", "127.0.0\u00ad.1", "ｌocalhost", "lo\u200bcalhost",
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
}

// loopbackSpellings6 need a machine that has IPv6.
var loopbackSpellings6 = []string{
	"[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::1%25lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
}

// everything is a resolver that gives all names the same address, as libc does
// for all spellings of it.
type everything string

func (e everything) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(e))}, nil
}

func TestEverySpellingIsRefused(t *testing.T) {
	spellings := loopbackSpellings
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		_ = l.Close()
		spellings = append(spellings[:len(spellings):len(spellings)], loopbackSpellings6...)
	}
	for _, host := range spellings {
		t.Run(host, func(t *testing.T) {
			c, g := newClient(t, outbound.Options{Resolver: everything("127.0.0.1")})
			_, err := fetch(t.Context(), c, "http://"+host+"/")
			if !outbound.IsRefused(err) {
				t.Errorf("got %v, want a refusal", err)
			}
			if len(g.reached) != 0 {
				t.Errorf("reached %v", g.reached)
			}
		})
	}
}

func TestRebinding(t *testing.T) {
	hit := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server on loopback was reached") })
	port := portOf(t, hit)
	const public = "93.184.215.14"
	for _, tc := range []struct {
		name    string
		queue   [][]string
		refused []bool // of one request after the other
		reached []string
	}{
		{"changes between two requests", [][]string{{public}, {"127.0.0.1"}}, []bool{false, true}, []string{public + ":" + port}},
		{"and back", [][]string{{"127.0.0.1"}, {public}}, []bool{true, false}, []string{public + ":" + port}},
		{"both in one answer", [][]string{{public, "127.0.0.1"}}, []bool{false}, []string{public + ":" + port}},
		{"both, loopback first", [][]string{{"127.0.0.1", public}}, []bool{false}, []string{public + ":" + port}},
		{"mapped", [][]string{{"::ffff:127.0.0.1"}}, []bool{true}, nil},
		{"all refused", [][]string{{"127.0.0.1", "10.0.0.1"}}, []bool{true}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, g := newClient(t, outbound.Options{Resolver: answers{"rebind.example": tc.queue}})
			for i, want := range tc.refused {
				_, err := fetch(t.Context(), c, "http://rebind.example:"+port+"/")
				if err == nil || outbound.IsRefused(err) != want {
					t.Errorf("request %d: got %v, want refused: %t", i+1, err, want)
				}
				if !want && !errors.Is(err, errStopped) {
					t.Errorf("request %d: got %v, want it to end at the test's guard", i+1, err)
				}
			}
			if diff := cmp.Diff(tc.reached, g.reached); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLookupBeforeTheRequest is the attack on those who check a look-up of
// their own: the name is public when it is checked and loopback when used.
func TestLookupBeforeTheRequest(t *testing.T) {
	names := answers{"rebind.example": {{"93.184.215.14"}, {"127.0.0.1"}}}
	addrs, err := names.LookupNetIP(t.Context(), "ip", "rebind.example")
	if err != nil {
		t.Fatal(err)
	}
	if err := outbound.DialHook(t.Context(), outbound.Options{}, "rebind.example", addrs[0].String()); err != nil {
		t.Fatalf("the first answer: %v", err)
	}
	c, g := newClient(t, outbound.Options{Resolver: names})
	if _, err := fetch(t.Context(), c, "http://rebind.example/"); !outbound.IsRefused(err) || len(g.reached) != 0 {
		t.Errorf("got %v, reached %v, want a refusal", err, g.reached)
	}
}

func TestDialTriesTheNextAddress(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	port := portOf(t, s)
	c, g := newClient(t, outbound.Options{
		AllowList: []string{"127.0.0.1"},
		Resolver:  answers{"site.example": {{"10.0.0.1", "93.184.215.14", "127.0.0.1"}}},
	})
	if got, err := fetch(t.Context(), c, "http://site.example:"+port); err != nil || got != "ok" {
		t.Fatalf("got %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"93.184.215.14:" + port, "127.0.0.1:" + port}, g.reached); diff != "" {
		t.Error(diff)
	}
}
