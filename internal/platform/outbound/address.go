package outbound

import (
	"fmt"
	"net/netip"
)

// addressRange is a special-purpose range: one outside the public Internet.
type addressRange struct {
	prefix netip.Prefix
	name   string // as messages show it, with its article
	// allowable ranges can be a private network, so the operator may allow
	// them. The others are never dialled.
	allowable bool
}

// addressRanges are the special-purpose ranges in IANA's registries: the
// private ranges of RFC 1918 and RFC 4193, loopback, link-local (where clouds
// serve instance metadata: 169.254.169.254) and the rest. It is read only. The
// first range that contains an address names it.
var addressRanges = []addressRange{
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", true},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", true},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier-grade NAT address", true},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmark address", true},
	// A public address by number, but Azure answers it inside each machine.
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud metadata address", true},
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address", false},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation address", false},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", false},
	{netip.MustParsePrefix("255.255.255.255/32"), "a broadcast address", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address", false},

	{netip.MustParsePrefix("::1/128"), "a loopback address", true},
	{netip.MustParsePrefix("fc00::/7"), "a private address", true},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address", true},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address", true},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private address", true}, // local-use NAT64
	{netip.MustParsePrefix("2001:2::/48"), "a benchmark address", true},
	{netip.MustParsePrefix("::/128"), "an unspecified address", false},
	{netip.MustParsePrefix("100::/64"), "a discard address", false},
	{netip.MustParsePrefix("2001::/23"), "a reserved address", false}, // Teredo, ORCHID and others
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address", false},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address", false},
	{netip.MustParsePrefix("5f00::/16"), "a reserved address", false}, // segment routing
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", false},
}

// embeddings are the IPv6 ranges whose addresses embed an IPv4 address that
// packets end up at, and the offset of its four bytes. Without them NAT64 would
// be a way around the check: 64:ff9b::a00:1 is 10.0.0.1. It is read only.
var embeddings = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
}

// specialAddr is an address in a special-purpose range.
type specialAddr struct {
	addressRange
	outer netip.Addr // the address to dial
	addr  netip.Addr // the address in the range: outer, or the IPv4 address embedded in it
}

func (s specialAddr) String() string {
	if s.outer == s.addr {
		return s.outer.String()
	}
	return fmt.Sprintf("%s (%s)", s.outer, s.addr)
}

// lookupSpecial reports whether a normalized address is outside the public
// Internet, and in which range.
func lookupSpecial(outer netip.Addr) (specialAddr, bool) {
	for _, addr := range []netip.Addr{outer, embeddedIPv4(outer)} {
		for _, r := range addressRanges {
			if r.prefix.Contains(addr) {
				return specialAddr{addressRange: r, outer: outer, addr: addr}, true
			}
		}
	}
	return specialAddr{}, false
}

// embeddedIPv4 returns the IPv4 address that an IPv6 address embeds, or the
// invalid address, which no range contains.
func embeddedIPv4(addr netip.Addr) netip.Addr {
	for _, e := range embeddings {
		if e.prefix.Contains(addr) {
			b := addr.As16()
			return netip.AddrFrom4([4]byte(b[e.offset : e.offset+4]))
		}
	}
	return netip.Addr{}
}

// normalizeAddr drops the zone and unmaps an IPv4-mapped address
// (::ffff:10.0.0.1): netip.Prefix.Contains is false for both.
func normalizeAddr(addr netip.Addr) netip.Addr {
	return addr.WithZone("").Unmap()
}
