// Package keyrules has the rules that API keys follow: the networks from which a key
// works, and what an organisation's policy asks of new keys. It owns the table
// key_policies.
package keyrules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// MaxNetworks is how many networks one key may list.
const MaxNetworks = 50

// An AllowList lists the networks from which a key works. An empty one allows every
// address. A list is short, so it is searched linearly.
type AllowList []netip.Prefix

// ParseAllowList parses networks like 10.0.0.0/8 and 2001:db8::/32, and single
// addresses. It puts them into canonical form and drops duplicates. A text that is no
// network is fault.Invalid at allowed_ips.
func ParseAllowList(texts []string) (AllowList, error) {
	if len(texts) > MaxNetworks {
		return nil, fault.Invalid("allowed_ips", "allowed_ips must have at most %d networks", MaxNetworks)
	}
	var list AllowList
	for i, text := range texts {
		p, problem := parseNetwork(strings.TrimSpace(text))
		if problem != "" {
			return nil, fault.Invalid(fmt.Sprintf("allowed_ips.%d", i), "%s", problem)
		}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list, nil
}

func parseNetwork(text string) (p netip.Prefix, problem string) {
	p, err := netip.ParsePrefix(text)
	if addr, single := netip.ParseAddr(text); single == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	// An IPv4 network in IPv6 notation would otherwise never match.
	// Clients' addresses are never IPv4-mapped, see httpapi.ClientAddr.
	if err == nil && p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	switch {
	case err != nil || !p.IsValid():
		return p, "must be a network like 10.0.0.0/8 or 2001:db8::/32, or an address"
	case p.Bits() == 0:
		return p, "is the whole internet; leave allowed_ips out to allow every address"
	}
	return p.Masked(), ""
}

// Allows reports whether a key with this list works from the address. The zero address
// is allowed by an empty list only. Zones are dropped: an allow list has none.
func (l AllowList) Allows(addr netip.Addr) bool {
	return len(l) == 0 || slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(addr.Unmap().WithZone("")) })
}

// Within reports whether every address that l allows is allowed by outer, too. It compares network
// by network: a network that only a union of several covers is refused, which is the safe side.
func (l AllowList) Within(outer AllowList) bool {
	if len(outer) == 0 {
		return true
	}
	inside := func(p netip.Prefix) bool {
		return slices.ContainsFunc(outer, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) })
	}
	return len(l) > 0 && !slices.ContainsFunc(l, func(p netip.Prefix) bool { return !inside(p) })
}

// Strings returns the networks as texts; empty, not nil, for an empty list.
func (l AllowList) Strings() []string {
	texts := make([]string, len(l))
	for i, p := range l {
		texts[i] = p.String()
	}
	return texts
}

// Encode is the list as it is stored; nil for an empty one.
func (l AllowList) Encode() *string {
	if len(l) == 0 {
		return nil
	}
	joined := strings.Join(l.Strings(), " ")
	return &joined
}

// Decode is the inverse of Encode. It fails rather than to allow every address. It is a text of
// networks separated by spaces.
func Decode(stored *string) (AllowList, error) {
	if stored == nil {
		return nil, nil
	}
	var list AllowList
	for text := range strings.FieldsSeq(*stored) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("an allow list without networks is stored")
	}
	return list, nil
}

// CheckWithin refuses networks that the list of the key with which they are set does not
// have: a stolen key must not make one that works from more places.
func (l AllowList) CheckWithin(outer AllowList) error {
	if l.Within(outer) {
		return nil
	}
	return fault.Invalid("allowed_ips", "allowed_ips must lie within the networks of the key you use; leave it out for the same ones")
}
