package soak_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

const (
	batch  = 50 // records of one request
	skills = 20
	// patience is how long a request is retried. It bounds a broken test and measures
	// nothing.
	patience = 5 * time.Minute
)

// A load sends records as the agents of a team do: half of the senders OTLP by gRPC, the
// others pushes by HTTP, each of them a person, whose reports are taken one by one.
type load struct {
	url    string
	keys   []string // of the senders
	client *clients

	acknowledged, requests, shed atomic.Int64
}

type clients struct{ http1, http2 *http.Client }

func newClients(t *testing.T) *clients {
	t.Helper()
	one, two := &http.Transport{MaxIdleConnsPerHost: *senders}, &http.Transport{Protocols: &http.Protocols{}}
	two.Protocols.SetUnencryptedHTTP2(true)
	c := &clients{&http.Client{Transport: one}, &http.Client{Transport: two}}
	t.Cleanup(c.close)
	return c
}

func (c *clients) close() {
	c.http1.CloseIdleConnections()
	c.http2.CloseIdleConnections()
}

// runFor sends for so long, at so many records a second, or as many as are taken if that
// is 0, and returns how many a second were acknowledged.
func (l *load) runFor(t *testing.T, span time.Duration, rate float64) float64 {
	t.Helper()
	start, before := time.Now(), l.acknowledged.Load()
	l.run(t.Context(), t, func(int) bool { return time.Since(start) < span }, rate)
	return float64(l.acknowledged.Load()-before) / time.Since(start).Seconds()
}

// run lets all senders send as long as more says so, by how many requests the sender
// has sent.
func (l *load) run(ctx context.Context, t *testing.T, more func(sent int) bool, rate float64) {
	t.Helper()
	pause := time.Duration(0)
	if rate > 0 {
		pause = time.Duration(float64(batch**senders) / rate * float64(time.Second))
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range *senders {
		send := l.push
		if i%2 == 0 {
			send = l.export
		}
		wg.Go(func() {
			for sent := 0; more(sent); sent++ {
				// A request that is late does not delay the ones after it.
				wait(ctx, time.Until(start.Add(time.Duration(sent)*pause)))
				if err := l.deliver(ctx, send, l.keys[i]); err != nil {
					t.Errorf("sender %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A sender sends a batch of a session with a key. It returns how long to wait before a
// retry if the service is busy, and 0 if the batch was acknowledged.
type sender func(ctx context.Context, key, session string) (retry time.Duration, err error)

// deliver sends a batch until it is acknowledged.
func (l *load) deliver(ctx context.Context, send sender, key string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	session := uuid.NewString()
	for {
		retry, err := send(ctx, key, session)
		if err != nil {
			return err
		}
		if retry == 0 {
			l.requests.Add(1)
			l.acknowledged.Add(batch)
			return nil
		}
		l.shed.Add(1)
		wait(ctx, retry)
	}
}

// push sends invocations of skills as the command line does.
func (l *load) push(ctx context.Context, key, session string) (time.Duration, error) {
	now := time.Now().UTC()
	invocations := make([]map[string]any, batch)
	for i := range invocations {
		invocations[i] = map[string]any{
			"session_id": session, "skill_invocation_id": fmt.Sprintf("%s-%d", session, i),
			"skill_name": fmt.Sprintf("soak-%02d", i%skills), "triggered": true, "confidence": 0.9,
			"occurred_at": now.Add(-time.Duration(i) * time.Second).Format(time.RFC3339Nano),
		}
	}
	body, err := json.Marshal(map[string]any{
		"schema_version": "2.0", "push_id": session, "canonical": map[string]any{"skill_invocations": invocations},
	})
	if err != nil {
		return 0, err
	}
	res, answer, err := l.post(ctx, l.client.http1, key, "/api/v1/push", "application/json", body)
	if err != nil {
		return 0, err
	}
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated:
		var out struct{ Accepted int }
		if err := json.Unmarshal(answer, &out); err != nil || out.Accepted != batch {
			return 0, fmt.Errorf("%d of %d records were accepted: %s", out.Accepted, batch, answer)
		}
		return 0, nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, err
	}
	return 0, fmt.Errorf("%s: %s", res.Status, answer)
}

// export sends activations of skills as Claude Code does, by gRPC.
func (l *load) export(ctx context.Context, key, session string) (time.Duration, error) {
	now := time.Now()
	records := make([]*logs.LogRecord, batch)
	for i := range records {
		at := now.Add(-time.Duration(i) * time.Second)
		records[i] = &logs.LogRecord{
			TimeUnixNano: uint64(at.UnixNano()), Body: text("claude_code.skill_activated"),
			Attributes: []*common.KeyValue{
				{Key: "session.id", Value: text(session)},
				{Key: "event.name", Value: text("skill_activated")},
				{Key: "prompt.id", Value: text(fmt.Sprintf("prompt-%d", i))},
				{Key: "skill.name", Value: text(fmt.Sprintf("soak-%02d", i%skills))},
				{Key: "invocation_trigger", Value: text("claude-proactive")},
			},
		}
	}
	message, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: text("claude-code")}}},
		ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}},
	}}})
	if err != nil {
		return 0, err
	}
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	const path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	res, answer, err := l.post(ctx, l.client.http2, key, path, "application/grpc", frame)
	if err != nil {
		return 0, err
	}
	switch code := res.Trailer.Get("Grpc-Status"); {
	case code == "0" && len(answer) == 5: // the frame of an empty message: all was accepted
		return 0, nil
	case code == "8" || code == "14":
		return time.Second, nil
	}
	return 0, fmt.Errorf("%s, trailers %v: %q", res.Status, res.Trailer, answer)
}

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func (l *load) post(
	ctx context.Context, client *http.Client, key, path, contentType string, body []byte,
) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", contentType)
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res, answer, err
}

// A sample is what the process holds at a moment.
type sample struct{ resident, heap, goroutines float64 }

// sampleInterval is between two samples.
const sampleInterval = time.Second

// watch takes samples until the context ends.
func (l *load) watch(ctx context.Context, t *testing.T) <-chan []sample {
	t.Helper()
	done := make(chan []sample, 1)
	go func() {
		var all []sample
		for ctx.Err() == nil {
			s, err := l.metrics(context.WithoutCancel(ctx))
			if err != nil {
				t.Error(err)
				break
			}
			all = append(all, s)
			wait(ctx, sampleInterval)
		}
		done <- all
	}()
	return done
}

func (l *load) sample(t *testing.T) sample {
	t.Helper()
	s, err := l.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// metrics reads a sample from the metrics page.
func (l *load) metrics(ctx context.Context) (s sample, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/metrics", nil)
	if err != nil {
		return s, err
	}
	res, err := l.client.http1.Do(req)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		into := map[string]*float64{
			"process_resident_memory_bytes": &s.resident, "go_memstats_heap_alloc_bytes": &s.heap, "go_goroutines": &s.goroutines,
		}[name]
		if into != nil {
			if *into, err = strconv.ParseFloat(value, 64); err != nil {
				return s, err
			}
		}
	}
	if s.goroutines == 0 {
		return s, errors.Join(err, fmt.Errorf("the metrics have no goroutines: %.200s", page))
	}
	return s, err
}
