package gateway_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
)

// key is the model's, which must never reach a program.
const key = "sk-upstream-0123456789"

// A program is what runs in the sandbox: all that it has is a socket.
type program struct {
	t      *testing.T
	socket string
	*gateway.Session
	http *http.Client
}

type options struct {
	api   gateway.API
	url   string
	id    string // of the model; the priced one if empty
	meter *gateway.Meter

	others []gateway.Model
}

// pricedModel has a price in the embedded table: 3 and 15 dollars per million
// tokens, 0.30 for those read from a cache and 3.75 for those written to it.
const pricedModel = "claude-sonnet-4-5"

func newGateway(t *testing.T, models ...gateway.Model) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(gateway.Options{Models: models, Prices: pricing.Embedded(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// socketDir is a folder with a short path: that of a socket is limited.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, o options) *program {
	t.Helper()
	if o.id == "" {
		o.id = pricedModel
	}
	if o.meter == nil {
		o.meter = gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	}
	g := newGateway(t, append(o.others, gateway.Model{Name: "model", ID: o.id, API: o.api, URL: o.url, Key: key})...)
	dir := socketDir(t)
	s, err := g.Open(dir, gateway.Conversation{Model: "model", Meter: o.meter, Record: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, socket: filepath.Join(dir, "model.sock"), Session: s}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}
	p.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// post sends a request with a key of the program's own.
func (p *program) post(path, body string) (status int, answer string) {
	p.t.Helper()
	resp := p.send(path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (p *program) send(path, body string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://127.0.0.1:8787"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer inside")
	req.Header.Set("X-Api-Key", "inside")
	req.Header.Set("Cookie", "inside=1")
	req.Header.Set("Anthropic-Beta", "context-management")
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp
}

// raw sends bytes as they are, and returns the status line of the answer, "" if
// the connection is closed without one.
func (p *program) raw(bytes string) string {
	p.t.Helper()
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, bytes); err != nil {
		return "" // refused before the end
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}
