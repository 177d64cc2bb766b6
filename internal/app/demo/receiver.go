package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// receiverHost is a name that only the client of a Receiver can resolve.
const receiverHost = "on-call.acme.example"

// A Receiver is where the demo's alerts and events go: webhooks on loopback that take
// everything.
type Receiver struct{ listener net.Listener }

// Listen opens the port of a receiver. Run serves it.
func Listen(ctx context.Context) (_ *Receiver, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	return &Receiver{l}, err
}

// URL is the address of the receiver for its client.
func (r *Receiver) URL() string {
	return fmt.Sprintf("http://%s:%d", receiverHost, r.listener.Addr().(*net.TCPAddr).Port)
}

// Run answers until ctx is done.
func (r *Receiver) Run(ctx context.Context) error {
	server := &http.Server{
		ReadTimeout: 10 * time.Second,
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // what is sent meanwhile is sent again
	if err := server.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Allow lets a client reach the receiver, and nothing else that it could not reach
// without: not even another port of this machine.
func (r *Receiver) Allow(o outbound.Options) outbound.Options {
	o.Resolver = r
	if o.AllowPrivate {
		return o
	}
	o.AllowList = append(o.AllowList, receiverHost)
	o.Control = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err == nil && to.Addr().IsLoopback() && address != r.listener.Addr().String() {
			return errors.New("only the demo's receiver can be reached on loopback")
		}
		return err
	}
	return o
}

// LookupNetIP implements outbound.Resolver.
func (r *Receiver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if host == receiverHost {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}
