package quality

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// gatesCommands are the commands `whetstone gates`: gates of versions that were pushed.
// The command `gate`, without an s, compares a folder before it is pushed.
type gatesCommands struct {
	List     gateList     `cmd:"" help:"List gates, newest first."`
	Show     gateShow     `cmd:"" help:"Show a gate: its verdict and the figures behind it."`
	Rerun    gateRerun    `cmd:"" help:"Gate the same version again."`
	Override gateOverride `cmd:"" help:"Make a candidate current despite the verdict of its gate."`
	Policy   gatePolicy   `cmd:"" help:"Show or change how versions are gated."`
}

// gateList has the filters of the list. The server filters, so a rare verdict is
// found among any number of gates.
type gateList struct {
	server.Flags `embed:""`
	Name         string `arg:"" optional:"" names:"entries" help:"Name or id of an entry; all entries when empty."`
	Verdict      string `env:"-" enum:",pass,block,inconclusive,skipped" default:"" placeholder:"VERDICT" help:"pass, block, inconclusive or skipped."`
}

// Run lists the gates of an entry or of all entries, newest first.
func (c *gateList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var entry client.Entry
		var err error
		if c.Name != "" {
			if entry, err = s.OwnEntry(ctx, c.Name); err != nil {
				return err
			}
		}
		all, err := s.Gates(ctx, entry.ID, c.Verdict)
		if err != nil {
			return err
		}
		// Gates have only ids of entries. With no name, the filter is empty and finds
		// all.
		entries, err := s.ListEntries(ctx, client.Filter{Name: entry.Name})
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, e := range entries {
			names[e.ID] = e.Name
		}
		return term.List[client.Gate]{
			None: "No gates; `whetstone gates policy NAME --mode enforce` turns them on.",
			Head: "ID\tSTARTED\tSKILL\tVERSION\tAGAINST\tVERDICT\tWHY",
			Row: func(g client.Gate) []any {
				return []any{
					g.ID, term.Minute(g.CreatedAt), term.Cell(names[g.EntryID]), term.Plain(g.Version),
					term.OrDash(g.Against), gateVerdict(g), term.Cell(g.Reason),
				}
			},
		}.Print(p, all)
	})
}

// gateVerdict formats the verdict, or the status of a gate that has none yet. The
// status is queued, running, superseded or cancelled.
func gateVerdict(g client.Gate) string {
	if g.Verdict == nil {
		return g.Status
	}
	if g.Override != nil {
		return *g.Verdict + ", overridden"
	}
	return *g.Verdict
}

// gateID is the argument of the commands about one gate: its id, or its entry.
type gateID struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"gate" names:"entries" help:"Id of the gate, or the entry of the newest one."`
}

// with resolves an entry to the id of its newest gate, and calls do.
func (c *gateID) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) error {
		if !server.IsID(c.ID) {
			entry, err := s.OwnEntry(ctx, c.ID)
			if err != nil {
				return err
			}
			// The newest comes first.
			all, err := s.Gates(ctx, entry.ID, "")
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fault.New(fault.NotFound, "%s has no gate yet; `whetstone gates policy %s --mode enforce` turns them on",
					term.Plain(entry.Name), term.Plain(entry.Name))
			}
			c.ID = all[0].ID
		}
		return do(s)
	})
}

// gateShow shows one gate.
type gateShow struct {
	gateID `embed:""`
}

// Run shows a gate: its verdict, each suite with the cases that differ, and what to do
// next.
func (c *gateShow) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		g, err := s.Gate(ctx, c.ID)
		if err != nil {
			return err
		}
		names, err := suiteNames(ctx, s)
		if err != nil {
			return err
		}
		return p.Print(g, func(w io.Writer) { printGate(w, g, names) })
	})
}

// suiteNames returns the names of all suites by id.
func suiteNames(ctx context.Context, s *server.Session) (map[string]string, error) {
	suites, err := s.EvalSuites(ctx, client.EvalSuiteFilter{})
	names := map[string]string{}
	for _, suite := range suites {
		names[suite.ID] = suite.Name
	}
	return names, err
}

// printGate prints a gate for people. Reasons and names of cases come from other people
// and are stripped of control characters.
func printGate(w io.Writer, g client.Gate, suites map[string]string) {
	fmt.Fprintf(w, "%s against %s: %s\n%s\n", term.Plain(g.Version), term.OrDash(g.Against), gateVerdict(g), term.Cell(g.Reason))
	// Repeating a gate until it passes by chance does not work: attempts are pooled.
	if g.Attempt > 1 {
		fmt.Fprintf(w, "Attempt %d: the trials of all attempts count, also those of %s\n", g.Attempt,
			strings.Join(g.Previous, ", "))
	}
	if g.Override != nil {
		fmt.Fprintf(w, "Overridden: %s\n", term.Cell(g.Override.Reason))
	}
	for _, suite := range g.Suites {
		fmt.Fprintf(w, "\nSuite %s: better on %d, worse on %d of %d cases, %d without a verdict",
			term.Cell(cmp.Or(suites[suite.SuiteID], suite.SuiteID)),
			len(suite.Better), len(suite.Worse), suite.Cases, suite.Errors)
		// Adjusted for the number of suites, which is what the verdict rests on.
		if suite.AdjustedP != nil {
			fmt.Fprintf(w, "; p = %.2g", *suite.AdjustedP)
		}
		fmt.Fprintln(w)
		if suite.Score != nil {
			fmt.Fprintf(w, "Score %s\n", suite.Score.Text())
		}
		if text := suite.Effort.Text(); text != "" {
			fmt.Fprintf(w, "Effort, as a multiple of that of the current version: %s\n", text)
		}
		if text := suite.NoSkillEffort.Text(); text != "" {
			fmt.Fprintf(w, "Effort, as a multiple of that of no skill: %s\n", text)
		}
		// A suite that changed between two gates may explain another verdict.
		for _, change := range suite.Changes {
			fmt.Fprintf(w, "Changed since the last gate: %s, %s: %s\n", term.Cell(change.Who()), change.When(),
				term.Cell(change.What()))
		}
		// A case that looked worse was tried again: these are the counts of the fresh
		// trials.
		for _, r := range suite.Results {
			again := ""
			if r.FreshNew != nil && r.FreshCurrent != nil {
				again = fmt.Sprintf("; again %d of %d, was %d of %d", r.FreshNew.Passed, r.FreshNew.Tried,
					r.FreshCurrent.Passed, r.FreshCurrent.Tried)
			}
			fmt.Fprintf(w, "%s\t%d of %d, was %d of %d%s\n", term.Cell(cmp.Or(r.Name, r.Case)),
				r.New.Passed, r.New.Tried, r.Current.Passed, r.Current.Tried, again)
		}
	}
	// Floors that were met are in --json only.
	for _, f := range g.Floors {
		if !f.Passed {
			fmt.Fprintf(w, "Below the floor %s: %s, wanted %s\n", f.Name, term.Cell(f.Got), term.Cell(f.Want))
		}
	}
	fmt.Fprintf(w, "Cost: %s\n", term.Dollars(g.CostUSD))
	if g.Mode == "enforce" && g.Verdict != nil && *g.Verdict != "pass" && g.Override == nil {
		fmt.Fprintf(w, "\nTo try again: `whetstone gates rerun %s`. To publish all the same: `whetstone gates override %s "+
			"--reason ...`.\n", g.ID, g.ID)
	}
}

// gateRerun repeats a gate.
type gateRerun struct {
	gateID `embed:""`
}

// Run gates the version again, as a new gate with the next attempt number.
func (c *gateRerun) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		g, err := s.RerunGate(ctx, c.ID)
		if err != nil {
			return err
		}
		return p.Print(g, func(w io.Writer) {
			fmt.Fprintf(w, "Gate %s compares %s with %s; `whetstone gates show %s` says how it goes.\n", g.ID,
				term.Plain(g.Version), term.OrDash(g.Against), g.ID)
		})
	})
}

// gateOverride overrides a gate.
type gateOverride struct {
	gateID `embed:""`
	Reason string `env:"-" help:"Reason, for the audit log."`
}

// Run makes the version current despite the verdict of its gate. On a terminal it asks
// for a missing reason, which goes to the audit log. Approvals that the policy demands
// are not overridden, so the output tells what the version still waits for.
func (c *gateOverride) Run(ctx context.Context, p *term.Program) error {
	if c.Reason == "" {
		c.Reason = p.Ask(ctx, "Reason, for the audit log:")
	}
	if c.Reason == "" {
		return fault.Invalid("reason", "say why with --reason")
	}
	return c.with(ctx, p, func(s *server.Session) error {
		g, err := s.OverrideGate(ctx, c.ID, c.Reason)
		if err != nil {
			return err
		}
		// The gate is not the only thing that a version may wait for.
		var still struct {
			WaitsFor *string `json:"waits_for"`
		}
		at := "/api/v1/registry/" + url.PathEscape(g.EntryID) + "/versions/" + url.PathEscape(g.Version) + "/approvals"
		if err := s.Call(ctx, http.MethodGet, at, nil, &still); err != nil {
			return err
		}
		return p.Print(g, func(w io.Writer) {
			if still.WaitsFor != nil {
				fmt.Fprintf(w, "The gate of version %s is overridden. It still waits: %s.\n", term.Plain(g.Version),
					term.Cell(*still.WaitsFor))
				return
			}
			fmt.Fprintf(w, "Version %s is current; installations follow with their next sync.\n", term.Plain(g.Version))
		})
	})
}

// gatePolicy has the fields of a policy. Those without a flag are nil or "", so that
// they stay as they are. SelfApproval and HostReviews are pointers to tell --no-...
// from no flag.
type gatePolicy struct {
	server.Flags   `embed:""`
	Name           string   `arg:"" optional:"" names:"entries" help:"Name or id of an entry; the policy of all entries without one of their own when empty."`
	Mode           string   `env:"-" enum:",off,report,enforce" default:"" placeholder:"MODE" help:"off, report or enforce."`
	Suite          []string `env:"-" placeholder:"SUITE" help:"Suites to run (names or ids); replaces those of the policy."`
	Trials         *int     `env:"-" placeholder:"N" help:"How often to try each case."`
	MinCases       *int     `env:"-" placeholder:"N" help:"Minimum cases for a verdict."`
	OnInconclusive string   `env:"-" enum:",pass,hold" default:"" placeholder:"WHAT" help:"pass or hold."`
	MaxMinutes     *int     `env:"-" placeholder:"N" help:"Time limit, after which the gate is inconclusive."`
	MaxCostUSD     *float64 `env:"-" name:"max-cost-usd" placeholder:"N" help:"Cost limit in US dollars, beyond which the gate is inconclusive."`
	Approvals      *int     `env:"-" placeholder:"N" help:"People who must approve a version, in every mode."`
	SelfApproval   *bool    `env:"-" negatable:"" help:"The approval of the person who published the version counts, or not."`
	HostReviews    *bool    `env:"-" negatable:"" help:"Approving reviews of the merged pull request on the code host count, or not."`
}

// Run shows the policy of an entry, or of all entries without one of their own, and
// changes the fields for which there is a flag.
func (c *gatePolicy) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var entry client.Entry
		var err error
		if c.Name != "" {
			if entry, err = s.OwnEntry(ctx, c.Name); err != nil {
				return err
			}
		}
		policy, err := s.GatePolicy(ctx, entry.ID)
		if err != nil {
			return err
		}
		// Replace names with ids in place; change copies the slice into the policy.
		for i := range c.Suite {
			if c.Suite[i], err = s.SuiteID(ctx, c.Suite[i]); err != nil {
				return err
			}
		}
		if c.change(&policy) {
			// The whole policy is sent, as it was read a moment ago.
			if policy, err = s.SetGatePolicy(ctx, entry.ID, policy); err != nil {
				return err
			}
		}
		names, err := suiteNames(ctx, s)
		if err != nil {
			return err
		}
		suites := make([]string, len(policy.Suites))
		for i, id := range policy.Suites {
			suites[i] = term.Cell(cmp.Or(names[id], id))
		}
		return p.Print(policy, func(w io.Writer) {
			cost, own := "no limit", ""
			if policy.SelfApproval {
				own = ", one's own counts"
			}
			if policy.HostReviews {
				own += ", reviews on the code host count"
			}
			if policy.MaxCostUSD != nil {
				cost = term.Dollars(policy.MaxCostUSD)
			}
			fmt.Fprintf(w, "Mode\t%s\nSuites\t%s\nTrials\t%d\nMin cases\t%d\nOn inconclusive\t%s\nMax minutes\t%d\nMax "+
				"cost\t%s\nFloors\t%s\nApprovals\t%d%s\n",
				policy.Mode, cmp.Or(strings.Join(suites, ", "), "those of the skill's sources"), policy.Trials, policy.MinCases, policy.OnInconclusive,
				policy.MaxMinutes, cost, floorsText(policy.Floors), policy.Approvals, own)
		})
	})
}

// floorsText lists the floors of a policy, e.g. "pass_rate 0.9, validation pass".
func floorsText(raw json.RawMessage) string {
	floors, all := map[string]any{}, []string{}
	if err := json.Unmarshal(raw, &floors); err != nil || len(floors) == 0 {
		return "none"
	}
	for _, name := range slices.Sorted(maps.Keys(floors)) {
		if floors[name] != nil {
			all = append(all, term.Cell(fmt.Sprintf("%s %v", name, floors[name])))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// change applies the flags to p, and reports whether there are any: without, the
// command must not write, as that would turn an inherited policy into one of the
// entry's own. MaxCostUSD can be set but not removed by a flag; the page can do
// both.
func (c *gatePolicy) change(p *client.GatePolicy) (changed bool) {
	for field, given := range map[*string]string{&p.Mode: c.Mode, &p.OnInconclusive: c.OnInconclusive} {
		if given != "" {
			*field, changed = given, true
		}
	}
	for field, given := range map[*int]*int{
		&p.Trials: c.Trials, &p.MinCases: c.MinCases, &p.MaxMinutes: c.MaxMinutes,
		&p.Approvals: c.Approvals,
	} {
		if given != nil {
			*field, changed = *given, true
		}
	}
	if c.SelfApproval != nil {
		p.SelfApproval, changed = *c.SelfApproval, true
	}
	if c.HostReviews != nil {
		p.HostReviews, changed = *c.HostReviews, true
	}
	if len(c.Suite) > 0 {
		p.Suites, changed = c.Suite, true
	}
	if c.MaxCostUSD != nil {
		p.MaxCostUSD, changed = c.MaxCostUSD, true
	}
	return changed
}

// gateCommand has the flags of `whetstone gate`.
type gateCommand struct {
	server.Flags `embed:""`
	Dir          string   `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Against      string   `env:"-" default:"current" help:"Version to compare with."`
	Entry        string   `env:"-" placeholder:"NAME" help:"Entry of the registry; the name in SKILL.md when empty."`
	Suite        []string `env:"-" help:"Suites to run (names or ids); those of the entry's gate policy when empty."`
	Trials       *int     `env:"-" placeholder:"N" help:"How often to try each case; as the gate policy says when empty."`
	MinCases     *int     `env:"-" placeholder:"N" help:"Minimum cases for a verdict; as the gate policy says when empty."`
	Format       string   `env:"-" enum:"markdown,json,junit,sarif" default:"markdown" help:"markdown, json (also --json), junit or sarif."`
	Output       string   `env:"-" short:"o" placeholder:"FILE" help:"File to write; standard output when empty."`
}

// Help is shown below the description of the command.
func (gateCommand) Help() string {
	return `The server makes the same decision as after a push, and publishes nothing.

Exit codes: 0 the version is not worse; 1 it is worse (or the command failed); 3 inconclusive.`
}

// Run gates the skill in a folder: is it worse than a version of the registry? Nothing
// is published. Ctrl-C leaves the gate on the server.
func (c *gateCommand) Run(ctx context.Context, p *term.Program) error {
	// Only a file may have another format than the JSON that --json promises.
	if p.JSON && (c.Format == "markdown" || c.Output == "") {
		c.Format = "json"
	}
	packed, err := server.PackFolder(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer packed.Close()
	// The name in SKILL.md is that of the entry, unless it was renamed.
	if c.Entry == "" {
		skill, err := packed.Package.Skill()
		if err != nil {
			return err
		}
		c.Entry = skill.Name
	}
	return c.WithSession(p, func(s *server.Session) error {
		o := gateQuestion{Archive: packed.Archive, Trials: c.Trials, MinCases: c.MinCases}
		entry, err := s.EntryByName(ctx, c.Entry)
		if err != nil {
			return err
		}
		o.Entry = entry.Entry
		if c.Against != "current" {
			o.Against = c.Against
		}
		for _, name := range c.Suite {
			id, err := s.SuiteID(ctx, name)
			if err != nil {
				return err
			}
			o.Suites = append(o.Suites, id)
		}
		// Drawn only on a terminal; in a job's log the verdict is all there is.
		progress := p.Progress()
		o.Progress = func(state string) { progress.Show("The gate is %s", state) }
		gate, err := compareFolder(ctx, s.Client, o)
		progress.Clear()
		if err != nil && ctx.Err() != nil && gate.ID != "" {
			return p.Interrupted("the gate goes on; `whetstone gates show %s` shows its verdict", gate.ID)
		}
		if err != nil {
			return err
		}
		// Nothing was compared, so the exit code 0 would mislead a pipeline.
		if gate.Verdict != nil && *gate.Verdict == "skipped" {
			return fault.Invalid("suite", "name a suite with --suite: the gate policy of %s has none", entry.Name)
		}
		err = c.write(p, func(w io.Writer) error {
			return writeGate(w, gate, c.Format, path.Clean(filepath.ToSlash(c.Dir)), packed.Package)
		})
		if err != nil {
			return err
		}
		// A gate without a verdict was superseded or cancelled.
		switch {
		case gate.Verdict == nil || *gate.Verdict == "inconclusive":
			return term.ExitCode(term.ExitInconclusive)
		case *gate.Verdict == "block":
			return term.ErrPrinted
		}
		return nil
	})
}

// write calls fn with standard output, or with the file of --output. The file is
// made only after the verdict, so that a failure leaves an old one as it is.
func (c *gateCommand) write(p *term.Program, fn func(io.Writer) error) error {
	if c.Output == "" {
		return fn(p.Stdout)
	}
	f, err := os.Create(c.Output)
	if err != nil {
		return fault.Invalid("output", "output: %s", err)
	}
	if err := fn(f); err != nil {
		return err
	}
	return f.Close()
}
