package store_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestDiskFull allows SQLite no further page. Writes fail with Unavailable, and
// what was stored can be read.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	rows, err := db.Query(t.Context(), `PRAGMA page_count`)
	pages, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		if err := db.InTx(t.Context(), func(tx *store.Tx) error {
			rows, err := tx.Query(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages))
			_, err = store.All(rows, err, store.Value[int])
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages)
	for i := 0; err == nil && i < 10_000; i++ {
		_, err = db.Exec(t.Context(), insertOrg, fmt.Sprintf("org-%d", i), "free", store.Micros(time.Now()))
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("Exec on a full disk = %v, want an Unavailable fault", err)
	}
	kept := len(orgNames(t, db))
	limit(1_000_000)
	if _, err := db.Exec(t.Context(), insertOrg, "with room", "free", store.Micros(time.Now())); err != nil {
		t.Error(err)
	}
	if got := len(orgNames(t, db)); got != kept+1 {
		t.Errorf("%d rows, want %d", got, kept+1)
	}
}

// TestConnectionLost breaks the connections to PostgreSQL in a transaction.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.URL(t, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := newProxy(t, u.Host)
	u.Host = proxy.Addr().String()
	db, err := store.Open(t.Context(), store.Options{URL: u.String(), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = db.InTx(t.Context(), func(tx *store.Tx) error {
		proxy.closeAll()
		rows, err := tx.Query(t.Context(), `SELECT 1`)
		_, err = store.All(rows, err, store.Value[int])
		return err
	})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("InTx over a broken connection = %v, want an Unavailable fault", err)
	}
	rows, err := db.Query(t.Context(), `SELECT 1`)
	if _, err := store.All(rows, err, store.Value[int]); err != nil {
		t.Errorf("the next query, over a new connection: %v", err)
	}
}

// proxy is a TCP proxy whose connections can be closed.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	t.Cleanup(func() { _ = l.Close(); p.closeAll() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = in.Close()
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
		}
	}()
	return p
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}
