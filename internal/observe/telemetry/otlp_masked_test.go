package telemetry_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// masked is an event of an activation, as Claude Code sends it by default.
func (c *claude) masked(prompt, trigger string) *logs.LogRecord {
	return c.event("skill_activated", prompt, "skill.name", "custom_skill", "invocation_trigger", trigger, "skill.source", "userSettings")
}

// request is a model request, of a skill unless that is "".
func (c *claude) request(prompt, skill string) *logs.LogRecord {
	pairs := []any{"model", "m", "input_tokens", 7, "output_tokens", 1}
	if skill != "" {
		pairs = append(pairs, "skill.name", skill)
	}
	r := c.event("api_request", prompt, pairs...)
	r.Attributes = append(r.Attributes, attributes("request_id", fmt.Sprint(c.session, c.sequence))...)
	return r
}

// TestMaskedNames: an activation whose name is hidden is that of the skill which the
// requests of its prompt name next, in whatever order and bodies all that arrives.
func TestMaskedNames(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for name, test := range map[string]struct {
			records func(c *claude) []*logs.LogRecord // at most five
			want    map[string]figures
		}{
			"by the tool": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.masked("p", "claude-proactive"), c.request("p", ""), c.request("p", "pdf"), c.request("p", "pdf"), c.request("q", "csv"),
					}
				},
				map[string]figures{"pdf": firedOnce(0.6)},
			},
			"by name": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{c.masked("p", "user-slash"), c.request("p", "pdf"), c.request("p", "pdf")}
				},
				map[string]figures{"pdf": firedOnce(1)},
			},
			"several": { // in every order
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.masked("p", "user-slash"), c.request("p", "pdf"), c.masked("p", "claude-proactive"), c.request("p", "csv"),
					}
				},
				map[string]figures{"pdf": firedOnce(1), "csv": firedOnce(0.6)},
			},
			"at once": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.masked("p", "claude-proactive"), c.masked("p", "claude-proactive"), c.request("p", "pdf"), c.request("p", "csv"),
					}
				},
				map[string]figures{"pdf": firedOnce(0.6), "csv": firedOnce(0.6)},
			},
			"after a named one": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.activated("p", "csv", "user-slash"), c.masked("p", "claude-proactive"), c.request("p", "csv"), c.request("p", "pdf"),
					}
				},
				map[string]figures{"pdf": firedOnce(0.6), "csv": firedOnce(1)},
			},
			"one that no request names": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.masked("p", "claude-proactive"), c.request("p", "pdf"), c.masked("p", "claude-proactive"), c.request("p", "pdf"),
						c.request("p", "third-party"),
					}
				},
				map[string]figures{"pdf": firedOnce(0.6)},
			},
			"of a plugin": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{
						c.event("skill_activated", "p", "skill.name", "third-party", "invocation_trigger", "claude-proactive"),
						c.request("p", "third-party"), c.masked("p", "claude-proactive"), c.request("p", "pdf"),
					}
				},
				map[string]figures{"pdf": firedOnce(0.6)},
			},
			"only before": {
				func(c *claude) []*logs.LogRecord {
					return []*logs.LogRecord{c.request("p", "pdf"), c.masked("p", "claude-proactive"), c.request("p", "")}
				},
				map[string]figures{},
			},
		} {
			t.Run(name, func(t *testing.T) {
				records := test.records(&claude{session: "s", at: anHourAgo()})
				steps := make([]func(*client), len(records))
				for i, r := range records {
					steps[i] = func(c *client) { c.export(otlpWays[i%len(otlpWays)], logsOf(r)).Want(http.StatusOK) }
				}
				check := func(c *client) {
					names := []string{}
					for skill, want := range test.want {
						c.wantFigures(skill, want)
						names = append(names, skill)
					}
					if got := c.skillNames(); len(got) != len(names) {
						t.Errorf("skills %v, want %v", got, names)
					}
				}
				if name == "several" || len(steps) < 4 {
					inEveryOrder(t, w, steps, check)
				}
				for range 2 { // in one body, and each in one of its own, backwards
					c := w.org("org " + uuid.NewString()).in(t)
					for i := range steps {
						steps[len(steps)-1-i](c)
					}
					c.export(inProtobuf, logsOf(records...)).Want(http.StatusOK)
					check(c)
					slices.Reverse(records)
				}
			})
		}
		w.checkNumbers(t)
	})
}

func firedOnce(confidence float64) figures {
	return figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(confidence), Covered: share(1)}
}

// TestMaskedAndImported: an activation whose name is hidden and that an import
// reports is one, in every order; also if OTLP tells nothing of the tool's call.
func TestMaskedAndImported(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		s := &claude{session: "s", at: anHourAgo()}
		slash, request, tool, second := s.masked("p", "user-slash"), s.request("p", "pdf"), s.masked("p", "claude-proactive"), s.request("p", "csv")
		named := s.activated("q", "pdf", "claude-proactive")
		log := func(r ...*logs.LogRecord) func(*client) {
			return func(c *client) { c.take(inProtobuf, logsOf(r...)) }
		}
		inEveryOrder(t, w, []func(*client){
			log(slash, request), log(tool), log(second, named), func(c *client) {
				at := stamp(anHourAgo())
				c.push(uuid.NewString(), object{"skill_invocations": []any{
					object{
						"skill_invocation_id": "1", "session_id": "s", "occurred_at": at, "skill_name": "pdf", "triggered": true,
						"invocation_mode": "explicit", "confidence": 1, "source_prompt_id": "p",
					},
					object{
						"skill_invocation_id": "2", "session_id": "s", "occurred_at": at, "skill_name": "csv", "triggered": true,
						"invocation_mode": "implicit", "confidence": 0.85, "source_prompt_id": "p", "tool_call_id": "t1",
					},
					object{
						"skill_invocation_id": "3", "session_id": "s", "occurred_at": at, "skill_name": "pdf", "triggered": true,
						"invocation_mode": "implicit", "confidence": 0.85, "source_prompt_id": "q", "tool_call_id": "t2",
					},
				}}).Want(201)
			},
		}, func(c *client) {
			c.wantFigures("csv", firedOnce(0.85))
			c.wantFigures("pdf", figures{Sessions: 1, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(0.925), Covered: share(1)})
			if diff := cmp.Diff([]string{"csv", "pdf"}, c.skillNames()); diff != "" {
				t.Errorf("skills (-want +got):\n%s", diff)
			}
		})
		w.checkNumbers(t)
	})
}
