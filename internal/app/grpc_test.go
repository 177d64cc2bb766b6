package app_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const exportLogs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

// emptyExport is an export of nothing in the frame of gRPC.
var emptyExport = []byte{0, 0, 0, 0, 0}

// byHTTP2 is a client that speaks HTTP/2 from the first byte, as those of gRPC do.
func byHTTP2(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// export makes a call of OTLP by gRPC and returns the trailers of its answer.
func (s *service) export(t *testing.T, client *http.Client, key string, body io.Reader) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+exportLogs, body)
	if err != nil {
		t.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		t.Errorf("%s %s: %v", res.Proto, res.Status, err)
	}
	return res.Trailer
}

func wantGRPC(t *testing.T, trailer http.Header, code int, message string) {
	t.Helper()
	if trailer.Get("Grpc-Status") != fmt.Sprint(code) || !strings.Contains(trailer.Get("Grpc-Message"), message) {
		t.Errorf("trailers %v, want the status %d and %q", trailer, code, message)
	}
}

// TestGRPC makes calls over HTTP/2 on the main address, which serves HTTP/1.1 beside
// it: many at once on one connection, with a wrong key, and with a full disk.
func TestGRPC(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		var free atomic.Uint64
		free.Store(100 << 30)
		s := start(t, settings(t, flags...), func(o *app.Options) {
			o.Space = func(string) (uint64, uint64, error) { return free.Load(), 200 << 30, nil }
		})
		client := byHTTP2(t)
		done := make(chan http.Header)
		const calls = 300 // of which 100 run at once
		for range calls {
			go func() { done <- s.export(t, client, s.FirstKey, bytes.NewReader(emptyExport)) }()
		}
		for range calls {
			wantGRPC(t, <-done, 0, "")
		}
		wantGRPC(t, s.export(t, client, "st_live_wrong", bytes.NewReader(emptyExport)), 16, "Unknown API key")
		huge := binary.BigEndian.AppendUint32([]byte{0}, 33<<20)
		wantGRPC(t, s.export(t, client, s.FirstKey, io.MultiReader(bytes.NewReader(huge), zeros(33<<20))), 3, "over the limit of 32 MiB")
		s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me")
		if _, metrics := s.get(t, "/metrics", ""); !strings.Contains(metrics, `route="POST /v1/logs"`) {
			t.Error("the metrics do not have the route")
		}

		free.Store(512<<20 - 1)
		var full http.Header
		apptest.Eventually(t, "the reserve is noticed", func() bool {
			full = s.export(t, client, s.FirstKey, bytes.NewReader(emptyExport))
			return full.Get("Grpc-Status") != "0"
		})
		wantGRPC(t, full, 14, "disk is almost full")
		if full.Get("Grpc-Status-Details-Bin") == "" {
			t.Error("a full disk does not say when to retry")
		}
	})
}

// zeros is a body of n bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An http2Conn speaks the frames of HTTP/2 by hand.
type http2Conn struct {
	net.Conn
	*http2.Framer
}

// dialHTTP2 opens a connection and begins HTTP/2 on it.
func (s *service) dialHTTP2(t *testing.T) *http2Conn {
	t.Helper()
	conn := s.dial(t)
	say(t, conn, http2.ClientPreface)
	c := &http2Conn{conn, http2.NewFramer(conn, conn)}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// request begins a request with a body on a stream.
func (c *http2Conn) request(t *testing.T, stream uint32, key, path string) {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":authority", "test"},
		{":path", path},
		{"content-type", "application/grpc"},
		{"authorization", "Bearer " + key},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSlowHTTP2Clients: HTTP/2 has the time limits of HTTP/1.1. A connection on which
// nothing goes on is closed, and a body that does not come ends its stream.
func TestSlowHTTP2Clients(t *testing.T) {
	t.Parallel()
	s := impatient(t, little)
	starts := map[string]func(*testing.T) net.Conn{
		"half a preface": func(t *testing.T) net.Conn {
			conn := s.dial(t)
			say(t, conn, http2.ClientPreface[:10])
			return conn
		},
		"no settings": func(t *testing.T) net.Conn {
			conn := s.dial(t)
			say(t, conn, http2.ClientPreface)
			return conn
		},
		"nothing after the settings": func(t *testing.T) net.Conn { return s.dialHTTP2(t) },
		"half the headers": func(t *testing.T) net.Conn {
			c := s.dialHTTP2(t)
			if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}}); err != nil {
				t.Fatal(err)
			}
			return c
		},
		"no message": func(t *testing.T) net.Conn {
			c := s.dialHTTP2(t)
			c.request(t, 1, s.FirstKey, exportLogs)
			return c
		},
		"half a message": func(t *testing.T) net.Conn {
			c := s.dialHTTP2(t)
			c.request(t, 1, s.FirstKey, exportLogs)
			if err := c.WriteData(1, false, []byte{0, 0, 0, 1, 0, 1, 2, 3}); err != nil {
				t.Fatal(err)
			}
			return c
		},
		"a call without a key": func(t *testing.T) net.Conn {
			c := s.dialHTTP2(t)
			c.request(t, 1, "", exportLogs)
			return c
		},
		"a body of no route": func(t *testing.T) net.Conn {
			c := s.dialHTTP2(t)
			c.request(t, 1, s.FirstKey, "/none")
			return c
		},
	}
	conns := map[string]net.Conn{}
	for name, begin := range starts { // all before the first is waited for
		conns[name] = begin(t)
	}
	for name, conn := range conns {
		t.Run(name, func(t *testing.T) {
			s.wantStatus(t, "", http.StatusOK, "/healthz")
			rest(t, conn) // fails if the server holds on to the connection
		})
	}
}

// TestHTTP2Window: what one connection can make the server hold, without a key and
// before a handler reads it, is 64 KiB and a frame of 16 KiB.
func TestHTTP2Window(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--roles", "web"))
	c := s.dialHTTP2(t)
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			t.Errorf("the window grows by %d", frame.Increment)
		case *http2.SettingsFrame:
			if frame.IsAck() {
				return // all that the server says by itself was before
			}
			for id, most := range map[http2.SettingID]uint32{
				http2.SettingInitialWindowSize: 64 << 10, http2.SettingMaxFrameSize: 16 << 10,
				http2.SettingMaxConcurrentStreams: 100, http2.SettingMaxHeaderListSize: 70 << 10,
			} {
				if got, ok := frame.Value(id); !ok || got > most {
					t.Errorf("%s is %d, want at most %d", id, got, most)
				}
			}
		}
	}
}

// TestGRPCDrains: a call that runs when the server stops is answered.
func TestGRPCDrains(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--roles", "web"))
	body, send := io.Pipe()
	answered := make(chan http.Header, 1)
	client := byHTTP2(t)
	go func() { answered <- s.export(t, client, s.FirstKey, body) }()
	if _, err := send.Write(emptyExport[:3]); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the call runs", func() bool {
		_, metrics := s.get(t, "/metrics", "")
		return strings.Contains(metrics, "whetstone_http_requests_in_flight 2")
	})
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	apptest.Eventually(t, "the server accepts nothing more", func() bool {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if _, err := send.Write(emptyExport[3:]); err != nil {
		t.Fatal(err)
	}
	_ = send.Close()
	wantGRPC(t, <-answered, 0, "")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
