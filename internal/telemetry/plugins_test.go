package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// loaded returns the event of a plugin that the session loaded.
func (c *claude) loaded(plugin, version string, pairs ...any) *logs.LogRecord {
	return c.event("plugin_loaded", "", append(pairs,
		"plugin.name", plugin, "plugin.version", version, "marketplace.name", "acme-market", "plugin_id_hash", "a9094376c5aa1283")...)
}

// ofPlugin returns the event of an activation of a plugin's skill.
func (c *claude) ofPlugin(prompt, plugin, skill string) *logs.LogRecord {
	return c.event("skill_activated", prompt, "skill.name", skill, "invocation_trigger", "claude-proactive",
		"skill.source", "plugin", "plugin.name", plugin)
}

// rates are the fields that say how often a skill fired, and of what.
type rates struct {
	Basis                    any
	Rate                     any
	Offered, Seen, Triggered float64
}

func (c *client) wantRates(skill string, want rates) {
	c.T.Helper()
	d := c.Get("/v1/skills/" + skill).Want(200).Object()["skill"].(object)
	got := rates{
		d["trigger_rate_basis"], d["trigger_rate"],
		d["offered_sessions"].(float64), d["seen_sessions"].(float64), d["triggered_sessions"].(float64),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.T.Errorf("%s (-want +got):\n%s", skill, diff)
	}
}

// TestPluginOffers: a session that loaded a plugin was offered all skills of it
// that are known, whenever they become known; each session once.
func TestPluginOffers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour) // noon, so that no session lasts over midnight
		one, two, other := &claude{session: "one", at: at}, &claude{session: "two", at: at}, &claude{session: "three", at: at}
		send := func(records ...*logs.LogRecord) func(*client) {
			return func(c *client) { c.take(inProtobuf, logsOf(records...)) }
		}
		resumed := &claude{session: "two", at: at.AddDate(0, 0, -2)}
		w := newWorld(t, db)
		w.Work()
		inEveryOrder(t, w, []func(*client){
			send(one.loaded("acme", "1.2.0"), one.ofPlugin("p1", "acme", "acme:deploy")),
			send(two.loaded("acme", "1.2.0"), resumed.loaded("acme", "1.1.0")),
			send(other.loaded("other", "1.0.0"), other.loaded("third-party", "1.0.0"),
				other.event("plugin_loaded", "", "plugin.name", "acme", "marketplace.name", "builtin")),
			func(c *client) { // an import: one that fired, and one that was called in vain
				c.push(uuid.NewString(), object{"skill_invocations": []any{
					check("a", object{"skill_name": "acme:test", "session_id": "two", "occurred_at": stamp(at)}),
					check("b", object{"skill_name": "acme:nonsense", "session_id": "two", "occurred_at": stamp(at), "triggered": false}),
				}}).Want(201)
			},
		}, func(c *client) {
			w.Settle()
			c.wantRates("acme:deploy", rates{Basis: "offered", Rate: 0.5, Offered: 2, Seen: 2, Triggered: 1})
			c.wantRates("acme:test", rates{Basis: "offered", Rate: 0.5, Offered: 2, Seen: 2, Triggered: 1})
			c.wantRates("acme:nonsense", rates{Basis: "considered", Rate: 0.0, Offered: 0, Seen: 1})
			c.wantDays("acme:deploy", "[0 0 0 1 0 2 0]")
		})
		w.checkNumbers(t)
	})
}

// wantDays checks the sessions of the last seven days.
func (c *client) wantDays(skill, want string) {
	c.T.Helper()
	var days []float64
	for _, d := range c.Get("/v1/skills/" + skill + "?days=7").Want(200).Object()["daily_stats"].([]any) {
		days = append(days, d.(object)["sessions"].(float64))
	}
	if got := fmt.Sprint(days); got != want {
		c.T.Errorf("%s: sessions by day %s, want %s", skill, got, want)
	}
}

// checkNumbers compares the rollups with a recount of the observations.
func (w *world) checkNumbers(t *testing.T) {
	t.Helper()
	findings, err := (&skills.Service{}).Check(t.Context(), w.DB)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Status != exam.Good {
			t.Errorf("the recount finds %+v", f)
		}
	}
}

// TestPluginOffersOfOthers: a skill that one user's session makes known was
// offered in the sessions of all users of the organisation, and of no other.
func TestPluginOffersOfOthers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada, stranger := w.org("acme"), w.org("stranger")
		for i := range 30 {
			user := w.member(ada.Org, access.Member)
			for j := range 3 {
				s := &claude{session: fmt.Sprint(i, j), at: anHourAgo()}
				user.take(inProtobuf, logsOf(s.loaded("acme", "1.0.0")))
			}
		}
		s := &claude{session: "s", at: anHourAgo()}
		stranger.take(inProtobuf, logsOf(s.loaded("acme", "1.0.0")))
		ada.take(inProtobuf, logsOf(s.ofPlugin("p", "acme", "acme:deploy")))
		w.Settle()
		ada.wantRates("acme:deploy", rates{Basis: "offered", Rate: 1.0 / 91, Offered: 91, Seen: 91, Triggered: 1})
		stranger.Get("/v1/skills/acme:deploy").Want(404)
		w.checkNumbers(t)
	})
}
