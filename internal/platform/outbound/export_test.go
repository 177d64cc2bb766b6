package outbound

import (
	"context"
	"net"
)

// DialHook calls the dial hook for an address to which the host resolved. No
// socket is made, so a test can cover addresses without a route.
func DialHook(ctx context.Context, o Options, host, addr string) error {
	d, err := newDialer(o)
	if err != nil {
		return err
	}
	return d.dialHook(host)(ctx, "tcp", net.JoinHostPort(addr, "80"), nil)
}
