package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialer connects only to addresses that its policy allows.
type dialer struct {
	policy   *policy
	resolver Resolver
	control  controlFunc // nil, or a test's hook after the check
}

func newDialer(o Options) (*dialer, error) {
	policy, err := newPolicy(o.AllowPrivate, o.AllowList)
	if err != nil {
		return nil, err
	}
	d := &dialer{policy: policy, resolver: o.Resolver, control: o.Control}
	if d.resolver == nil {
		d.resolver = net.DefaultResolver
	}
	return d, nil
}

// dial resolves the host and tries its addresses in turn, each with an equal
// share of the remaining time. One refused address does not keep the others from
// being tried. The error is a refusal only if every address was refused:
// otherwise a retry may help.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	deadline := time.Now().Add(dialTimeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var failure error
	for i, addr := range addrs {
		to := net.Dialer{
			Timeout:        time.Until(deadline) / time.Duration(len(addrs)-i),
			ControlContext: d.dialHook(host),
		}
		conn, err := to.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		if failure == nil || IsRefused(failure) && !IsRefused(err) {
			failure = err
		}
	}
	return nil, failure
}

// lookup resolves a host name. It returns at least one address if the error is
// nil.
func (d *dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, err
}

// controlFunc is the type of net.Dialer.ControlContext.
type controlFunc = func(ctx context.Context, network, address string, c syscall.RawConn) error

// dialHook returns the hook that net.Dialer calls after it created the socket
// and before it connects. This is the SSRF guard, and the only place where an
// address is checked: the hook gets the address that will be connected to. A
// check of an earlier lookup could be evaded by DNS rebinding, where a name
// resolves to a public address first and to a private one a moment later.
func (d *dialer) dialHook(host string) controlFunc {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address to connect to: %w", err)
		}
		if err := d.policy.check(host, target.Addr()); err != nil {
			return err
		}
		if d.control == nil {
			return nil
		}
		return d.control(ctx, network, address, c)
	}
}
