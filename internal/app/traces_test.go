package app_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// collector keeps the spans that it is sent.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   bytes.Buffer
	auth  string
	spans []*tracepb.Span
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, &data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		c.auth = r.Header.Get("Authorization")
		for _, rs := range data.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) find(name string) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

var jobRan = regexp.MustCompile(`(?m)^whetstone_job_runs_total\{.*outcome="succeeded"\} [1-9]`)

// TestTraces records requests, jobs and statements, continues the client's trace, and
// tells no secret.
func TestTraces(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		c := newCollector(t)
		s := start(t, settings(t, append(flags, "--trace-otlp-endpoint", c.URL, "--trace-otlp-header", "Authorization=Bearer t",
			"--admin-addr", "127.0.0.1:0", "--bootstrap-key", "st_test_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg")...))
		const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/v1/skills", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.FirstKey)
		req.Header.Set("Traceparent", "00-"+traceID+"-"+parent+"-01")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if id := resp.Header.Get("X-Request-Id"); id != traceID {
			t.Errorf("the request has the id %q, want that of its trace", id)
		}
		const signalTrace = "0af7651916cd43dd8448eb211c80319c"
		body := `{"signals":[{"skill_name":"pdf","signal_type":"missed_trigger","confidence":0.5,"source_key":"a"}]}`
		if req, err = http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/v1/signals", strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.FirstKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Traceparent", "00-"+signalTrace+"-"+parent+"-01")
		if resp, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		apptest.Eventually(t, "the job in the trace of the request that enqueued it", func() bool {
			span := c.find("job proposals.generate")
			return span != nil && hex.EncodeToString(span.GetTraceId()) == signalTrace && len(span.GetParentSpanId()) > 0
		})
		apptest.Eventually(t, "an exemplar and the run of a job in the metrics", func() bool {
			_, _, page := s.adminGet(t, "/metrics", "", "application/openmetrics-text; version=1.0.0")
			return strings.Contains(page, `# {trace_id="`+traceID+`"}`) && jobRan.MatchString(page)
		})
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}

		root := c.find("GET /api/v1/skills")
		if root == nil {
			t.Fatalf("no span of the request among %d", len(c.spans))
		}
		if hex.EncodeToString(root.GetTraceId()) != traceID || hex.EncodeToString(root.GetParentSpanId()) != parent {
			t.Errorf("the request is not in the client's trace: %v", root)
		}
		statements := 0
		for _, span := range c.spans {
			if bytes.Equal(span.GetParentSpanId(), root.GetSpanId()) && span.GetName() == "SELECT" {
				statements++
			}
		}
		if statements == 0 {
			t.Error("the request has no statements")
		}
		if !slices.ContainsFunc(c.spans, func(s *tracepb.Span) bool { return strings.HasPrefix(s.GetName(), "job ") }) {
			t.Error("no job is recorded")
		}
		if c.auth != "Bearer t" {
			t.Errorf("Authorization %q at the collector", c.auth)
		}
		if strings.Contains(c.raw.String(), s.FirstKey) || strings.Contains(c.raw.String(), hash(s.FirstKey)) {
			t.Error("a key or its hash is in the traces")
		}
		if !strings.Contains(s.log.String(), "trace_id="+traceID) {
			t.Error("the trace is not in the log")
		}
	})
}

// TestTracesToItself are not sent: the variables of agents name this service.
func TestTracesToItself(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--public-url", "https://whetstone.example", "--trace-otlp-endpoint", "https://whetstone.example"))
	s.me(t, s.FirstKey)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if log := s.log.String(); !strings.Contains(log, "is this service itself") || strings.Contains(log, "cannot be sent") {
		t.Error(log)
	}
}

// TestTracesCollectorAway costs a line in the log and nothing else.
func TestTracesCollectorAway(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--trace-otlp-endpoint", "http://127.0.0.1:1"))
	s.me(t, s.FirstKey)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.log.String(), "traces cannot be sent") {
		t.Error("the log does not say so")
	}
}
