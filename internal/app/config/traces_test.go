package config_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

func TestTracesURL(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[config.URL]string{
		"":                                "",
		"http://127.0.0.1:4318":           "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":          "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/v1/traces": "http://127.0.0.1:4318/v1/traces",
		"https://otlp.example/otlp":       "https://otlp.example/otlp/v1/traces",
	} {
		c := config.Traces{TraceOTLPEndpoint: endpoint}
		if got := c.TracesURL(); got != want {
			t.Errorf("%s: %s, want %s", string(endpoint), got, want)
		}
	}
}

func TestSampler(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]trace.Sampler{
		"always_on":                {Ratio: 1},
		"always_off":               {},
		"traceidratio":             {Ratio: .25},
		"parentbased_always_on":    {Ratio: 1, FollowParent: true},
		"parentbased_always_off":   {FollowParent: true},
		"parentbased_traceidratio": {Ratio: .25, FollowParent: true},
	} {
		c := config.Traces{TraceSampler: name, TraceRatio: .25}
		if got := c.Sampler(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestOpenTelemetryVariables: the house's own come first.
func TestOpenTelemetryVariables(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer t,X-Scope=a")
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
	t.Setenv("OTEL_SERVICE_NAME", "skills")
	c, err := serve(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.TracesURL() != "http://127.0.0.1:4318/v1/traces" || c.Sampler() != (trace.Sampler{Ratio: .25}) || c.TraceService != "skills" ||
		len(c.TraceOTLPHeader) != 2 || string(c.TraceOTLPHeader["X-Scope"]) != "a" {
		t.Errorf("the settings are %+v", c.Traces)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4319/v1/traces")
	if c, err = serve(t, ""); err != nil || c.TracesURL() != "http://127.0.0.1:4319/v1/traces" {
		t.Errorf("%s, %v", c.TracesURL(), err)
	}
	t.Setenv("WHETSTONE_TRACE_OTLP_ENDPOINT", "http://127.0.0.1:4320")
	if c, err = serve(t, ""); err != nil || c.TracesURL() != "http://127.0.0.1:4320/v1/traces" {
		t.Errorf("%s, %v", c.TracesURL(), err)
	}
}

func TestTracesRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--trace-otlp-endpoint", "127.0.0.1:4318"},
		{"--trace-otlp-endpoint", "grpc://127.0.0.1:4317"},
		{"--trace-otlp-endpoint", "http://127.0.0.1:4318?key=hunter2"},
		{"--trace-otlp-header", "bad name=v"},
		{"--trace-otlp-header", "X-A=a\r\nX-B: b"},
		{"--trace-ratio", "1.5"},
		{"--trace-ratio", "NaN"},
		{"--trace-sampler", "sometimes"},
		{"--admin-addr", "9090"},
		{"--slow-query", "-1s"},
	} {
		c, err := serve(t, "", args...)
		if err == nil {
			err = c.Check()
		}
		if err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
