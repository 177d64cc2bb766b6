package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	var served atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte("hello"))
	}))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := wire(req)
	if err != nil {
		t.Fatal(err)
	}
	l := load{
		addr: strings.TrimPrefix(s.URL, "http://"), conns: 3, span: time.Minute, status: http.StatusOK,
		next: func(_, n int) []byte {
			if n == 10 {
				return nil
			}
			return request
		},
	}
	r, err := l.run(t.Context())
	if err != nil || len(r.latencies) != 30 || served.Load() != 30 {
		t.Fatalf("%d answers to %d requests, want 30: %v", len(r.latencies), served.Load(), err)
	}
	if r.quantile(0.5) > r.quantile(0.99) {
		t.Errorf("p50 %s is above p99 %s", r.quantile(0.5), r.quantile(0.99))
	}

	l.status = http.StatusCreated
	if _, err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "want 201: hello") {
		t.Errorf("a wrong status gives %v", err)
	}
	l.status, l.next = http.StatusOK, func(int, int) []byte { return nil }
	if _, err := l.run(t.Context()); err == nil {
		t.Error("a load without requests gives no error")
	}
}
