package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr returns the address of the client that made the request; the zero
// address outside of a request. Behind a trusted proxy it comes from
// X-Forwarded-For.
func ClientAddr(ctx context.Context) netip.Addr {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		return s.client
	}
	return netip.Addr{}
}

// maxHops is how many entries of X-Forwarded-For are read.
const maxHops = 32

// clientAddr follows X-Forwarded-For from its end as long as the hops are trusted:
// each proxy appends the address from which it got the request. Entries before the
// first untrusted hop may be forged and are ignored.
//
// E.g. with the trusted network 10.0.0.0/8, the peer 10.0.0.1 and the header
// "6.6.6.6, 203.0.113.7, 10.0.0.2", the client is 203.0.113.7.
func (a *API) clientAddr(r *http.Request) netip.Addr {
	client := parseHop(r.RemoteAddr)
	if len(a.proxies) == 0 || !a.trusts(client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i, hop := range slices.Backward(hops) {
		addr := parseHop(strings.TrimSpace(hop))
		if !addr.IsValid() || len(hops)-i > maxHops {
			break
		}
		if client = addr; !a.trusts(client) {
			break
		}
	}
	return client
}

func (a *API) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(a.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseHop parses an address with or without a port. It returns the zero address
// for anything else.
func parseHop(text string) netip.Addr {
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		withPort, _ := netip.ParseAddrPort(text) // zero on error
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone("")
}

// network returns what rate limits count as one address: the /64 of an IPv6
// address, since providers hand those out as a whole.
func network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // fails only for more bits than there are
	return prefix.Addr()
}
