package outbound

import (
	"context"
	"net"
)

// DialHook calls the hook that net.Dialer calls before it connects, for an
// address to which the host was resolved. No socket is made, so that a test
// can go through addresses that the machine has no route to.
func DialHook(ctx context.Context, o Options, host, addr string) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	return d.checked(host)(ctx, "tcp", net.JoinHostPort(addr, "80"), nil)
}
