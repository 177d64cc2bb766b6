package telemetry

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// evaluationResult is the event of OpenTelemetry's conventions for the verdict of
// an evaluator.
const evaluationResult = "gen_ai.evaluation.result"

// evaluation reads a verdict. One without the name of a skill counts as
// unattributed.
func (n *normalizer) evaluation(e event) error {
	name, hidden, err := n.skill(e.Text("gen_ai.skill.name", "skill.name", "github.copilot.skill.name"))
	if err != nil || hidden {
		return err
	}
	at, err := n.timeOf(e.nanos)
	if err != nil {
		return err
	}
	evaluator, subject := e.Text("gen_ai.evaluation.name"), e.Text("gen_ai.response.id")
	if subject == "" {
		subject = e.trace + " " + e.time()
	}
	id := n.id("grading_result", "otlp", e.session, name, evaluator, subject)
	g := skills.Grading{ID: id, SkillName: name, Session: e.session, PassRate: verdict(e), At: at}
	n.gradings = append(n.gradings, g)
	n.touchSession(e, true)
	// The record has the form of a grading_result of a push.
	n.records = append(n.records, record{id: id, kind: "grading_result", normalizedAt: at, body: bodyOf(map[string]any{
		"grading_id": g.ID, "session_id": g.Session, "skill_name": g.SkillName, "graded_at": g.At, "pass_rate": g.PassRate,
		"evaluation_name": evaluator, "score_label": e.Text("gen_ai.evaluation.score.label"),
		"score_value": e.Text("gen_ai.evaluation.score.value"),
	})})
	return nil
}

// verdict returns the pass rate: that of the label, else a score from 0 to 1. It
// is nil for a score on another scale.
func verdict(e event) *float64 {
	pass, fail := 1.0, 0.0
	switch strings.ToLower(e.Text("gen_ai.evaluation.score.label")) {
	case "pass", "passed":
		return &pass
	case "fail", "failed":
		return &fail
	}
	if score, ok := e.Float("gen_ai.evaluation.score.value"); ok && validateShare("score", &score) == nil {
		return &score
	}
	return nil
}
