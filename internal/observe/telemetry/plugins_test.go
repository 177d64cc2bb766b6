package telemetry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
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
		if f.Status != invariants.Good {
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

// ourMarket is how agents call the marketplace of the client's organisation.
func (c *client) ourMarket() string { return "whetstone-" + strings.ReplaceAll(c.Org.Name, " ", "-") }

// fromMarket returns the events of a session that loaded a plugin and activated a
// skill of it, with a request.
func fromMarket(session, market, plugin, skill string) []*logs.LogRecord {
	s := &claude{session: session, at: anHourAgo()}
	pairs := []any{"plugin.name", plugin, "plugin.version", "1.0.0", "marketplace.name", market}
	if plugin == "everything" {
		pairs[3] = "5f2c0d9e8a71" // a digest of what is in it
	}
	return []*logs.LogRecord{
		s.event("plugin_loaded", "", pairs...), s.ofPlugin("p", plugin, skill),
		s.event("api_request", "p", "skill.name", skill, "model", "claude-sonnet-4-5", "input_tokens", 100, "request_id", session),
	}
}

// TestOwnPlugins: a skill of a plugin of the organisation's own marketplace is the
// entry of the registry, for numbers, costs and versions, in every order; whatever
// tells of it.
func TestOwnPlugins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		entries := map[string]string{}
		publish := func(c *client) {
			if _, ok := entries[c.Org.ID]; !ok {
				entries[c.Org.ID] = w.publish(c, "pdf", "1.0.0", "2.0.0")
				w.publish(c, "notes", "1.0.0")
			}
		}
		send := func(plugin, skill string) []func(*client) {
			pick := func(from, to int) func(*client) {
				return func(c *client) {
					publish(c)
					c.take(inProtobuf, logsOf(fromMarket("of "+skill, c.ourMarket(), plugin, skill)[from:to]...))
				}
			}
			return []func(*client){pick(0, 1), pick(1, 2), pick(2, 3)}
		}
		inEveryOrder(t, w, append(send("pdf", "pdf:pdf"), func(c *client) {
			publish(c)
			c.push(uuid.NewString(), object{
				"skill_invocations": []any{check("a", object{"skill_name": "pdf:pdf", "session_id": "imported", "occurred_at": stamp(anHourAgo())})},
				"grading_results": []any{object{
					"grading_id": "g", "skill_name": "pdf:pdf", "session_id": "imported", "graded_at": stamp(anHourAgo()), "pass_rate": 1,
				}},
			}).Want(201)
		}), func(c *client) {
			w.Settle()
			if diff := cmp.Diff([]string{"notes", "pdf"}, c.skillNames()); diff != "" {
				t.Errorf("skills (-want +got):\n%s", diff)
			}
			c.wantFigures("pdf", figures{
				Sessions: 2, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(0.55), Covered: share(1), Graded: 1, P: share(1),
			})
			if diff := cmp.Diff([]string{"1.0.0 plugin 1", "2.0.0 time 1, graded"}, c.versionFacts(entries[c.Org.ID])); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if cost := c.Get("/v1/skills/pdf").Object()["skill"].(object)["cost"].(object); cost["requests"] != 1.0 {
				t.Errorf("costs %v, want one request", cost)
			}
			alias := c.Get("/v1/skills?merged=true").List("skills")
			if len(alias) != 1 || alias[0]["name"] != "pdf:pdf" {
				t.Errorf("aliases %v, want pdf:pdf", alias)
			}
		})
		c := w.org("all in one")
		for _, step := range send("everything", "everything:pdf") {
			step(c)
		}
		w.Settle()
		c.wantFigures("pdf", figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1)})
		if diff := cmp.Diff([]string{"2.0.0 time 1"}, c.versionFacts(entries[c.Org.ID])); diff != "" {
			t.Errorf("everything: versions (-want +got):\n%s", diff)
		}
		w.checkNumbers(t)
	})
}

// TestForeignPlugins: what is from another marketplace, or from where nobody says,
// is no entry; and what an admin decided stays.
func TestForeignPlugins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		for i, test := range []struct {
			name, plugin, skill string
			markets             []string // OURS is the organisation's
			want                []string
		}{
			{"another", "pdf", "pdf:pdf", []string{"acme-market"}, []string{"pdf", "pdf:pdf"}},
			{"another organisation's", "pdf", "pdf:pdf", []string{"whetstone-other"}, []string{"pdf", "pdf:pdf"}},
			{"unknown", "pdf", "pdf:pdf", []string{""}, []string{"pdf", "pdf:pdf"}},
			{"first ours", "pdf", "pdf:pdf", []string{"OURS", "acme-market"}, []string{"pdf", "pdf:pdf"}},
			{"first another", "pdf", "pdf:pdf", []string{"acme-market", "OURS"}, []string{"pdf", "pdf:pdf"}},
			{"no entry", "pdf", "pdf:csv", []string{"OURS"}, []string{"pdf", "pdf:csv"}},
			{"another plugin", "csv", "csv:pdf", []string{"OURS"}, []string{"csv:pdf", "pdf"}},
			{"everything from elsewhere", "everything", "everything:pdf", []string{"acme-market"}, []string{"everything:pdf", "pdf"}},
			{"ours", "pdf", "pdf:pdf", []string{"OURS"}, []string{"pdf"}},
		} {
			c := w.org(fmt.Sprint("acme_", i)).in(t)
			w.publish(c, "pdf", "1.0.0")
			for j, market := range test.markets {
				if market == "OURS" {
					market = c.ourMarket()
				}
				c.take(inProtobuf, logsOf(fromMarket(fmt.Sprint("s", j), market, test.plugin, test.skill)...))
				w.Settle()
			}
			if diff := cmp.Diff(test.want, c.skillNames()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
			if test.name != "ours" {
				continue
			}
			c.Do("PATCH", "/v1/skills/pdf:pdf", object{"merged_into": nil}).Want(200)
			c.take(inProtobuf, logsOf(fromMarket("later", c.ourMarket(), "pdf", "pdf:pdf")...))
			w.Settle()
			if diff := cmp.Diff([]string{"pdf", "pdf:pdf"}, c.skillNames()); diff != "" {
				t.Errorf("unmerged (-want +got):\n%s", diff)
			}
		}
		w.checkNumbers(t)
	})
}

// TestPluginIDHash: where the marketplace is hidden, the hash of the plugin tells
// that it is ours.
func TestPluginIDHash(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		for name, want := range map[string][]string{"acme-mkt": {"acme", "acme:acme"}, "OURS": {"acme"}} {
			c := w.org("hash of " + name).in(t)
			w.publish(c, "acme", "1.0.0")
			sum := sha256.Sum256([]byte("acme@" + strings.ReplaceAll(name, "OURS", c.ourMarket()) + "claude-plugin-telemetry-v1"))
			hash := hex.EncodeToString(sum[:8])
			if name == "acme-mkt" && hash != "8a4321184c310341" { // as Claude Code sent it
				t.Fatalf("hash %s", hash)
			}
			records := fromMarket("s", "third-party", "acme", "acme:acme")
			records[0].Attributes = append(records[0].Attributes, attributes("plugin_id_hash", hash)...)
			c.take(inProtobuf, logsOf(records...))
			w.Settle()
			if diff := cmp.Diff(want, c.skillNames()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}
