package outbound

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// policy decides which addresses may be reached.
type policy struct {
	allowPrivate bool
	hosts        map[string]bool // allow list: canonical host names
	prefixes     []netip.Prefix  // allow list: addresses and CIDRs
}

func newPolicy(allowPrivate bool, allowList []string) (*policy, error) {
	p := &policy{allowPrivate: allowPrivate, hosts: map[string]bool{}}
	for _, entry := range allowList {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			p.prefixes = append(p.prefixes, prefix)
			continue
		}
		if addr, err := netip.ParseAddr(entry); err == nil {
			addr = normalizeAddr(addr)
			p.prefixes = append(p.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		if !isHostName(entry) {
			return nil, fault.New(fault.Malformed, "allow list: %q is not a host name, an address or a CIDR", entry)
		}
		p.hosts[canonicalHost(entry)] = true
	}
	return p, nil
}

// check returns nil if the address to which the host resolved may be reached,
// and a refusal if not. For a name the refusal reveals only the kind of range:
// the address itself may be known to the operator's internal DNS only.
func (p *policy) check(host string, addr netip.Addr) error {
	addr = normalizeAddr(addr)
	s, ok := lookupSpecial(addr)
	if !ok {
		return nil
	}
	subject := canonicalHost(host) + " resolves to"
	if _, err := netip.ParseAddr(host); err == nil {
		subject = s.String() + " is"
	}
	if !s.allowable {
		return refuse("%s %s", subject, s.name)
	}
	if p.allowPrivate || p.hosts[canonicalHost(host)] || p.allowListed(addr) || p.allowListed(s.addr) {
		return nil
	}
	return refuse("%s %s; set --allow-private-targets to allow it", subject, s.name)
}

func (p *policy) allowListed(addr netip.Addr) bool {
	return slices.ContainsFunc(p.prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// canonicalHost returns the form in which host names are compared: DNS ignores
// case, and a trailing dot only says that the name is complete.
func canonicalHost(host string) string {
	return strings.ToLower(strings.TrimRight(host, "."))
}
