package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// FuzzOTLP: no input panics, and every observation is valid.
func FuzzOTLP(f *testing.F) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	s := &claude{session: "s", at: now}
	p := copilot{conversation: "c", trace: "trace-1.........", at: now}
	agent := p.agent([]string{"pdf-forms", ""}, "pdf-forms")
	for _, m := range []proto.Message{
		logsOf(s.activated("p", "pdf-forms", "claude-proactive"), s.result("p", "pdf-forms", "toolu_1", true),
			s.decision("p", "x", "y", "reject")),
		logsOf(verdictOf(now, "gen_ai.evaluation.score.value", 0.5)),
		logsOf(s.event("api_request", "p", "input_tokens", 5, "cost_usd", 0.5, "skill.name", "pdf-forms"),
			codexLog(now, "codex.skill_invocation", "skill.name", "pdf-forms", "skill.invocation_type", "explicit"),
			codexLog(now, "codex.user_prompt"),
			codexLog(now, "codex.sse_event", "event.kind", "response.completed", "input_token_count", "5")),
		spansOf(p.chat(1), p.chat(2, "ai.response.finishReason", "stop")),
		spansOf(agent, p.tool("call", "gen_ai.skill.name", "pdf-forms"), s.span("pdf-forms", "toolu_1")),
		counterOf(delta, injected(now, now, 3)), counterOf(cumulative, injected(now, now, 3, "invoke_type", "explicit")),
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		text, err := otlpJSON(m)
		if err != nil {
			f.Fatal(err)
		}
		for _, signal := range []string{"logs", "traces", "metrics"} {
			f.Add(signal, false, raw)
			f.Add(signal, true, text)
		}
	}
	f.Add("traces", true, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"`))
	f.Fuzz(func(t *testing.T, signal string, isJSON bool, raw []byte) {
		contentType := "application/x-protobuf"
		if isJSON {
			contentType = "application/json"
		}
		report, kept, err := telemetry.ReadOTLP(signal, contentType, raw, now)
		if err != nil {
			return
		}
		for _, o := range report.Observations {
			checkObservation(t, o, now)
		}
		checkRequests(t, report, now)
		for _, g := range report.Gradings {
			if name, err := skills.CleanName(g.SkillName); err != nil || name != g.SkillName || g.ID == "" ||
				g.At.After(now.Add(25*time.Hour)) {
				t.Errorf("grading %+v", g)
			}
			if g.PassRate != nil && !(*g.PassRate >= 0 && *g.PassRate <= 1) {
				t.Errorf("pass rate %v", *g.PassRate)
			}
		}
		if strings.Contains(string(kept), "jo@example.net") {
			t.Errorf("an address is kept: %q", kept)
		}
	})
}

// checkRequests: nothing absurd is read.
func checkRequests(t *testing.T, got telemetry.Reading, now time.Time) {
	t.Helper()
	possible := func(at time.Time) bool { return at.Year() >= 1969 && !at.After(now.Add(25*time.Hour)) }
	for _, r := range got.Requests {
		if err := r.Check(); err != nil || r.ID == "" || !possible(r.At) || r.Skill != "" && skills.Placeholder(r.Skill) {
			t.Errorf("request %+v: %v", r, err)
		}
	}
	for _, m := range got.Marks {
		if m.Session == "" || !possible(m.At) {
			t.Errorf("mark %+v", m)
		}
	}
}

func checkObservation(t *testing.T, o skills.Observation, now time.Time) {
	t.Helper()
	if name, err := skills.CleanName(o.SkillName); err != nil || name != o.SkillName {
		t.Errorf("skill %q: %v", o.SkillName, err)
	}
	if o.Confidence != nil && !(*o.Confidence >= 0 && *o.Confidence <= 1) {
		t.Errorf("confidence %v", *o.Confidence)
	}
	if o.Weight < 0 || o.Weight > 1_000_000 {
		t.Errorf("weight %d", o.Weight)
	}
	if o.At.Year() < 1970 || o.At.After(now.Add(25*time.Hour)) || o.NormalizedAt.After(o.At) {
		t.Errorf("at %s, normalized at %s", o.At, o.NormalizedAt)
	}
	if o.Triggered && o.Offered {
		t.Errorf("%+v was offered and fired", o)
	}
}
