package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
)

// captured reads what an agent sent in a scenario of e2e/agents.
func captured(t *testing.T, scenario, signal string) (all telemetry.Reading) {
	t.Helper()
	raw, err := os.ReadFile("testdata/agents/" + scenario + "-" + signal + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		got, _, err := telemetry.ReadOTLP(signal, "application/json", line, captureTime)
		if err != nil || len(got.Rejected) > 0 {
			t.Fatalf("%s: %v, %v", scenario, got.Rejected, err)
		}
		all.Requests = append(all.Requests, got.Requests...)
		all.Marks = append(all.Marks, got.Marks...)
		all.Events = append(all.Events, got.Events...)
	}
	return all
}

// captureTime is after that of the captures.
var captureTime = time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC)

// imported reads what an import of the same sessions sends.
func imported(t *testing.T, scenario string) (all telemetry.Reading) {
	t.Helper()
	state, err := transcripts.OpenState(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	push := func(_ context.Context, body []byte) (transcripts.Receipt, error) {
		got, err := telemetry.ReadPush(body, captureTime)
		if err != nil || len(got.Rejected) > 0 {
			t.Fatalf("%s: %v, %v", scenario, got.Rejected, err)
		}
		all.Requests = append(all.Requests, got.Requests...)
		all.Marks = append(all.Marks, got.Marks...)
		all.Events = append(all.Events, got.Events...)
		return transcripts.Receipt{}, nil
	}
	i := &transcripts.Import{Dir: "../../local/transcripts/testdata/agents/" + scenario, State: state, Push: push}
	if _, err := i.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCapturedRequests: OTLP and an import of the same session report the same
// requests under the same ids, of the same skill and turn. OTLP adds the price,
// which is that of Sonnet, and says when the request ended.
func TestCapturedRequests(t *testing.T) {
	scenarios, err := filepath.Glob("testdata/agents/claude-*-logs.jsonl")
	if err != nil || len(scenarios) < 10 {
		t.Fatalf("%d captures: %v", len(scenarios), err)
	}
	byID := cmpopts.SortSlices(func(a, b costs.Request) bool { return a.ID < b.ID })
	for _, file := range scenarios {
		scenario := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "claude-"), "-logs.jsonl")
		t.Run(scenario, func(t *testing.T) {
			reported, read := captured(t, "claude-"+scenario, "logs"), imported(t, scenario)
			if len(reported.Requests) == 0 || len(reported.Marks)+len(read.Marks) > 0 {
				t.Errorf("%d requests, %d and %d marks", len(reported.Requests), len(reported.Marks), len(read.Marks))
			}
			ends := map[string]time.Time{}
			for _, r := range reported.Requests {
				ends[r.ID] = r.At
				price := 3*r.Tokens.Input + 15*r.Tokens.Output + r.Tokens.CacheRead*3/10 + r.Tokens.CacheWrite*15/4
				if r.Turn == "" || r.Session == "" || r.Model == "" || r.Micros == nil || *r.Micros != price {
					t.Errorf("request %+v, want a price of %d", r, price)
				}
			}
			for _, r := range read.Requests {
				if before := ends[r.ID].Sub(r.At); before < 0 || before > time.Second {
					t.Errorf("%s is %v before its end", r.ID, before)
				}
			}
			ignored := cmpopts.IgnoreFields(costs.Request{}, "Micros", "At")
			if diff := cmp.Diff(reported.Requests, read.Requests, byID, ignored); diff != "" {
				t.Errorf("requests (-OTLP +import):\n%s", diff)
			}
			for _, signal := range []string{"metrics", "traces"} {
				if got := captured(t, "claude-"+scenario, signal); len(got.Requests)+len(got.Marks) > 0 {
					t.Errorf("%s report %+v beside the logs", signal, got)
				}
			}
		})
	}
}

// skillsOf returns the skill of each request in order of time: "-" for none. An
// inferred one has that of the last mark of its session before it.
func skillsOf(all telemetry.Reading) (names []string) {
	requests, marks := slices.Clone(all.Requests), slices.Clone(all.Marks)
	slices.SortFunc(requests, func(a, b costs.Request) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(marks, func(a, b costs.Mark) int { return a.At.Compare(b.At) })
	for _, r := range requests {
		skill, opened := r.Skill, false
		for _, m := range marks {
			if !r.Inferred || m.Session != r.Session || m.At.After(r.At) {
				continue
			}
			if m.Skill != "" || !opened {
				skill = m.Skill
			}
			opened = m.OpensTurn
		}
		if skill == "" {
			skill = "-"
		}
		names = append(names, skill)
	}
	return names
}

// TestCodexRequests: requests belong to a skill from its invocation on, which Codex
// logs before the prompt if it is explicit.
func TestCodexRequests(t *testing.T) {
	for scenario, want := range map[string][]string{
		"explicit":      {"pdf-tables", "pdf-tables"},
		"explicit-read": {"pdf-tables", "pdf-tables"},
		"implicit":      {"-", "pdf-tables", "pdf-tables"},
		"sessions":      {"-", "pdf-tables", "-", "pdf-tables"},
	} {
		got := captured(t, "codex-"+scenario, "logs")
		if diff := cmp.Diff(want, skillsOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scenario, diff)
		}
		seen := map[string]bool{}
		for _, r := range got.Requests {
			if seen[r.ID] || r.Model != "gpt-5.1-codex" || r.Tokens.Output != 50 || r.Micros != nil || r.Session == "" {
				t.Errorf("%s: %+v", scenario, r)
			}
			seen[r.ID] = true
		}
		for _, signal := range []string{"metrics", "traces"} {
			if got := captured(t, "codex-"+scenario, signal); len(got.Requests)+len(got.Marks) > 0 {
				t.Errorf("%s: %s report %+v beside the logs", scenario, signal, got)
			}
		}
	}
}

// codexLog is an event of Codex.
func codexLog(at time.Time, event string, pairs ...any) *logs.LogRecord {
	return &logs.LogRecord{ObservedTimeUnixNano: nanos(at), Attributes: append(
		attributes("event.name", event, "conversation.id", "c", "model", "gpt-5.1-codex"), attributes(pairs...)...)}
}

// TestCodexTurns: the next prompt ends what the one before invoked, also if the two
// follow at once.
func TestCodexTurns(t *testing.T) {
	at := anHourAgo()
	step := func() time.Time { at = at.Add(time.Millisecond); return at }
	prompt := func() *logs.LogRecord { return codexLog(step(), "codex.user_prompt", "prompt_length", "3") }
	response := func() *logs.LogRecord {
		return codexLog(step(), "codex.sse_event", "event.kind", "response.completed", "input_token_count", "10", "output_token_count", "5")
	}
	invoked := func(skill, kind string) *logs.LogRecord {
		return codexLog(step(), "codex.skill_invocation", "skill.name", skill, "skill.invocation_type", kind, "turn.id", "t")
	}
	got := readOTLP(t, logsOf(
		prompt(), response(), invoked("pdf", "implicit"), response(),
		invoked("docx", "explicit"), invoked("xlsx", "explicit"), prompt(), response(),
		prompt(), response(),
		invoked("pdf", "explicit"), prompt(), response(), invoked("docx", "implicit"), response(),
	))
	if diff := cmp.Diff([]string{"-", "pdf", "xlsx", "-", "pdf", "docx"}, skillsOf(got)); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
}

// readOTLP reads a message, nothing of which may be rejected.
func readOTLP(t *testing.T, m proto.Message) telemetry.Reading {
	t.Helper()
	got := tryOTLP(t, m)
	if len(got.Rejected) > 0 {
		t.Fatalf("rejected %v", got.Rejected)
	}
	return got
}

func tryOTLP(t *testing.T, m proto.Message) telemetry.Reading {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	signal := map[bool]string{true: "logs", false: "traces"}[m.ProtoReflect().Descriptor().Name() == "LogsData"]
	got, _, err := telemetry.ReadOTLP(signal, "application/x-protobuf", raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// chat is the span of a model call in a turn of Copilot, some seconds after its
// beginning.
func (c copilot) chat(second int, pairs ...any) *trace.Span {
	at := c.at.Add(time.Duration(second) * time.Second)
	return &trace.Span{
		TraceId: []byte(c.trace), SpanId: fmt.Appendf(nil, "chat%04d", second), ParentSpanId: []byte("agent..."), Name: "chat gpt-5",
		StartTimeUnixNano: nanos(at), EndTimeUnixNano: nanos(at.Add(500 * time.Millisecond)),
		Attributes: append(attributes("gen_ai.operation.name", "chat", "gen_ai.request.model", "gpt-5", "gen_ai.response.model", "gpt-5-2026-08-07",
			"gen_ai.usage.input_tokens", 1200, "gen_ai.usage.cache_read.input_tokens", 300, "gen_ai.usage.output_tokens", 40),
			attributes(pairs...)...),
	}
}

// TestCopilotRequests: the span of the agent has the sum of the tokens and does not
// count; its skills are those of its turn only, in whatever order and however
// often the spans arrive, and whether or not they name the conversation.
func TestCopilotRequests(t *testing.T) {
	first := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
	second := copilot{conversation: "c", trace: "trace-2.........", at: first.at.Add(time.Minute)}
	agent := first.agent(nil, "pdf-forms") // activated after a second
	agent.Attributes = append(agent.Attributes, attributes("gen_ai.usage.input_tokens", 2400, "gen_ai.usage.output_tokens", 80)...)
	next := second.agent(nil)
	for name, named := range map[string][]any{"named": {"gen_ai.conversation.id", "c"}, "unnamed": nil} {
		spans := []*trace.Span{
			first.chat(0, named...), first.tool("call", "gen_ai.skill.name", "pdf-forms"), first.chat(4, named...), agent,
			second.chat(5, named...), next,
		}
		got := readOTLP(t, spansOf(spans...))
		if diff := cmp.Diff([]string{"-", "pdf-forms", "-"}, skillsOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, r := range got.Requests {
			want := costs.Tokens{Input: 900, CacheRead: 300, Output: 40}
			if r.Session != "c" || r.Model != "gpt-5-2026-08-07" || r.Tokens != want || !r.Inferred {
				t.Errorf("%s: %+v", name, r)
			}
		}
		var apart telemetry.Reading
		for _, span := range slices.Backward(spans) { // each in a body of its own, twice
			for range 2 {
				one := readOTLP(t, spansOf(span))
				apart.Requests, apart.Marks = append(apart.Requests, one.Requests...), append(apart.Marks, one.Marks...)
			}
		}
		slices.SortFunc(apart.Requests, func(a, b costs.Request) int { return strings.Compare(a.ID, b.ID) })
		apart.Requests = slices.CompactFunc(apart.Requests, func(a, b costs.Request) bool { return a.ID == b.ID })
		if diff := cmp.Diff([]string{"-", "pdf-forms", "-"}, skillsOf(apart)); diff != "" {
			t.Errorf("%s, one by one (-want +got):\n%s", name, diff)
		}
	}
}

// TestNestedModelCalls: two instrumentations report one call, which has one id.
func TestNestedModelCalls(t *testing.T) {
	p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
	outer, inner := p.chat(1, "gen_ai.response.id", "chatcmpl-1"), p.chat(2, "gen_ai.response.id", "chatcmpl-1")
	inner.ParentSpanId = outer.SpanId
	other := p.chat(3, "gen_ai.response.id", "chatcmpl-2")
	got := readOTLP(t, spansOf(outer, inner, other)).Requests
	if len(got) != 3 || got[0].ID != got[1].ID || got[0].ID == got[2].ID {
		t.Errorf("requests %+v, want two ids", got)
	}
	unnamed := readOTLP(t, spansOf(p.chat(1), p.chat(2))).Requests
	if len(unnamed) != 2 || unnamed[0].ID == unnamed[1].ID {
		t.Errorf("requests %+v, want two ids", unnamed)
	}
}

// TestNoModelCalls: what is not one request to a model, or has no tokens, is none.
func TestNoModelCalls(t *testing.T) {
	p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
	for name, change := range map[string]func(*trace.Span){
		"an agent":    func(s *trace.Span) { s.Attributes[0] = attributes("gen_ai.operation.name", "invoke_agent")[0] },
		"a tool":      func(s *trace.Span) { s.Attributes[0] = attributes("gen_ai.operation.name", "execute_tool")[0] },
		"Claude Code": func(s *trace.Span) { s.Name = "claude_code.llm_request" },
		"Codex":       func(s *trace.Span) { s.Name = "codex.sampling" },
		"AI SDK":      func(s *trace.Span) { s.Name, s.Attributes = "ai.streamText", s.Attributes[1:] },
		"no tokens": func(s *trace.Span) {
			s.Attributes = without(s.Attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.output_tokens")
		},
	} {
		span := p.chat(1)
		change(span)
		if got := readOTLP(t, spansOf(span)); len(got.Requests) > 0 {
			t.Errorf("%s: %+v", name, got.Requests)
		}
	}
}

// TestOpenCodeRequests: all turns of a session are one trace. A turn ends with the
// answer that calls no tool.
func TestOpenCodeRequests(t *testing.T) {
	at := anHourAgo()
	n := 0
	step := func(name, finish string) *trace.Span {
		n++
		return &trace.Span{
			TraceId: []byte("trace-2........."), SpanId: fmt.Appendf(nil, "step%04d", n), ParentSpanId: []byte("session."), Name: name,
			StartTimeUnixNano: nanos(at.Add(time.Duration(n) * time.Second)),
			EndTimeUnixNano:   nanos(at.Add(time.Duration(n)*time.Second + 500*time.Millisecond)),
			Attributes: attributes("session.id", "ses_1", "ai.response.finishReason", finish, "gen_ai.response.model", "claude-sonnet-4-5",
				"gen_ai.usage.input_tokens", 650361, "gen_ai.usage.output_tokens", 369, "ai.usage.cachedInputTokens", 649452,
				"ai.usage.inputTokenDetails.cacheReadTokens", 649452, "ai.usage.inputTokenDetails.cacheWriteTokens", 907),
		}
	}
	skill := func() *trace.Span {
		n++
		return aiCall(at.Add(time.Duration(n)*time.Second), fmt.Sprint("c", n), "skill", `{"name":"pdf-tables"}`, "session.id", "ses_1")
	}
	got := readOTLP(t, spansOf(
		step("ai.streamText.doStream", "tool-calls"), step("ai.streamText", "tool-calls"), skill(),
		step("ai.streamText.doStream", "tool-calls"), step("ai.streamText.doStream", "stop"), step("ai.streamText", "stop"),
		step("ai.streamText.doStream", "stop"), step("ai.generateText.doGenerate", "stop"),
	))
	if diff := cmp.Diff([]string{"-", "pdf-tables", "pdf-tables", "-", "-"}, skillsOf(got)); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	for _, r := range got.Requests {
		want := costs.Tokens{Input: 2, CacheRead: 649452, CacheWrite: 907, Output: 369}
		if r.Session != "ses_1" || r.Model != "claude-sonnet-4-5" || r.Tokens != want {
			t.Errorf("request %+v", r)
		}
	}
}

// TestGeminiRequests: a turn begins with a prompt.
func TestGeminiRequests(t *testing.T) {
	at := anHourAgo()
	event := func(name string, pairs ...any) *logs.LogRecord {
		at = at.Add(time.Second)
		return &logs.LogRecord{TimeUnixNano: nanos(at), Attributes: append(
			attributes("event.name", "gemini_cli."+name, "session.id", "g", "prompt_id", "g########1"), attributes(pairs...)...)}
	}
	response := func() *logs.LogRecord {
		return event("api_response", "model", "gemini-3-pro", "duration_ms", 900, "input_token_count", 1200, "output_token_count", 40,
			"cached_content_token_count", 300, "thoughts_token_count", 60, "tool_token_count", 0, "total_token_count", 1300)
	}
	skill := func(success bool) *logs.LogRecord {
		at = at.Add(time.Second)
		return geminiCall(at, "activate_skill", `{"name":"pdf-tables"}`, success)
	}
	got := readOTLP(t, logsOf(
		event("user_prompt"), response(), skill(true), response(), event("user_prompt"), response(), skill(false), response(),
	))
	if diff := cmp.Diff([]string{"-", "pdf-tables", "-", "-"}, skillsOf(got)); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	want := costs.Tokens{Input: 900, CacheRead: 300, Output: 100}
	if r := got.Requests[0]; r.Session != "g" || r.Model != "gemini-3-pro" || r.Tokens != want {
		t.Errorf("request %+v", r)
	}
}

// TestRequestsWithoutAnID: the requests of providers that send no id are distinguished
// by their turn and tokens, by which the import knows them, too.
func TestRequestsWithoutAnID(t *testing.T) {
	s := &claude{session: "s", at: anHourAgo()}
	request := func(prompt string, output int) *logs.LogRecord {
		return s.event("api_request", prompt, "model", "m", "input_tokens", 7, "output_tokens", output, "skill.name", "custom_skill")
	}
	ids := func(all []costs.Request) (ids []string) {
		for _, r := range all {
			ids = append(ids, r.ID)
			if r.Skill != "" || r.Micros != nil {
				t.Errorf("request %+v", r)
			}
		}
		return ids
	}
	got := ids(readOTLP(t, logsOf(request("p", 1), request("p", 2), request("p", 1), request("q", 1), request("", 1), request("", 1))).Requests)
	if len(got) != 6 || got[0] != got[2] || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 5 {
		t.Errorf("ids %v, want the first and the third to be equal", got)
	}
	record := object{
		"message_id": "msg_1", "session_id": "s", "source_prompt_id": "p", "model": "m", "input_tokens": 7, "output_tokens": 1,
		"occurred_at": s.at.Format(time.RFC3339),
	}
	if imported := ids(readPush(t, object{"model_requests": []object{record}}).Requests); !slices.Equal(imported, got[:1]) {
		t.Errorf("imported as %v, want %v", imported, got[0])
	}
}

// readPush reads records, nothing of which may be rejected.
func readPush(t *testing.T, canonical object) telemetry.Reading {
	t.Helper()
	got := tryPush(t, canonical)
	if len(got.Rejected) > 0 {
		t.Fatalf("rejected %v", got.Rejected)
	}
	return got
}

func tryPush(t *testing.T, canonical object) telemetry.Reading {
	t.Helper()
	raw, err := json.Marshal(object{"schema_version": "2.0", "canonical": canonical})
	if err != nil {
		t.Fatal(err)
	}
	got, err := telemetry.ReadPush(raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFactRequests: existing clients report the tokens of a turn as a fact. Those
// of our own import do not count: it sends the requests as well.
func TestFactRequests(t *testing.T) {
	at := anHourAgo().Truncate(time.Second)
	fact := func(id any, pairs ...any) object {
		f := object{"execution_fact_id": id, "session_id": "s", "occurred_at": at.Format(time.RFC3339), "duration_ms": 5}
		for i := 0; i < len(pairs); i += 2 {
			f[pairs[i].(string)] = pairs[i+1]
		}
		return f
	}
	got := readPush(t, object{
		"sessions": []object{{"session_id": "s", "model": "gpt-5.1-codex"}},
		"execution_facts": []object{
			fact(1, "input_tokens", 1200, "cached_input_tokens", 300, "output_tokens", 40, "prompt_id", "s:p0",
				"active_skills", []string{"pdf"}),
			fact(2, "input_tokens", 10, "output_tokens", 4, "active_skills", []string{"pdf", "docx"}, "model", "gpt-5"),
			fact(3, "cost_usd", 0.25),
			fact(4, "tool_calls_json", object{"Bash": 2}),
			fact(5, "input_tokens", nil),
			fact(6, "input_tokens", 1, "occurred_at", nil),
			fact("s:t1", "input_tokens", 5, "output_tokens", 5, "raw_source_ref", object{"path": "s.jsonl"}),
			fact("s:t2", "input_tokens", 6, "output_tokens", 6, "raw_source_ref", "elsewhere", "active_skills", "pdf"),
		},
	})
	quarter := int64(250_000)
	want := []costs.Request{
		{Turn: "s:p0", Skill: "pdf", Model: "gpt-5.1-codex", Tokens: costs.Tokens{Input: 900, CacheRead: 300, Output: 40}},
		{Model: "gpt-5", Tokens: costs.Tokens{Input: 10, Output: 4}},
		{Model: "gpt-5.1-codex", Micros: &quarter},
		{Model: "gpt-5.1-codex", Tokens: costs.Tokens{Input: 6, Output: 6}},
	}
	for i := range want {
		want[i].Session, want[i].At = "s", at
	}
	if diff := cmp.Diff(want, got.Requests, cmpopts.IgnoreFields(costs.Request{}, "ID")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got.Accepted != 9 {
		t.Errorf("%d accepted, want all records", got.Accepted)
	}
}

// TestAbsurdRequests: absurd records are dropped one by one and counted; those
// beside them are kept.
func TestAbsurdRequests(t *testing.T) {
	s := &claude{session: "s", at: anHourAgo()}
	good := s.event("api_request", "p", "model", "m", "request_id", "good", "input_tokens", 1)
	p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
	for name, pairs := range map[string][]any{
		"negative tokens": {"input_tokens", -1},
		"too many tokens": {"output_tokens", 1<<53 + 1},
		"no number":       {"cache_read_tokens", "NaN"},
		"infinite tokens": {"cache_creation_tokens", "Inf"},
		"a fraction":      {"input_tokens", 0.5},
		"an hour of more": {"cache_creation_1h_tokens", 5},
		"negative cost":   {"cost_usd_micros", -1},
		"absurd cost":     {"cost_usd", 10_001.0},
		"no cost":         {"cost_usd", "NaN"},
		"negative time":   {"duration_ms", -1, "input_tokens", 1},
		"bad skill":       {"input_tokens", 1, "skill.name", strings.Repeat("x", 201)},
	} {
		bad := s.event("api_request", "p", append([]any{"model", "m", "request_id", "bad"}, pairs...)...)
		if got := tryOTLP(t, logsOf(bad, good)); len(got.Rejected) != 1 || len(got.Requests) != 1 || got.Accepted != 1 {
			t.Errorf("%s: rejected %v, requests %+v", name, got.Rejected, got.Requests)
		}
	}
	early := p.chat(1)
	early.EndTimeUnixNano = early.StartTimeUnixNano - 1
	late := p.chat(2)
	late.StartTimeUnixNano, late.EndTimeUnixNano = nanos(time.Now().AddDate(0, 0, 2)), nanos(time.Now().AddDate(0, 0, 3))
	negative := p.chat(3)
	negative.Attributes = append(without(negative.Attributes, "gen_ai.usage.input_tokens"), attributes("gen_ai.usage.input_tokens", -5)...)
	if got := tryOTLP(t, spansOf(early, late, negative, p.chat(4))); len(got.Rejected) != 3 || len(got.Requests) != 1 {
		t.Errorf("spans: rejected %v, requests %+v", got.Rejected, got.Requests)
	}
	for name, change := range map[string]object{
		"negative tokens": {"input_tokens": -1},
		"too many tokens": {"input_tokens": 1<<53 + 1},
		"huge tokens":     {"output_tokens": 1e300},
		"no number":       {"input_tokens": "many"},
		"future":          {"occurred_at": time.Now().AddDate(0, 0, 2).Format(time.RFC3339)},
		"past":            {"occurred_at": "1969-12-31T23:59:59Z"},
		"no time":         {"occurred_at": "yesterday"},
		"long model":      {"model": strings.Repeat("m", 201)},
	} {
		record := object{
			"session_id": "s", "request_id": "r", "execution_fact_id": "f", "input_tokens": 1, "output_tokens": 1, "duration_ms": 5,
			"occurred_at": s.at.Format(time.RFC3339),
		}
		bad := object{}
		for _, fields := range []object{record, change} {
			for key, value := range fields {
				bad[key] = value
			}
		}
		got := tryPush(t, object{"model_requests": []object{bad, record}, "execution_facts": []object{bad, record}})
		if len(got.Rejected) != 2 || len(got.Requests) != 2 {
			t.Errorf("%s: rejected %v, requests %+v", name, got.Rejected, got.Requests)
		}
	}
	got := tryPush(t, object{"execution_facts": []object{{"session_id": "s", "execution_fact_id": 1, "duration_ms": -1}}})
	if len(got.Rejected) != 1 {
		t.Errorf("a fact of a negative duration is accepted")
	}
}
