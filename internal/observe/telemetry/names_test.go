package telemetry_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestNamesThatAreNoSkills: what an agent refused or brings along is not listed,
// until a real use is reported, in whichever order.
func TestNamesThatAreNoSkills(t *testing.T) {
	at := anHourAgo()
	claude := func() *claude { return &claude{session: "s", at: at} }
	push := func(with object) func(*client) {
		return func(c *client) { c.push("", invocations(check("1", with))).Want(http.StatusCreated) }
	}
	logged := func(record *logs.LogRecord) func(*client) {
		return func(c *client) { c.take(inProtobuf, logsOf(record)) }
	}
	refused := aiCall(at, "c1", "skill", `{"name":"wizard"}`)
	refused.Status = failed()
	codex := func(name, scope string) *logs.LogRecord {
		return &logs.LogRecord{TimeUnixNano: nanos(at), EventName: "codex.skill_invocation", Attributes: attributes(
			"event.name", "codex.skill_invocation", "conversation.id", "s", "turn.id", "t", "skill.name", name,
			"skill.invocation_type", "explicit", "skill.scope", scope)}
	}
	bundled := claude().activated("p", "loop", "claude-proactive")
	set(bundled.Attributes, "skill.source", "bundled")
	own := claude().activated("p", "loop", "claude-proactive")
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for name, test := range map[string]struct {
			skill   string
			report  func(*client)
			confirm []func(*client)
		}{
			"import, refused": {
				"wizard", push(object{"skill_name": "wizard", "triggered": false, "unconfirmed": true}),
				[]func(*client){push(object{"skill_name": "wizard", "skill_invocation_id": "2"})},
			},
			"import, built in": {
				"loop", push(object{"skill_name": "loop", "unconfirmed": true}),
				[]func(*client){logged(own), push(object{"skill_name": "loop", "skill_invocation_id": "2"})},
			},
			"Claude Code, bundled": {"loop", logged(bundled), []func(*client){logged(own)}},
			"Claude Code, by name": {"loop", logged(claude().result("p", "loop", "c1", true)), []func(*client){logged(own)}},
			"Codex, system":        {"plan", logged(codex("plan", "system")), []func(*client){logged(codex("plan", "repo"))}},
			"Codex, by name":       {"skill-creator", logged(codex("skill-creator", "")), []func(*client){logged(codex("skill-creator", "user"))}},
			"Codex counter": {"skill-creator", func(c *client) {
				point := injected(at, at.Add(time.Minute), 1)
				set(point.Attributes, "skill", "skill-creator")
				c.take(inJSON, counterOf(delta, point))
			}, []func(*client){logged(codex("skill-creator", "user"))}},
			"Gemini, refused": {
				"wizard", logged(geminiCall(at, "activate_skill", `{"name":"wizard"}`, false)),
				[]func(*client){logged(geminiCall(at, "activate_skill", `{"name":"wizard"}`, true))},
			},
			"Gemini, by name": {
				"skill-creator", logged(geminiCall(at, "activate_skill", `{"name":"skill-creator"}`, true)),
				[]func(*client){push(object{"skill_name": "skill-creator"})},
			},
			"OpenCode, refused": {
				"wizard", func(c *client) { c.take(inJSON, spansOf(refused)) },
				[]func(*client){func(c *client) { c.take(inJSON, spansOf(aiCall(at, "c2", "skill", `{"name":"wizard"}`))) }},
			},
		} {
			for i, confirm := range test.confirm {
				c := w.org(strings.ReplaceAll(name, ",", "") + fmt.Sprint(i)).in(t)
				test.report(c)
				c.wantListed(name, "?confirmed=false", test.skill)
				c.wantListed(name, "")
				confirm(c)
				c.wantListed(name+", then confirmed", "", test.skill)
				test.report(c)
				c.wantListed(name+", confirmed and reported again", "", test.skill)
				c.wantListed(name, "?confirmed=false")
			}
		}
		for name, report := range map[string]func(*client){
			"a push of an existing client": push(object{"skill_name": "loop", "platform": "claude_code"}),
			"a denied call":                logged(claude().decision("p", "loops", "c1", "reject")),
			"a failed call of Claude Code": logged(claude().result("p", "loops", "c1", false)),
			"an offer":                     func(c *client) { c.take(inJSON, spansOf(copilot{at: at, conversation: "s"}.agent([]string{"loop"}))) },
		} {
			c := w.org(name).in(t)
			report(c)
			if len(c.skillNames()) != 1 {
				t.Errorf("%s lists %v, want one skill", name, c.skillNames())
			}
		}
	})
}

// set replaces the value of an attribute.
func set(all []*common.KeyValue, key, value string) {
	for _, a := range all {
		if a.GetKey() == key {
			a.Value = anyValue(value)
		}
	}
}

func (c *client) wantListed(what, query string, want ...string) {
	c.T.Helper()
	got := []string{}
	for _, s := range c.Get("/v1/skills" + query).Want(http.StatusOK).List("skills") {
		got = append(got, s["name"].(string))
	}
	if !slices.Equal(got, want) {
		c.T.Errorf("%s: GET /v1/skills%s lists %q, want %q", what, query, got, want)
	}
}
