package telemetry_test

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A piece is the least that a producer reports at once: a change of prices, log
// records that stay together, or a record of a push.
type piece struct {
	user   int
	prices []price
	logs   []*logs.LogRecord
	array  string
	record object
	// merges, if set, merges the first skill into the second, or takes it back.
	merges *[2]string
}

// pieces returns all that is reported of the history to an organisation with a
// name, in the order in which it happened.
func (h *history) pieces(t apptest.T, org string) (all []piece) {
	for _, s := range h.sessions {
		told := &teller{agentSession: s, t: t, org: org}
		switch s.agent {
		case "codex":
			told.codex()
		case "claude":
			told.claude()
		default:
			told.client()
		}
		for _, g := range s.grades {
			told.push("grading_results", object{
				"grading_id": g.id, "session_id": s.name, "skill_name": g.skill, "graded_at": stamp(g.at), "pass_rate": g.rate,
			})
		}
		all = append(all, told.all...)
	}
	return all
}

// teller reports a session.
type teller struct {
	*agentSession
	t        apptest.T
	org      string
	sequence int
	all      []piece
}

func (t *teller) push(array string, record object) {
	t.all = append(t.all, piece{user: t.user, array: array, record: record})
}

func (t *teller) log(records ...*logs.LogRecord) {
	t.all = append(t.all, piece{user: t.user, logs: records})
}

// event is one of Claude Code.
func (t *teller) event(at time.Time, name, prompt string, pairs ...any) *logs.LogRecord {
	t.sequence++
	c := &claude{session: t.name, sequence: t.sequence, at: at.Add(-time.Duration(t.sequence+1) * time.Second)}
	return c.event(name, prompt, pairs...)
}

func (t *teller) claude() {
	for _, l := range t.loads {
		marketplace := l.marketplace
		if marketplace == own {
			marketplace = "whetstone-" + t.org
		}
		pairs := []any{"plugin.name", "acme", "plugin.version", fmt.Sprint(l.version)}
		if marketplace != "" {
			pairs = append(pairs, "marketplace.name", marketplace)
		}
		t.log(t.event(l.at, "plugin_loaded", "", pairs...))
	}
	for _, at := range t.offers {
		t.push("skill_offers", object{"session_id": t.name, "occurred_at": stamp(at), "skill_names": t.offered})
	}
	for _, u := range t.uses {
		if t.otlp {
			t.logUse(u)
		}
		if t.imported {
			record := t.invocation(u)
			record["source_prompt_id"] = u.turn
			if record["invocation_mode"] = "explicit"; u.call != "" {
				record["invocation_mode"], record["tool_call_id"], record["tool_name"] = "implicit", u.call, "Skill"
			}
			t.push("skill_invocations", record)
		}
	}
	for _, r := range t.requests {
		if t.otlp {
			t.logRequest(r)
		}
		if t.imported {
			t.importRequest(r)
		}
	}
}

func (t *teller) logUse(u skillUse) {
	activated := func(trigger string) *logs.LogRecord {
		pairs := []any{"skill.name", u.skill, "invocation_trigger", trigger, "skill.source", "projectSettings"}
		if plugin := pluginOf(u.skill); plugin != "" {
			pairs = append(pairs[:4], "skill.source", "plugin", "plugin.name", plugin)
		}
		return t.event(u.at, "skill_activated", u.turn, pairs...)
	}
	if u.call == "" {
		t.log(activated("user-slash"))
		return
	}
	if u.fired {
		t.log(activated("claude-proactive"))
	}
	if u.lost {
		return
	}
	t.log(t.event(u.at, "tool_result", u.turn, "tool_name", "Skill", "tool_use_id", u.call, "success", fmt.Sprint(u.fired),
		"tool_parameters", `{"skill_name":"`+u.skill+`"}`))
}

func (t *teller) logRequest(r spending) {
	pairs := []any{
		"model", r.model, "input_tokens", int(r.tokens.input), "output_tokens", int(r.tokens.output),
		"cache_read_tokens", int(r.tokens.read), "cache_creation_tokens", int(r.tokens.write), "cache_creation_1h_tokens", int(r.tokens.writeHour),
	}
	if r.skill != "" {
		pairs = append(pairs, "skill.name", r.skill)
	}
	if r.id != "" {
		pairs = append(pairs, "request_id", r.id)
	}
	if r.reported != nil {
		pairs = append(pairs, "cost_usd_micros", int(*r.reported))
	}
	t.log(t.event(r.at, "api_request", r.turn, pairs...))
}

// importRequest reports a request of a transcript, and one that has an id also as
// it was read while the answer was being written.
func (t *teller) importRequest(r spending) {
	record := func(output int64) object {
		o := object{
			"session_id": t.name, "message_id": "message " + fmt.Sprint(r.tokens.input), "source_prompt_id": r.turn,
			"occurred_at": stamp(r.at), "model": r.model,
			"input_tokens": r.tokens.input, "output_tokens": output, "cache_read_tokens": r.tokens.read,
			"cache_creation_tokens": r.tokens.write, "cache_creation_1h_tokens": r.tokens.writeHour,
		}
		if r.id != "" {
			o["request_id"] = r.id
		}
		if r.skill != "" {
			o["skill_name"] = r.skill
		}
		return o
	}
	if r.id != "" {
		t.push("model_requests", record(r.tokens.output/2))
	}
	t.push("model_requests", record(r.tokens.output))
}

func (t *teller) invocation(u skillUse) object {
	record := object{
		"skill_invocation_id": fmt.Sprint(t.name, " ", u.turn, " ", u.at.UnixNano()), "session_id": t.name, "skill_name": u.skill,
		"occurred_at": stamp(u.at), "triggered": u.fired,
	}
	optional(record, "confidence", u.confidence)
	return record
}

func (t *teller) client() {
	for _, u := range t.uses {
		record := t.invocation(u)
		if u.version > 0 {
			record["skill_version_hash"] = contentHash(t.t, packedAs(u.skill, u.version))
		}
		t.push("skill_invocations", record)
	}
	for _, r := range t.requests {
		// The input of a fact includes what was cached.
		fact := object{
			"execution_fact_id": r.id, "session_id": t.name, "occurred_at": stamp(r.at), "model": r.model,
			"input_tokens": r.tokens.input + r.tokens.read, "cached_input_tokens": r.tokens.read, "output_tokens": r.tokens.output,
		}
		if r.turn != "" {
			fact["prompt_id"] = r.turn
		}
		if r.skill != "" {
			fact["active_skills"] = []string{r.skill}
		}
		if r.reported != nil {
			fact["cost_usd"] = float64(*r.reported) / 1e6
		}
		t.push("execution_facts", fact)
	}
}

func (t *teller) codex() {
	event := func(at time.Time, name string, pairs ...any) *logs.LogRecord {
		return &logs.LogRecord{ObservedTimeUnixNano: nanos(at), Attributes: attributes(append(pairs,
			"event.name", name, "conversation.id", t.name)...)}
	}
	for _, turn := range t.turns {
		first := true
		begin := func(at time.Time) {
			if first {
				t.log(event(at, "codex.user_prompt"))
			}
			first = false
		}
		for _, u := range t.uses {
			if u.turn != turn {
				continue
			}
			kind := "implicit"
			if u.call == "" {
				kind = "explicit"
			}
			invoked := event(u.at, "codex.skill_invocation", "turn.id", turn, "skill.name", u.skill, "skill.scope", "repo",
				"skill.invocation_type", kind)
			if kind == "explicit" { // logged just before the prompt
				begin(u.at.Add(3 * time.Millisecond))
			} else {
				begin(t.promptOf(turn))
			}
			t.log(invoked)
		}
		for _, r := range t.requests {
			if r.turn != turn {
				continue
			}
			begin(t.promptOf(turn))
			t.log(event(r.at, "codex.sse_event", "event.kind", "response.completed", "model", r.model,
				"input_token_count", int(r.tokens.input+r.tokens.read), "cached_token_count", int(r.tokens.read),
				"output_token_count", int(r.tokens.output)))
		}
	}
}

// promptOf is just before all else in the turn.
func (t *teller) promptOf(turn string) time.Time {
	var first time.Time
	note := func(of string, at time.Time) {
		if of == turn && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, u := range t.uses {
		note(u.turn, u.at)
	}
	for _, r := range t.requests {
		note(r.turn, r.at)
	}
	return first.Add(-time.Millisecond)
}

// packedAs is the description of the version of an entry, which makes its content
// unique.
func packedAs(entry string, version int) string { return fmt.Sprint(entry, " ", version) }

// tell sends pieces in bodies of at most so many of one user.
func (o *organisation) tell(pieces []piece, size func() int) {
	var body []piece
	room := 0
	flush := func() {
		if len(body) > 0 {
			o.send(body)
		}
		body = nil
	}
	for _, p := range pieces {
		if room == 0 || len(body) > 0 && (body[0].user != p.user || (body[0].logs == nil) != (p.logs == nil)) {
			flush()
			room = size()
		}
		room--
		if p.array == "" && p.logs == nil {
			flush()
			if p.merges != nil {
				o.merge(*p.merges)
			} else {
				o.setPrices(p.prices)
			}
			continue
		}
		body = append(body, p)
	}
	flush()
}

func (o *organisation) send(body []piece) {
	by := o.clients[body[0].user]
	var records []*logs.LogRecord
	canonical := object{}
	for _, p := range body {
		records = append(records, p.logs...)
		if p.array != "" {
			all, _ := canonical[p.array].([]any)
			canonical[p.array] = append(all, p.record)
		}
	}
	if records != nil {
		by.take(inProtobuf, logsOf(records...))
		return
	}
	if rejected := by.push(uuid.NewString(), canonical).Want(201).Object()["rejected"].([]any); len(rejected) > 0 {
		by.T.Fatalf("rejected %v", rejected)
	}
}

func (o *organisation) setPrices(list []price) {
	models := []object{}
	for _, p := range list {
		m := object{
			"match": p.match, "input": p.input, "output": p.output, "cache_read": p.read, "cache_write": p.write,
			"cache_write_hour": p.writeHour,
		}
		if p.from != "" {
			m["valid_from"] = p.from
		}
		models = append(models, m)
	}
	o.clients[0].Do("PUT", "/api/v1/settings/prices", object{"models": models}).Want(200)
}

// merge merges a skill into another one, or takes that back, if both were reported. The
// job that moves what was reported may run later.
func (o *organisation) merge(skills [2]string) {
	by := o.clients[0]
	listed := map[string]bool{}
	for _, k := range by.Get("/v1/skills?per_page=100").Want(200).List("skills") {
		listed[k["name"].(string)] = true
	}
	for _, k := range by.Get("/v1/skills?per_page=100&merged=true").Want(200).List("skills") {
		listed[k["name"].(string)] = true
	}
	if !listed[skills[0]] || skills[1] != "" && !listed[skills[1]] {
		return
	}
	var into any
	if skills[1] != "" {
		into = skills[1]
	}
	by.Do("PATCH", "/v1/skills/"+skills[0], object{"merged_into": into}).Want(200)
}
