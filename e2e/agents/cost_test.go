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
func microdollars(a tokens) int64 {
	return (300*a.Input + 1500*a.Output + 30*a.CacheRead + 375*a.CacheWrite) / 100
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
		{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: 200},
		{Input: 2000, Output: 70, CacheWrite: 500},
		{Input: 300, Output: 20, CacheRead: 9000},
		{Input: 700, Output: 10},
	}
	c.model.Script(
		reply{Calls: []toolCall{useOf("pdf-tables")}, Usage: usage[0]},
		reply{Calls: []toolCall{useOf("alpha-notes")}, Usage: usage[1]},
		reply{Text: "Noted.", Usage: usage[2]},
		reply{Text: "You are welcome.", Usage: usage[3]},
	)
	c.prompt(t, "Note what the invoice says.")
	c.prompt(t, "Thanks", "--continue")
	c.model.WantAllSaid(1)

	var total, reported int64
	for _, u := range usage {
		total += microdollars(u)
	}
	for _, e := range c.telemetry.sent("/v1/logs") {
		reported += reportedMicrodollars(t, e)
	}
	if reported != total {
		t.Errorf("Claude Code reported %d microdollars, want %d", reported, total)
	}

	want := costs{
		Total: total, Unattributed: microdollars(usage[0]) + microdollars(usage[3]),
		Skills:   map[string]int64{"pdf-tables": microdollars(usage[1]), "alpha-notes": microdollars(usage[2])},
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
		{Input: 1200, Output: 50, CacheRead: 400},
		{Input: 800, Output: 70, CacheRead: 1600},
		{Input: 600, Output: 30},
		{Input: 1000, Output: 20, CacheRead: 2000},
	}
	c.model.Script(
		reply{Calls: []toolCall{shell("cat invoice.txt")}, Usage: usage[0]},
		reply{Text: "Pencils.", Usage: usage[1]},
	)
	c.prompt(t, "Use $pdf-tables on the invoice.")
	c.model.Script(
		reply{Calls: []toolCall{shell("cat .agents/skills/pdf-tables/SKILL.md")}, Usage: usage[2]},
		reply{Text: "Pencils.", Usage: usage[3]},
	)
	c.prompt(t, "What does the invoice say?")
	c.model.WantAllSaid(2)

	// 1.25, 10 and 0.125 dollars per million tokens.
	price := func(u tokens) int64 { return (1250*u.Input + 10000*u.Output + 125*u.CacheRead) / 1000 }
	sum := tokens{Input: 3000, Output: 140, CacheRead: 4000}
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
		got.Tokens[skill.Name] = tokens{
			Input: cost.Tokens.Input, Output: cost.Tokens.Output, CacheRead: cost.Tokens.CacheRead, CacheWrite: cost.Tokens.CacheWrite,
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
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
