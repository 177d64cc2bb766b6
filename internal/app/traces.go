package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// startTracing makes the tracer if there is a collector. Lines of the log then have
// the id of their trace. It is called before the parts are made, which copy the logger.
func (a *App) startTracing() {
	if a.config.TraceOTLPEndpoint == "" {
		return
	}
	a.tracer = trace.New(a.config.Sampler(), a.config.TracePropagate)
	a.log = slog.New(trace.LogHandler(a.log.Handler()))
}

// sendTraces sends what is recorded until the function that it returns is called, which
// is after the last request and job: their spans are sent, too. Without a tracer it does
// nothing.
func (a *App) sendTraces(ctx context.Context) (stop func()) {
	if a.tracer == nil {
		return func() {}
	}
	target, log := a.config.TracesURL(), a.logFor("traces")
	// It isn't an error: the process would not start because of a variable of its environment.
	if a.isOwn(target) {
		// Variables that were set for agents: traces of the service would be kept by
		// itself as if they were its customers'.
		log.WarnContext(ctx, "traces are not sent: trace-otlp-endpoint (or OTEL_EXPORTER_OTLP_ENDPOINT) is this service itself")
		return func() {}
	}
	host, _ := os.Hostname() // a trace without it is of use, too
	sender := &trace.Sender{
		Tracer: a.tracer, Log: log,
		Resource: map[string]string{
			"service.name": a.config.TraceService, "service.version": a.parts.version,
			"service.instance.id": a.listener.Addr().String(), "host.name": host,
		},
		Post: func(ctx context.Context, body []byte) error { return a.postTraces(ctx, target, body) },
	}
	// ctx ends before the last requests do.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		sender.Run(sending)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// postTraces sends one batch. The sender retries, with backoff.
func (a *App) postTraces(ctx context.Context, target string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "Whetstone")
	for name, value := range a.config.TraceOTLPHeader {
		req.Header.Set(name, string(value))
	}
	resp, err := a.parts.collector.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector of trace-otlp-endpoint answered HTTP %d", resp.StatusCode)
	}
	return nil
}

// isOwn reports whether the URL is one of this service. A loop of names, e.g. through a proxy,
// is not noticed.
func (a *App) isOwn(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	for _, own := range []string{a.ListenURL(), a.URL()} {
		if o, err := url.Parse(own); err == nil && (o.Host == u.Host || o.Port() == u.Port() && u.Hostname() == "localhost") {
			return true
		}
	}
	return false
}
