package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialer connects to what its policy allows.
type dialer struct {
	policy   *policy
	resolver Resolver
	control  func(ctx context.Context, network, address string, c syscall.RawConn) error
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

// dial looks the host up and tries its addresses in turn, each with its share
// of the time. A refused address does not stand in the way of the others; the
// error is a refusal only when every address was refused, since otherwise
// trying again may help.
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
			ControlContext: d.checked(host),
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

// lookup returns at least one address if the error is nil.
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

// checked returns the hook that net.Dialer calls between making a socket and
// connecting it. This is the one place where an address is judged: it is the
// address that is connected to, whatever the name meant a moment before.
func (d *dialer) checked(host string) func(ctx context.Context, network, address string, c syscall.RawConn) error {
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
