package outbound

import (
	"fmt"
	"net/netip"
)

// addressRange is a part of the address space that is not the public network.
type addressRange struct {
	prefix netip.Prefix
	name   string
	// own says that somebody may have such a network, so that the operator
	// can open it.
	own bool
}

// addressRanges is read only; the first range that holds an address names it.
// It follows the special-purpose registries of IANA.
var addressRanges = []addressRange{
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", true},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", true},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", true},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address", true},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier-grade NAT address", true},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmark address", true},
	// Public by its number, but a cloud answers it inside each machine.
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
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private address", true}, // NAT64 of one's own
	{netip.MustParsePrefix("2001:2::/48"), "a benchmark address", true},
	{netip.MustParsePrefix("::/128"), "an unspecified address", false},
	{netip.MustParsePrefix("100::/64"), "a discard address", false},
	{netip.MustParsePrefix("2001::/23"), "a reserved address", false}, // Teredo, ORCHID and others
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address", false},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address", false},
	{netip.MustParsePrefix("5f00::/16"), "a reserved address", false}, // segment routing
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", false},
}

// embeddings are the IPv6 ranges whose addresses lead to an IPv4 address, and
// where that stands in them. It is read only.
var embeddings = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
}

// special is an address outside the public network.
type special struct {
	addressRange
	outer netip.Addr // what would be dialled
	addr  netip.Addr // what that leads to: outer, or the IPv4 address in it
}

func (s special) String() string {
	if s.outer == s.addr {
		return s.outer.String()
	}
	return fmt.Sprintf("%s (%s)", s.outer, s.addr)
}

// specialOf reports whether a bare address is outside the public network.
func specialOf(outer netip.Addr) (special, bool) {
	for _, addr := range []netip.Addr{outer, embedded(outer)} {
		for _, r := range addressRanges {
			if r.prefix.Contains(addr) {
				return special{addressRange: r, outer: outer, addr: addr}, true
			}
		}
	}
	return special{}, false
}

// embedded returns the IPv4 address that an IPv6 address leads to, or the
// invalid address, which is in no range.
func embedded(addr netip.Addr) netip.Addr {
	for _, e := range embeddings {
		if e.prefix.Contains(addr) {
			b := addr.As16()
			return netip.AddrFrom4([4]byte(b[e.offset : e.offset+4]))
		}
	}
	return netip.Addr{}
}

// bare returns the address as the ranges know it: no range contains an address
// that has a zone or an IPv4 address that is mapped into IPv6.
func bare(addr netip.Addr) netip.Addr {
	return addr.WithZone("").Unmap()
}
