package app_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app"
)

// TestDrainListener: whoever is connected when the listener is closed gets an
// answer, and whoever comes later is refused.
func TestDrainListener(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := app.NewDrainListener(plain)
	var conns []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		say(t, conn, "GET / HTTP/1.0\r\n\r\n")
		conns = append(conns, conn)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to a closed listener: %v", err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	if err := http.Serve(l, handler); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v in the end", err)
	}
	for i, conn := range conns {
		if got := answers(rest(t, conn)); len(got) != 1 || got[0] != http.StatusOK {
			t.Errorf("connection %d: statuses %v", i, got)
		}
	}
}

// TestDrainListenerWhileAccepting closes the listener while a server waits for
// connections.
func TestDrainListenerWhileAccepting(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := app.NewDrainListener(plain)
	accepted := make(chan error)
	go func() {
		for {
			conn, err := l.Accept()
			accepted <- err
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returned %v", err)
	}
}
