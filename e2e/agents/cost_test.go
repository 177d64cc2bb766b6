package agents_test

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
)

// microdollars is the price at which Claude Code reports the usage of
// claudeModel: 3, 15, 0.30 and 3.75 dollars per million tokens.
func (a tokens) microdollars() int64 {
	return (300*a.input + 1500*a.output + 30*a.cacheRead + 375*a.cacheWrite) / 100
}

// TestClaudeCodeCosts compares the usage that the scripted model reports with
// the money that Claude Code makes of it, and that with the costs of the skills:
// a request costs for the skill that was activated last in its prompt.
func TestClaudeCodeCosts(t *testing.T) {
	requireAgents(t)
	if *capture {
		t.Skip("costs are read from protobuf")
	}
	s := startService(t)
	live := s.newOrganisation(t)
	c := newClaudeCode(t, live)
	for _, skill := range []string{"pdf-tables", "alpha-notes"} {
		c.write(t, "project/.claude/skills/"+skill+"/SKILL.md", skillFile(skill))
	}
	usage := []tokens{
		{input: 1000, output: 50, cacheRead: 3000, cacheWrite: 200},
		{input: 2000, output: 70, cacheWrite: 500},
		{input: 300, output: 20, cacheRead: 9000},
		{input: 700, output: 10},
	}
	c.model.main = []reply{
		{calls: []toolCall{useOf("pdf-tables")}, usage: usage[0]},
		{calls: []toolCall{useOf("alpha-notes")}, usage: usage[1]},
		{text: "Noted.", usage: usage[2]},
		{text: "You are welcome.", usage: usage[3]},
	}
	c.prompt(t, "Note what the invoice says.")
	c.prompt(t, "Thanks", "--continue")
	c.model.wantAllSaid()

	var total, reported int64
	for _, u := range usage {
		total += u.microdollars()
	}
	for _, e := range c.telemetry.sent("/v1/logs") {
		reported += reportedMicrodollars(t, e)
	}
	if reported != total {
		t.Errorf("Claude Code reported %d microdollars, want %d", reported, total)
	}

	want := costs{
		Total: total, Unattributed: usage[0].microdollars() + usage[3].microdollars(),
		Skills:   map[string]int64{"pdf-tables": usage[1].microdollars(), "alpha-notes": usage[2].microdollars()},
		Tokens:   map[string]tokens{"pdf-tables": usage[1], "alpha-notes": usage[2]},
		Requests: map[string]int64{"pdf-tables": 1, "alpha-notes": 1}, Basis: "reported",
	}
	t.Run("OTLP", func(t *testing.T) { live.wantCosts(t, want) })
	t.Run("OTLP repeated", func(t *testing.T) {
		o := s.newOrganisation(t)
		o.replay(t, c.telemetry.sent())
		o.replay(t, c.telemetry.sent())
		o.wantCosts(t, want)
	})
	t.Run("import", func(t *testing.T) { // the price table agrees with Claude Code
		o := s.newOrganisation(t)
		o.importTranscripts(t, c.home)
		priced := want
		priced.Basis = "priced"
		o.wantCosts(t, priced)
	})
	t.Run("OTLP then import", func(t *testing.T) {
		o := s.newOrganisation(t)
		o.replay(t, c.telemetry.sent())
		o.importTranscripts(t, c.home)
		o.wantCosts(t, want)
	})
	t.Run("import then OTLP", func(t *testing.T) {
		o := s.newOrganisation(t)
		o.importTranscripts(t, c.home)
		o.replay(t, c.telemetry.sent())
		o.wantCosts(t, want)
	})
}

// TestCodexCosts: Codex reports tokens and no money, and its input includes what was
// cached. Its requests cost for the skill that was invoked last in their turn.
func TestCodexCosts(t *testing.T) {
	requireAgents(t)
	if *capture {
		t.Skip("its session is that of TestCodex")
	}
	s := startService(t)
	live := s.newOrganisation(t)
	c := newCodex(t, live)
	usage := []tokens{
		{input: 1200, output: 50, cacheRead: 400},
		{input: 800, output: 70, cacheRead: 1600},
		{input: 600, output: 30},
		{input: 1000, output: 20, cacheRead: 2000},
	}
	c.model.script = []reply{
		{calls: []toolCall{shell("cat invoice.txt")}, usage: usage[0]},
		{text: "Pencils.", usage: usage[1]},
	}
	c.prompt(t, "Use $pdf-tables on the invoice.")
	c.model.script = []reply{
		{calls: []toolCall{shell("cat .agents/skills/pdf-tables/SKILL.md")}, usage: usage[2]},
		{text: "Pencils.", usage: usage[3]},
	}
	c.prompt(t, "What does the invoice say?")
	c.model.wantAllSaid(2)

	// 1.25, 10 and 0.125 dollars per million tokens.
	price := func(u tokens) int64 { return (1250*u.input + 10000*u.output + 125*u.cacheRead) / 1000 }
	sum := tokens{input: 3000, output: 140, cacheRead: 4000}
	want := costs{
		Total: price(sum) + price(usage[2]), Unattributed: price(usage[2]), Skills: map[string]int64{"pdf-tables": price(sum)},
		Tokens: map[string]tokens{"pdf-tables": sum}, Requests: map[string]int64{"pdf-tables": 3}, Basis: "priced",
	}
	t.Run("OTLP", func(t *testing.T) { live.wantCosts(t, want) })
	t.Run("logs only", func(t *testing.T) {
		o := s.newOrganisation(t)
		o.replay(t, c.telemetry.sent("/v1/logs"))
		o.wantCosts(t, want)
	})
	t.Run("backwards and again", func(t *testing.T) {
		o := s.newOrganisation(t)
		backwards := c.telemetry.sent()
		slices.Reverse(backwards)
		o.replay(t, backwards)
		o.replay(t, c.telemetry.sent())
		o.wantCosts(t, want)
	})
}

// reportedMicrodollars adds up what the api_request events of an export cost.
func reportedMicrodollars(t *testing.T, e export) (sum int64) {
	t.Helper()
	var in logs.LogsData // the same on the wire as a request
	if err := proto.Unmarshal(e.body, &in); err != nil {
		t.Fatal(err)
	}
	for _, resource := range in.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				sum += attribute(record.Attributes, "cost_usd_micros").GetIntValue()
			}
		}
	}
	return sum
}

func attribute(all []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range all {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// costs are an organisation's, in microdollars.
type costs struct {
	Total, Unattributed int64
	Skills              map[string]int64
	Tokens              map[string]tokens
	Requests            map[string]int64
	Basis               string // of all skills
}

func (o organisation) wantCosts(t *testing.T, want costs) {
	t.Helper()
	var all struct {
		Total, Unattributed dollars
		Skills              []struct {
			Name  string
			Total dollars
		}
	}
	o.api(t).Get("/v1/costs?days=30").Want(http.StatusOK).Into(&all)
	got := costs{
		Total: int64(all.Total), Unattributed: int64(all.Unattributed),
		Skills: map[string]int64{}, Tokens: map[string]tokens{}, Requests: map[string]int64{}, Basis: want.Basis,
	}
	for _, skill := range all.Skills {
		got.Skills[skill.Name] = int64(skill.Total)
		var one struct {
			Skill struct {
				Cost struct {
					Total    dollars
					Requests int64
					Basis    string
					Tokens   struct {
						Input      int64 `json:"input"`
						Output     int64 `json:"output"`
						CacheRead  int64 `json:"cache_read"`
						CacheWrite int64 `json:"cache_write"`
					}
				}
			}
		}
		o.api(t).Get("/v1/skills/" + skill.Name).Want(http.StatusOK).Into(&one)
		cost := one.Skill.Cost
		if cost.Total != skill.Total || cost.Basis != want.Basis {
			t.Errorf("cost of %s: %+v, want %d microdollars, %s", skill.Name, cost, skill.Total, want.Basis)
		}
		got.Requests[skill.Name] = cost.Requests
		got.Tokens[skill.Name] = tokens{cost.Tokens.Input, cost.Tokens.Output, cost.Tokens.CacheRead, cost.Tokens.CacheWrite}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tokens{})); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

// dollars is an amount that is a decimal number in JSON, in microdollars.
type dollars int64

// UnmarshalJSON implements json.Unmarshaler.
func (d *dollars) UnmarshalJSON(text []byte) error {
	amount, err := strconv.ParseFloat(string(text), 64)
	*d = dollars(math.Round(amount * 1e6))
	return err
}
