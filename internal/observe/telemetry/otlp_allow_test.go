package telemetry_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// nameLike are the attributes whose text is kept, since it is a name. All others
// hold numbers, ids or words.
var nameLike = []string{
	"skill.name", "skill_name", "skill", "gen_ai.skill.name", "gen_ai.skill.resource.name", "gen_ai.evaluation.name",
	"github.copilot.skill.name", "github.copilot.tool.parameters.skill_name", "github.copilot.context.skills",
}

// attributeNames are those that agents and conventions are known to use.
func attributeNames(t *testing.T) (names []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/attributes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A planter fills messages with texts that can be found again.
type planter struct {
	names []string
	where []string // of each text
	lists int      // of attributes, so far
}

var planted = regexp.MustCompile(`planted\W+(\d+)`)

// text returns a text that looks like what people write: it has spaces.
func (p *planter) text(where string) string {
	p.where = append(p.where, where)
	return fmt.Sprintf("planted %d here", len(p.where)-1)
}

// values returns texts in all forms that a value can have.
func (p *planter) values(where string) []*common.AnyValue {
	return []*common.AnyValue{
		anyValue(p.text(where)),
		anyValue([]string{p.text(where), p.text(where)}),
		anyValue(attributes(p.text(where+", a key"), p.text(where), "skill.name", p.text(where+", nested"))),
		anyValue([]byte(p.text(where + ", bytes"))),
		anyValue(`{"content":"` + p.text(where) + `"}`),
		anyValue(strings.ReplaceAll(p.text(where), " ", "\u00a0")), // one word, but not of ASCII
		anyValue(strings.Repeat(p.text(where+", too long"), 20)),
	}
}

// attributes returns all names, each with a text and with one of the other forms
// of values, another in every list.
func (p *planter) attributes(where string) (all []*common.KeyValue) {
	p.lists++
	for i, name := range append([]string{p.text(where + ": a key")}, p.names...) {
		values := p.values(where + ": " + name)
		other := values[1+(p.lists+i)%(len(values)-1)]
		all = append(all, &common.KeyValue{Key: name, Value: values[0]}, &common.KeyValue{Key: name, Value: other})
	}
	return all
}

// fill sets every field of a message, also those that the service does not know.
func (p *planter) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.ContainingOneof() == nil {
			p.set(m, field)
		}
	}
}

func (p *planter) set(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	where := string(field.FullName())
	switch {
	case field.IsList() && field.Message() != nil:
		p.append(m.Mutable(field).List(), field)
	case field.IsList() && field.Kind() == protoreflect.StringKind:
		m.Mutable(field).List().Append(protoreflect.ValueOfString(p.text(where)))
	case field.IsList():
	case field.Message() != nil && field.Message().Name() == "AnyValue": // see append
	case field.Message() != nil:
		p.fill(m.Mutable(field).Message())
	case field.Kind() == protoreflect.StringKind:
		m.Set(field, protoreflect.ValueOfString(p.text(where)))
	case field.Kind() == protoreflect.BytesKind:
		m.Set(field, protoreflect.ValueOfBytes([]byte(p.text(where)+", which is too long for an id")))
	}
}

// append adds attributes, a metric of every type, log records with every form of
// body, or one message of another type.
func (p *planter) append(list protoreflect.List, field protoreflect.FieldDescriptor) {
	switch field.Message().Name() {
	case "KeyValue":
		for _, a := range p.attributes(string(field.FullName())) {
			list.Append(protoreflect.ValueOfMessage(a.ProtoReflect()))
		}
	case "Metric":
		types := field.Message().Oneofs().ByName("data").Fields()
		for i := range types.Len() {
			metric := list.AppendMutable().Message()
			p.fill(metric)
			p.set(metric, types.Get(i))
		}
	case "LogRecord":
		for _, body := range p.values("the body of a log record") {
			record := list.AppendMutable().Message()
			p.fill(record)
			record.Interface().(*logs.LogRecord).Body = body
		}
	default:
		p.fill(list.AppendMutable().Message())
	}
}

// filled returns the three signals with a text in every field.
func (p *planter) filled() []proto.Message {
	all := []proto.Message{&logs.LogsData{}, &trace.TracesData{}, &metrics.MetricsData{}}
	for _, m := range all {
		p.fill(m.ProtoReflect())
	}
	return all
}

// readable returns signals that the service reads, with all attributes beside
// those that it reads.
func (p *planter) readable() []proto.Message {
	at := anHourAgo()
	s := &claude{session: "s", at: at}
	records := []*logs.LogRecord{
		s.activated("p1", "pdf-forms", "claude-proactive"), s.result("p1", "pdf-forms", "toolu_1", true),
		s.decision("p2", "pdf-forms", "toolu_2", "reject"), verdictOf(at, "gen_ai.evaluation.score.label", "pass"),
	}
	for _, r := range records {
		r.Attributes = append(r.Attributes, p.attributes("a log "+cmp.Or(r.EventName, r.Body.GetStringValue()))...)
	}
	c := copilot{conversation: "c", trace: "trace-1.........", at: at}
	spans := []*trace.Span{
		c.agent([]string{"pdf-forms"}, "pdf-forms"), c.tool("call", "gen_ai.skill.name", "pdf-forms"), s.span("pdf-forms", "toolu_1"),
	}
	for _, span := range spans {
		span.Attributes = append(span.Attributes, p.attributes("a span "+span.Name)...)
		for _, e := range span.Events {
			e.Attributes = append(e.Attributes, p.attributes("an event "+e.Name)...)
		}
	}
	point := injected(at, at.Add(time.Second), 1)
	point.Attributes = append(point.Attributes, p.attributes("a data point")...)
	return []proto.Message{logsOf(records...), spansOf(spans...), counterOf(cumulative, point)}
}

// TestNothingSaidIsStored: of all attributes that agents are known to send, in
// every place and form, nothing reaches the database or the data folder but
// names.
func TestNothingSaidIsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		p := &planter{names: attributeNames(t)}
		for _, m := range append(p.filled(), p.readable()...) {
			c.export(inProtobuf, m).Want(http.StatusOK)
			c.export(inJSON, m).Want(http.StatusOK)
		}
		// The event skill_activated counts on its own, since a call id was planted in it.
		c.wantFigures("pdf-forms", figures{
			Sessions: 2, Checks: 5, Triggers: 4, TriggerRate: share(1), Confidence: share(0.6), Covered: share(0.25),
			Graded: 1, P: share(1),
		})
		told := map[string]bool{}
		for _, match := range planted.FindAllStringSubmatch(w.everything(), -1) {
			n, _ := strconv.Atoi(match[1])
			_, name, _ := strings.Cut(p.where[n], ": ")
			if !slices.Contains(nameLike, name) && !told[p.where[n]] {
				told[p.where[n]] = true
				t.Errorf("stored: %s", p.where[n])
			}
		}
		if strings.Contains(w.Logged.String(), "planted") {
			t.Error("logged")
		}
	})
}

// TestUnknownAttributes: whatever an attribute is called and wherever it is,
// text in it is not kept.
func TestUnknownAttributes(t *testing.T) {
	known := attributeNames(t)
	name := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z_]{1,12}(\.[a-zA-Z_]{1,12}){0,3}`),
		rapid.Custom(func(t *rapid.T) string {
			name := rapid.SampledFrom(known).Draw(t, "known")
			return rapid.SampledFrom([]string{name, strings.ToUpper(name), name + ".text", "x." + name, name + " "}).Draw(t, "changed")
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		p := &planter{}
		for range rapid.IntRange(1, 4).Draw(t, "attributes") {
			if n := name.Draw(t, "name"); !slices.Contains(nameLike, n) {
				p.names = append(p.names, strings.ToValidUTF8(n, "?"))
			}
		}
		for i, m := range p.filled() {
			raw, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			signal := []string{"logs", "traces", "metrics"}[i]
			_, kept, err := telemetry.ReadOTLP(signal, "application/x-protobuf", raw, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if found := planted.FindSubmatch(kept); found != nil {
				n, _ := strconv.Atoi(string(found[1]))
				t.Errorf("kept: %s", p.where[n])
			}
		}
	})
}

// TestKeptValues: what is kept of the value of an allowed attribute, the last of
// a record.
func TestKeptValues(t *testing.T) {
	const hash, nothing = "^[0-9a-f]{32}$", "^$"
	for _, test := range []struct {
		want  string // a pattern
		pairs []any
	}{
		{`^claude-sonnet-4-5\[1m\]$`, []any{"model", "claude-sonnet-4-5[1m]"}},
		{nothing, []any{"model", "the best one"}},
		{nothing, []any{"model", "模型"}},
		{nothing, []any{"model", strings.Repeat("x", 257)}},
		{"^7$", []any{"model", 7}},
		{nothing, []any{"Model", "x"}},
		{`^\[email\]$`, []any{"plugin.name", "jo@example.net"}},
		{
			`^https://git\.example\.com/r\?token=\[dropped\]&y=1$`,
			[]any{"gen_ai.data_source.id", "https://jo:pw@git.example.com/r?token=x&y=1"},
		},
		{"^24$", []any{"prompt_length", "24"}},
		{"^24$", []any{"prompt_length", 24}},
		{nothing, []any{"prompt_length", "a few"}},
		{"^true$", []any{"success", "true"}},
		{"^0.5$", []any{"cost_usd", 0.5}},
		{nothing, []any{"cost_usd", []byte("0.5")}},
		{"^s-1$", []any{"session.id", "s-1"}},
		{hash, []any{"session.id", "my session"}},
		{hash, []any{"user.id", "jo"}},
		{"^Fill in forms$", []any{"skill.name", "Fill in forms"}},
		{"^\x00$", []any{"skill.name", "Fill in\nforms"}}, // no name: the record is rejected
		{"^\x00$", []any{"skill.name", strings.Repeat("x", 257)}},
		{nothing, []any{"skill.name", ""}},
		{`^{"skill_name":"pdf"}$`, []any{"tool_name", "Skill", "tool_parameters", `{"args":"said","skill_name":"pdf"}`}},
		{nothing, []any{"tool_name", "Bash", "tool_parameters", `{"skill_name":"said"}`}},
		{nothing, []any{"tool_name", "Skill", "tool_parameters", `said`}},
		{nothing, []any{"tool_name", "Skill", "tool_parameters", `{"skill_name":["said"]}`}},
		{`^{"name":"pdf"}$`, []any{"function_name", "activate_skill", "function_args", "{\n  \"name\": \"pdf\"\n}"}},
		{nothing, []any{"function_name", "write_file", "function_args", `{"name":"said"}`}},
		{`^{"name":"pdf"}$`, []any{"ai.toolCall.name", "skill", "ai.toolCall.args", `{"name":"pdf","why":"said"}`}},
		{nothing, []any{"ai.toolCall.name", "bash", "ai.toolCall.args", `{"name":"said"}`}},
	} {
		raw, err := proto.Marshal(logsOf(&logs.LogRecord{Attributes: attributes(test.pairs...)}))
		if err != nil {
			t.Fatal(err)
		}
		_, raw, err = telemetry.ReadOTLP("logs", "application/x-protobuf", raw, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		kept := &logs.LogsData{}
		if err := proto.Unmarshal(raw, kept); err != nil {
			t.Fatal(err)
		}
		key := test.pairs[len(test.pairs)-2].(string)
		got := telemetry.TextOf(kept.ResourceLogs[0].ScopeLogs[0].LogRecords[0].Attributes, key)
		if !regexp.MustCompile(test.want).MatchString(got) {
			t.Errorf("%v: kept %q, want %s", test.pairs, got, test.want)
		}
	}
}

// TestCapturesAreRedacted: what real agents send with all their switches on holds
// prompts, answers, files and commands. Nothing of it is kept.
func TestCapturesAreRedacted(t *testing.T) {
	files, err := filepath.Glob("testdata/agents/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	said := regexp.MustCompile("HELIOTROPE|TURMERIC|OBSIDIAN|QUICKSILVER|/home/")
	found := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		signal := strings.TrimSuffix(file[strings.LastIndex(file, "-")+1:], ".jsonl")
		for line := range bytes.Lines(raw) {
			found += len(said.FindAll(line, -1))
			_, kept, err := telemetry.ReadOTLP(signal, "application/json", line, time.Now())
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if match := said.FindIndex(kept); match != nil {
				t.Errorf("%s: kept ...%q", file, kept[max(0, match[0]-80):match[1]])
			}
		}
	}
	if found == 0 {
		t.Error("the captures hold nothing that was said")
	}
}
