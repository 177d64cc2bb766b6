package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr is the address of the client that made the request of the context;
// zero outside one. Behind a trusted proxy it is what that proxy says.
func ClientAddr(ctx context.Context) netip.Addr {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		return s.client
	}
	return netip.Addr{}
}

// maxHops is how many entries of X-Forwarded-For are looked at.
const maxHops = 32

// clientAddr goes from the peer back through the proxies that passed the request
// on, as long as they are trusted: each appends to X-Forwarded-For whom it got
// the request from. What stands before the first untrusted hop is that hop's
// word, and worth nothing.
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

// parseHop reads an address with or without a port. What is none is zero.
func parseHop(text string) netip.Addr {
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		withPort, _ := netip.ParseAddrPort(text) // zero if it is no address
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone("")
}

// network is what limits count as one address: whoever has an IPv6 address has
// the /64 around it, too.
func network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // fails only for more bits than there are
	return prefix.Addr()
}
