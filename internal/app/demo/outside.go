package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// contributors is the number of contributors.
const contributors = 12

// contribute sends contributors' signals. Two skills get enough of one kind for
// proposals.
func (f *filling) contribute(ctx context.Context) error {
	for week := range 5 {
		for who := range contributors {
			for _, s := range []struct {
				skill   string
				session object
			}{
				{"pdf-forms", missedSession(who, week)},
				{"csv-cleaner", object{
					"triggered": true, "invocation_type": "implicit",
					"execution_grade": "AABBA"[week : week+1],
				}},
				{"sql-review", object{
					"triggered": true, "invocation_type": "explicit",
					"execution_grade": "CBCFC"[week : week+1], "query_bucket": "analysis",
				}},
			} {
				if err := f.signal(ctx, who, week, s.skill, s.session); err != nil {
					return err
				}
			}
		}
	}
	for who := range contributors {
		if err := f.bundle(ctx, who, []string{"pdf-forms", "sql-review"}[who%2]); err != nil {
			return err
		}
	}
	return nil
}

// missedSession is a session in which the skill should have triggered and, in most
// of them, did not.
func missedSession(who, week int) object {
	if (who+week)%13 == 0 {
		return object{"triggered": true, "invocation_type": "implicit", "execution_grade": "A"}
	}
	return object{"triggered": false, "miss_detected": true, "invocation_type": "missed", "query_bucket": "generation"}
}

func (f *filling) signal(ctx context.Context, who, week int, skill string, session object) error {
	year, number := f.now.AddDate(0, 0, -7*week).ISOWeek()
	body, err := json.Marshal(object{
		"version": 1, "skill_name": skill, "signal_type": "skill_session", "signals": session,
		"relay_destination": f.owner.UserID,
		"user_cohort":       idOf("contributor\n%d", who),
		"timestamp_bucket":  fmt.Sprintf("%d-W%02d", year, number), "client_version": "0.9.1",
	})
	if err != nil {
		return err
	}
	relay := f.owner
	relay.Relay = true // only a relay may name contributors
	_, err = f.Signals.Ingest(ctx, relay, body)
	return err
}

// bundle submits a contributor's bundle about a skill to the owner.
func (f *filling) bundle(ctx context.Context, who int, skill string) error {
	s := f.find(skill)
	graded := 12 + 3*who
	body, err := json.Marshal(object{
		"schema_version": "1.2", "skill_name": skill, "contributor_id": idOf("contributor\n%d", who), "tool_version": "0.9.1",
		"created_at": f.now.AddDate(0, 0, -5*(contributors-who)).Format(time.RFC3339),
		"agent_type": "claude_code", "sanitization_level": "conservative",
		"positive_queries": []object{{"query": s.Asks[who%len(s.Asks)], "invocation_type": "implicit", "source": "session"}},
		"eval_entries":     []object{{"query": s.Missed[who%len(s.Missed)], "should_trigger": true}},
		"grading_summary": object{
			"total_sessions": 2 * graded, "graded_sessions": graded,
			"average_pass_rate": .78 + .01*float64(who), "expectation_count": 5 * graded,
		},
		"evolution_summary": nil,
		"session_metrics": object{
			"total_sessions": 2 * graded, "avg_assistant_turns": 4.5,
			"avg_tool_calls": 11, "avg_errors": .4,
		},
	})
	if err != nil {
		return err
	}
	_, err = f.Community.Submit(ctx,
		community.New{OrgID: f.owner.OrgID, CreatorID: f.owner.UserID, SkillName: skill, Bundle: body})
	return err
}

// addAlerts creates three rules and evaluates them, so that they fire at once. The last
// rolls invoice-reader back, which begins an incident.
func (f *filling) addAlerts(ctx context.Context) error {
	rollback := alerts.Rollback
	for _, r := range []struct {
		kind        alerts.Type
		threshold   float64
		sensitivity alerts.Sensitivity
		skillID     *string
		action      *alerts.Action
	}{
		{alerts.PassRateBelow, .6, alerts.Point, nil, nil},
		{alerts.NoData, 14, alerts.Point, nil, nil},
		{alerts.PassRateBelow, .75, alerts.Confident, f.find("invoice-reader").entry.SkillID, &rollback},
	} {
		_, err := f.Alerts.Create(ctx, f.owner, alerts.NewRule{
			SkillID: r.skillID, Type: r.kind, Threshold: &r.threshold, Sensitivity: r.sensitivity, Action: r.action,
			Channel: notify.Webhook,
			Config:  alerts.Config{Webhook: f.Receiver + "/alerts"},
		})
		if err != nil {
			return err
		}
	}
	return f.Alerts.Evaluate(ctx, f.owner.OrgID)
}
