package app

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A drainListener accepts, when it is closed, the connections that wait in the
// kernel's backlog. To their clients they are established, and the kernel would
// reset them: a load balancer may retry a refused connection, not that. Between the last Accept
// and close(2) there may be many of them on a busy server.
type drainListener struct {
	*net.TCPListener
	closing atomic.Bool
	drained chan struct{} // closed when waiting is complete

	mu      sync.Mutex // held by Accept
	waiting []net.Conn
}

// The listener must be one of TCP, as those of New are.
func newDrainListener(l net.Listener) net.Listener {
	return &drainListener{TCPListener: l.(*net.TCPListener), drained: make(chan struct{})}
}

// Accept implements net.Listener. After Close it returns the connections that
// were waiting, and then net.ErrClosed.
func (l *drainListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn, err := l.TCPListener.Accept()
	l.mu.Unlock()
	if err == nil || !l.closing.Load() {
		return conn, err
	}
	// Close has the lock meanwhile, and takes the rest of the backlog out of the kernel.
	<-l.drained
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil, net.ErrClosed
	}
	conn, l.waiting = l.waiting[0], l.waiting[1:]
	return conn, nil
}

// Close implements net.Listener.
func (l *drainListener) Close() error {
	// http.Server closes its listener more than once.
	if l.closing.Swap(true) {
		return net.ErrClosed
	}
	defer close(l.drained)
	// Otherwise the lock would be waited for until the next connection comes.
	_ = l.SetDeadline(time.Now()) // ends Accept
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := l.SyscallConn()
	if err == nil {
		err = raw.Control(l.acceptWaiting)
	}
	return errors.Join(err, l.TCPListener.Close())
}

// acceptWaiting empties the backlog without blocking. It uses the descriptor, since Accept of
// the net package would wait or fail because of the deadline.
func (l *drainListener) acceptWaiting(listener uintptr) {
	for {
		fd, _, err := unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return // EAGAIN: none is left
		}
		file := os.NewFile(uintptr(fd), "connection")
		if conn, err := net.FileConn(file); err == nil {
			l.waiting = append(l.waiting, conn)
		}
		_ = file.Close() // conn has a duplicate
	}
}
