package quality

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// reportCommand has the options of the report. The default list is what is
// truncated, which is what an author can mend.
type reportCommand struct {
	server.Flags  `embed:""`
	Agent         string `env:"-" enum:"claude-code,codex" default:"claude-code" help:"Agent whose budget and rules apply: claude-code or codex."`
	ContextWindow int64  `env:"-" placeholder:"TOKENS" help:"Context window of the model; by default 200000 for claude-code and 272000 for codex."`
	Days          int    `env:"-" default:"30" placeholder:"N" help:"How many days of sessions and runs, today included: 1 to 365."`
	Show          string `env:"-" enum:"all,cut,unused,switch_off" default:"cut" help:"Which skills to list: all, cut (the default), unused or switch_off. At most 100; --json and --page have the others."`
	Page          int    `env:"-" default:"1" placeholder:"N" help:"Page of the list, of 100 skills each."`
	Settings      bool   `env:"-" help:"Print only what to copy: skillOverrides for settings.json of Claude Code, or agents/openai.yaml for Codex."`
}

// catalogueReport is the part of the API's reply that the command prints. Pointers are
// nil where the server does not know a figure, which is not 0. It is decoded a
// second time from the reply, which --json prints as it came.
type catalogueReport struct {
	Agent    string        `json:"agent"`
	Window   int64         `json:"context_window"`
	Days     int           `json:"days"`
	Budget   listingBudget `json:"budget"`
	Sessions *int64        `json:"sessions"`
	Model    *string       `json:"model"`
	Reported bool          `json:"reported"`
	// Totals counts skills by the form in which the agent lists them.
	Totals struct {
		Skills            int      `json:"skills"`
		Full              int      `json:"full"`
		Truncated         int      `json:"truncated"`
		NameOnly          int      `json:"name_only"`
		Omitted           int      `json:"omitted"`
		Hidden            int      `json:"hidden"`
		Unused            int      `json:"unused"`
		TokensPerSession  int64    `json:"tokens_per_session"`
		DollarsPerSession *float64 `json:"dollars_per_session"`
		DollarsInWindow   *float64 `json:"dollars_in_window"`
	} `json:"totals"`
	Skills []struct {
		Name            string  `json:"name"`
		Form            *string `json:"form"`
		Description     *string `json:"description"`
		Kept            *int    `json:"kept_characters"`
		Tokens          *int64  `json:"tokens_per_session"`
		OfferedSessions *int64  `json:"offered_sessions"`
		UsedSessions    *int64  `json:"used_sessions"`
		Action          string  `json:"action"`
		Reason          *string `json:"reason"`
	} `json:"skills"`
	Pagination struct {
		Total int `json:"total"`
	} `json:"pagination"`
	// Overlaps are pairs of skills of which one takes the other's requests.
	Overlaps []struct {
		Skill   string `json:"skill"`
		TakenBy string `json:"taken_by"`
		From    string `json:"from"`
		Taken   int    `json:"taken"`
		Of      int    `json:"of"`
	} `json:"overlaps"`
	// Routing is how often trigger cases find their skill, with whole and with
	// truncated descriptions. Measured is nil until runs asked a model.
	Routing struct {
		Cases          int `json:"cases"`
		Right          int `json:"right"`
		RightTruncated int `json:"right_truncated"`
		Measured       *struct {
			Judges    []string `json:"judges"`
			Cases     int      `json:"cases"`
			Recall    float64  `json:"recall"`
			CutRecall float64  `json:"recall_truncated"`
			P         float64  `json:"p_value"`
			Pairs     []struct {
				Suite string `json:"suite"`
			} `json:"pairs"`
		} `json:"measured"`
	} `json:"routing"`
	// SwitchOff is what disabling unused skills would save, with the settings to copy.
	SwitchOff struct {
		Skills           int             `json:"skills"`
		TokensPerSession int64           `json:"tokens_per_session"`
		Settings         json.RawMessage `json:"claude_code_settings"`
		Plugins          []string        `json:"plugin_skills"`
		Codex            struct {
			Path    string   `json:"path"`
			Content string   `json:"content"`
			Skills  []string `json:"skills"`
		} `json:"codex"`
	} `json:"switch_off"`
	Retire []api.RetirableSkill `json:"retire"`
}

// listingBudget is the space that an agent gives its list of skills, in the unit that
// the agent counts.
type listingBudget struct {
	Unit   string `json:"unit"`
	Limit  int64  `json:"limit"`
	Needed int64  `json:"needed"`
	Used   int64  `json:"used"`
}

// reportPage is the page size of the list of skills.
const reportPage = 100

// Run prints the report. With --json it is the whole reply of the server, also with
// fields that this client does not know.
func (c *reportCommand) Run(ctx context.Context, p *term.Program) error {
	query := url.Values{
		"agent": {c.Agent}, "days": {strconv.Itoa(c.Days)}, "show": {c.Show}, "page": {strconv.Itoa(c.Page)},
		"per_page": {strconv.Itoa(reportPage)},
	}
	if c.ContextWindow != 0 {
		query.Set("context_window", strconv.FormatInt(c.ContextWindow, 10))
	}
	return c.WithSession(p, func(s *server.Session) error {
		var answer json.RawMessage
		if err := s.Call(ctx, http.MethodGet, "/api/v1/catalogue-report?"+query.Encode(), nil, &answer); err != nil {
			return err
		}
		var r catalogueReport
		if err := json.Unmarshal(answer, &r); err != nil {
			return err
		}
		if c.Settings {
			return c.printSettings(p, r)
		}
		return p.Print(answer, func(w io.Writer) { c.print(w, r) })
	})
}

// printSettings prints only what to copy, so that it can be piped into a file: JSON for
// Claude Code, YAML with a comment for Codex.
func (c *reportCommand) printSettings(p *term.Program, r catalogueReport) error {
	if c.Agent == "codex" {
		return p.Print(r.SwitchOff.Codex, func(w io.Writer) {
			if len(r.SwitchOff.Codex.Skills) == 0 {
				fmt.Fprintln(w, "# Nothing to switch off.")
				return
			}
			fmt.Fprintf(w, "# As %s in the folder of each of: %s\n%s", r.SwitchOff.Codex.Path,
				plainNames(r.SwitchOff.Codex.Skills), r.SwitchOff.Codex.Content)
		})
	}
	return p.Print(r.SwitchOff.Settings, func(w io.Writer) {
		var indented map[string]any
		if json.Unmarshal(r.SwitchOff.Settings, &indented) != nil {
			return
		}
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(indented) // JSON that was just decoded
	})
}

// print prints the report for people. Lines without a figure are left out, except
// where "unknown" is the news.
func (c *reportCommand) print(w io.Writer, r catalogueReport) {
	t := r.Totals
	if t.Skills == 0 && len(r.Skills) == 0 {
		fmt.Fprintln(w, "No skills yet; `whetstone push FOLDER` publishes the first one.")
		return
	}
	agent, listed := "Claude Code", ", all fits"
	if r.Agent == "codex" {
		agent = "Codex"
	}
	if r.Budget.Needed > r.Budget.Limit {
		listed = fmt.Sprintf(", %d listed", r.Budget.Used)
	}
	fmt.Fprintf(w, "%s lists %s with a context window of %d tokens\n", agent, term.Count(t.Skills, "skill"), r.Window)
	fmt.Fprintf(w, "Budget\t%d of %d %s needed%s\n", r.Budget.Needed, r.Budget.Limit, r.Budget.Unit, listed)
	fmt.Fprintf(w, "Descriptions\t%d whole, %d truncated, %d dropped, %d skills omitted, %d hidden\n",
		t.Full, t.Truncated, t.NameOnly, t.Omitted, t.Hidden)
	fmt.Fprintf(w, "Cost\t%d tokens, %s per session\n", t.TokensPerSession, term.Dollars(t.DollarsPerSession))
	sessions := "no session with model requests was reported"
	if r.Sessions != nil {
		sessions = fmt.Sprintf("%s in %s of %s", term.Dollars(t.DollarsInWindow), term.Count(int(*r.Sessions), "session"),
			term.Count(r.Days, "day"))
	}
	fmt.Fprintf(w, "\t%s\n", sessions)
	if r.Reported {
		fmt.Fprintf(w, "Unused\t%s\n", term.Count(t.Unused, "skill"))
	} else {
		fmt.Fprintln(w, "Unused\tunknown: agents reported nothing")
	}
	// Print what a model chose in runs on the catalogue, or else what the router chooses
	// that runs without a model use.
	switch m := r.Routing.Measured; {
	case m != nil:
		fmt.Fprintf(w, "Routing\tby %s, recall is %s by whole descriptions (n=%d) and %s by what is listed (n=%d), p=%.3g\n",
			plainNames(m.Judges), term.Percent(&m.Recall), m.Cases, term.Percent(&m.CutRecall), m.Cases, m.P)
	case r.Routing.Cases > 0:
		fmt.Fprintf(w, "Routing\t%d of %s find their skill by whole descriptions, %d by what is listed, by the built-in router\n",
			r.Routing.Right, term.Count(r.Routing.Cases, "trigger case"), r.Routing.RightTruncated)
		fmt.Fprintf(w, "\t`whetstone eval run SUITE --entry NAME --catalog %s` asks the model\n", r.Agent)
	}
	c.printSkills(w, r)
	// The worst overlaps come first; more would hide the rest of the report.
	if len(r.Overlaps) > 0 {
		fmt.Fprintln(w, "\nREQUESTS OF\tTAKEN BY\tTAKEN\tOF\tFROM")
		// Pairs that only occurred together take nothing from each other.
		for _, o := range r.Overlaps[:min(len(r.Overlaps), 10)] {
			if o.Taken > 0 {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", term.Plain(o.Skill), term.Plain(o.TakenBy), o.Taken, o.Of, o.From)
			}
		}
	}
	if len(r.Retire) > 0 {
		fmt.Fprintln(w, "\nRETIRE\tCOST A MONTH\tWHY")
		for _, k := range r.Retire {
			fmt.Fprintf(w, "%s\t%s\t%s\n", term.Plain(k.Name), term.Dollars(k.CostUSDMonth), term.Plain(k.Reason))
		}
	}
	if r.SwitchOff.Skills > 0 {
		fmt.Fprintf(w, "\n%s can be switched off: %d tokens per session then. `whetstone report --agent %s --days %d "+
			"--settings` prints what to copy.\n",
			term.Count(r.SwitchOff.Skills, "skill"), r.SwitchOff.TokensPerSession, r.Agent, r.Days)
	}
}

// printSkills prints the page of skills as a table, and how to get the next page.
func (c *reportCommand) printSkills(w io.Writer, r catalogueReport) {
	if len(r.Skills) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSKILL\tLISTED\tSEEN\tTOKENS\tOFFERED\tUSED\tACTION")
	for _, k := range r.Skills {
		// The form is nil if the description of the skill is unknown.
		form, seen := "unknown", "-"
		if k.Form != nil {
			form = strings.ReplaceAll(*k.Form, "_", " ")
		}
		if k.Kept != nil && k.Description != nil {
			seen = fmt.Sprintf("%d of %d", *k.Kept, len([]rune(*k.Description)))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", term.Plain(k.Name), form, seen, term.Number(k.Tokens),
			term.Number(k.OfferedSessions), term.Number(k.UsedSessions), k.Action)
	}
	if r.Pagination.Total > c.Page*reportPage {
		fmt.Fprintf(w, "%d more; --page %d has the next.\n", r.Pagination.Total-c.Page*reportPage, c.Page+1)
	}
}

// plainNames joins names, stripped of control characters.
func plainNames(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = term.Plain(name)
	}
	return strings.Join(all, ", ")
}
