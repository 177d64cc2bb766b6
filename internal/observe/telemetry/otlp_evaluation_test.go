package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// verdictOf is an evaluator's log event.
func verdictOf(at time.Time, pairs ...any) *logs.LogRecord {
	return &logs.LogRecord{
		TimeUnixNano: nanos(at), EventName: "gen_ai.evaluation.result",
		Attributes: append(
			attributes("session.id", "s", "gen_ai.evaluation.name", "correctness", "gen_ai.skill.name", "pdf-forms"),
			attributes(pairs...)...),
	}
}

// TestEvaluation: verdicts of evaluators become the pass rate of the session.
func TestEvaluation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := anHourAgo()
		one := func(rate float64) figures { return figures{Graded: 1, P: share(rate)} }
		for i, test := range []struct {
			name    string
			records []*logs.LogRecord
			want    figures
		}{
			{"pass", []*logs.LogRecord{verdictOf(at, "gen_ai.evaluation.score.label", "pass")}, one(1)},
			{"fail beats its score", []*logs.LogRecord{verdictOf(at, "gen_ai.evaluation.score.label", "Fail", "gen_ai.evaluation.score.value", 0.9)}, one(0)},
			{"score", []*logs.LogRecord{verdictOf(at, "gen_ai.evaluation.score.value", 0.75)}, one(0.75)},
			{"score as text, other label", []*logs.LogRecord{verdictOf(at, "gen_ai.evaluation.score.value", "0.5", "gen_ai.evaluation.score.label", "good")}, one(0.5)},
			{"another scale", []*logs.LogRecord{verdictOf(at, "gen_ai.evaluation.score.value", 4.5)}, figures{}},
			{"two evaluators", []*logs.LogRecord{
				verdictOf(at, "gen_ai.evaluation.score.label", "pass", "gen_ai.response.id", "r1"),
				verdictOf(at.Add(time.Second), "gen_ai.evaluation.score.label", "fail", "gen_ai.response.id", "r2"),
			}, one(0.5)},
			{"a second thought", []*logs.LogRecord{
				verdictOf(at.Add(time.Second), "gen_ai.evaluation.score.label", "pass", "gen_ai.response.id", "r1"),
				verdictOf(at, "gen_ai.evaluation.score.label", "fail", "gen_ai.response.id", "r1"),
			}, one(1)},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.org(fmt.Sprint("org ", i)).in(t)
				for _, way := range otlpWays {
					c.take(way, logsOf(test.records...))
				}
				c.wantFigures("pdf-forms", test.want)
			})
		}
	})
}

// TestEvaluationOfSpan: an event of a span is about the span's skill, or the
// active one. Without either it is unattributed.
func TestEvaluationOfSpan(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		at := anHourAgo()
		p := copilot{conversation: "c", trace: "trace-1.........", at: at}
		verdict := &trace.Span_Event{
			Name: "gen_ai.evaluation.result", TimeUnixNano: nanos(at),
			Attributes: attributes("gen_ai.evaluation.name", "goal", "gen_ai.evaluation.score.label", "fail",
				"gen_ai.evaluation.explanation", "No form was filled in.\x00"),
		}
		withSkill, withNone := p.tool("call", "gen_ai.skill.name", "pdf-forms"), p.agent(nil)
		withSkill.Events, withNone.Events = []*trace.Span_Event{verdict}, []*trace.Span_Event{verdict}
		c.take(inJSON, spansOf(withSkill, withNone))
		c.take(inProtobuf, logsOf(verdictOf(at, "gen_ai.evaluation.score.label", "pass", "skill.name", "active"),
			&logs.LogRecord{
				TimeUnixNano: nanos(at), Body: anyValue("gen_ai.evaluation.result"),
				Attributes: attributes("gen_ai.evaluation.score.label", "pass"),
			}))
		c.wantFigures("pdf-forms", figures{
			Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Covered: share(0),
			Graded: 2, P: share(0.5),
		})
		if names := c.skillNames(); len(names) != 1 {
			t.Errorf("skills %v, want one", names)
		}
		if n := c.World.Count("telemetry_records WHERE kind = 'grading_result' AND body LIKE '%\"evaluation_name\":\"goal\"%'"); n != 1 {
			t.Errorf("%d verdicts are kept, want 1", n)
		}
		if n := c.World.Count("telemetry_records WHERE body LIKE '%No form was filled in.%'"); n != 0 {
			t.Error("the reason, which a model wrote, is kept")
		}
	})
}
