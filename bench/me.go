package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

const (
	meConns = 16  // under which the machine is busy
	meRatio = 0.6 // of a bare handler
)

// benchMe measures what the frame costs: authentication, a read of the
// database, JSON, metrics, beside a handler that does nothing of it but
// answers with the same bytes.
func benchMe(ctx context.Context, l *lab) ([]row, error) {
	data, err := l.folder("me")
	if err != nil {
		return nil, err
	}
	ours, err := l.serve(ctx, data)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	req, err := ours.request(ctx, http.MethodGet, "/api/v1/me", nil)
	if err != nil {
		return nil, err
	}
	answer := filepath.Join(data, "me.json")
	if err := save(req, answer); err != nil {
		return nil, err
	}
	bare, err := startPeer(ctx, "bytes", answer)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	request, err := wire(req)
	if err != nil {
		return nil, err
	}
	sums, err := l.compare(ctx, l.steady(ours, request, meConns), l.steady(bare, request, meConns))
	if err != nil {
		return nil, err
	}
	const peer = "bare net/http"
	return []row{
		{Name: "me: throughput", Figure: sums[0].rate, Unit: "req/s", Beside: peer, Other: sums[1].rate, AtLeast: meRatio},
		{Name: "me: p50", Figure: sums[0].p50, Unit: "ms", Beside: peer, Other: sums[1].p50},
		{Name: "me: p99", Figure: sums[0].p99, Unit: "ms", Beside: peer, Other: sums[1].p99},
	}, nil
}

// steady is a side that sends the same request for the whole span.
func (l *lab) steady(s *server, request []byte, conns int) side {
	return func(int) (load, error) {
		return load{addr: s.addr, conns: conns, next: again(request), span: l.span(), status: http.StatusOK}, nil
	}
}

// save writes the body of an answer to a file.
func save(req *http.Request, path string) error {
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o600)
}
