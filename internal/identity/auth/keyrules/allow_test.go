package keyrules_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
)

func list(t *testing.T, texts ...string) keyrules.AllowList {
	t.Helper()
	l, err := keyrules.ParseAllowList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParseAllowList(t *testing.T) {
	got := list(t, "10.0.0.0/8", " 10.1.2.3/8 ", "192.0.2.7", "2001:DB8::1", "2001:db8:1::5/48", "::ffff:198.51.100.0/120", "::ffff:203.0.113.9")
	want := []string{"10.0.0.0/8", "192.0.2.7/32", "2001:db8::1/128", "2001:db8:1::/48", "198.51.100.0/24", "203.0.113.9/32"}
	if diff := cmp.Diff(want, got.Strings()); diff != "" {
		t.Error(diff)
	}
	stored, err := keyrules.Decode(got.Encode())
	if err != nil || !cmp.Equal(want, stored.Strings()) {
		t.Errorf("stored as %v, %v", stored, err)
	}
	for _, text := range []string{
		"", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0/8", "010.0.0.0/8", "10.0.0.0/8/8", "10.0.0.0-10.0.0.9", "0.0.0.0/0", "::/0",
		"::ffff:0.0.0.0/96", "::ffff:10.0.0.0/8", "::ffff:10.0.0.0/95", "fe80::1%eth0", "fe80::%eth0/64", "fe80::/129", "10.0.0.1:80",
		"example.org", "10.0.0.0/8 192.0.2.0/24", "10.0.0.0/8\x00", strings.Repeat("1", 10_000),
	} {
		_, err := keyrules.ParseAllowList([]string{"192.0.2.1", text})
		if !fault.Is(err, fault.Malformed) {
			t.Errorf("%.40q is taken for a network: %v", text, err)
		}
	}
	many := make([]string, keyrules.MaxNetworks+1)
	if _, err := keyrules.ParseAllowList(many); !fault.Is(err, fault.Malformed) {
		t.Errorf("%d networks: %v", len(many), err)
	}
}

func TestAllows(t *testing.T) {
	l := list(t, "10.0.0.0/8", "2001:db8::/32", "fe80::/10")
	for address, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "::ffff:10.0.0.1": true, "::ffff:11.0.0.1": false,
		"2001:db8::7": true, "2001:db9::7": false, "fe80::1%eth0": true, "::10.0.0.1": false,
	} {
		if got := l.Allows(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	if l.Allows(netip.Addr{}) {
		t.Error("an unknown address is allowed")
	}
	if !keyrules.AllowList(nil).Allows(netip.Addr{}) {
		t.Error("no list allows nothing")
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		inner, outer []string
		want         bool
	}{
		{nil, nil, true},
		{[]string{"10.0.0.0/8"}, nil, true},
		{nil, []string{"10.0.0.0/8"}, false},
		{[]string{"10.1.0.0/16", "10.0.0.1"}, []string{"10.0.0.0/8"}, true},
		{[]string{"10.0.0.0/7"}, []string{"10.0.0.0/8"}, false},
		{[]string{"10.1.0.0/16", "192.0.2.1"}, []string{"10.0.0.0/8"}, false},
		{[]string{"2001:db8::/33"}, []string{"10.0.0.0/8", "2001:db8::/32"}, true},
	} {
		if got := list(t, c.inner...).Within(list(t, c.outer...)); got != c.want {
			t.Errorf("%v within %v: %v", c.inner, c.outer, got)
		}
	}
}

func TestDecodeFailsClosed(t *testing.T) {
	for _, stored := range []string{"", " ", "x", "10.0.0.0/8 x"} {
		if l, err := keyrules.Decode(&stored); err == nil {
			t.Errorf("%q is read as %v", stored, l)
		}
	}
}

func TestPolicy(t *testing.T) {
	days := 90
	p := keyrules.Policy{MaxDays: &days, RequireAllowedIPs: true}
	office, now := list(t, "192.0.2.0/24"), time.Now().UTC()
	in := func(days int) *time.Time { at := now.AddDate(0, 0, days); return &at }
	for _, c := range []struct {
		expires *time.Time
		allowed keyrules.AllowList
		ok      bool
	}{{nil, office, true}, {in(90), office, true}, {in(91), office, false}, {in(1), nil, false}} {
		if err := p.Check(c.expires, c.allowed); (err == nil) != c.ok {
			t.Errorf("%v, %v: %v", c.expires, c.allowed, err)
		}
	}
	for _, wanted := range []*time.Time{nil, in(1000)} {
		if got := p.Shorten(wanted); got == nil || got.After(now.AddDate(0, 0, 90).Add(time.Hour)) || got.Before(*in(89)) {
			t.Errorf("%v becomes %v", wanted, got)
		}
	}
	if got := p.Shorten(in(1)); !got.Equal(*in(1)) {
		t.Errorf("a day becomes %v", got)
	}
	if got := (keyrules.Policy{}).Shorten(nil); got != nil {
		t.Errorf("without a policy, a key expires %v", got)
	}
	for _, c := range []struct {
		key  keyrules.Subject
		want []string
	}{
		{keyrules.Subject{CreatedAt: now, Allowed: office}, []string{"max_days"}},
		{keyrules.Subject{CreatedAt: now, ExpiresAt: in(91)}, []string{"max_days", "require_allowed_ips"}},
		{keyrules.Subject{CreatedAt: now, ExpiresAt: in(90), Allowed: office}, nil},
		{keyrules.Subject{CreatedAt: *in(-10), ExpiresAt: in(85), Allowed: office}, []string{"max_days"}},
		{keyrules.Subject{CreatedAt: now, ExpiresAt: in(1), Login: true}, nil},
	} {
		if diff := cmp.Diff(c.want, p.Violations(c.key)); diff != "" {
			t.Errorf("%+v: %s", c.key, diff)
		}
	}
}
