package quality

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// proposalCommands are the commands `whetstone proposal`.
type proposalCommands struct {
	List    proposalList    `cmd:"" help:"List proposals, newest first."`
	Show    proposalShow    `cmd:"" help:"Show a proposal: its change, its reasons and its proof."`
	Apply   proposalApply   `cmd:"" help:"Apply a proposal as a version, a pull request or a patch."`
	Approve proposalApprove `cmd:"" help:"Approve a proposal without applying it."`
	Reject  proposalReject  `cmd:"" help:"Reject a proposal."`
}

// proposalList has the filters of the list.
type proposalList struct {
	server.Flags `embed:""`
	Skill        string `env:"-" placeholder:"NAME" help:"Only of this skill."`
	Status       string `env:"-" enum:",pending,approved,rejected,applied" default:"" placeholder:"STATUS" help:"pending, approved, rejected or applied; all when empty."`
}

// Run lists proposals, newest first.
func (c *proposalList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		all, err := s.Proposals(ctx, client.ProposalFilter{Status: c.Status, SkillName: c.Skill})
		if err != nil {
			return err
		}
		return term.List[api.Proposal]{
			None: "No proposals.",
			Head: "ID\tSKILL\tCHANGES\tSTATUS\tPROVED\tCREATED\tWHY",
			Row: func(a api.Proposal) []any {
				return []any{
					a.ID, term.Cell(a.SkillName), proposalChanges(a), proposalStatus(a), term.YesNo(a.Proved),
					term.Day(&a.CreatedAt), term.Cell(a.Reason),
				}
			},
		}.Print(p, all)
	})
}

// proposalChanges returns the part of the skill that a proposal changes, e.g.
// "description". An older server sends only the type.
func proposalChanges(a api.Proposal) string {
	if a.Target == "" {
		return a.Type
	}
	return a.Target
}

// proposalStatus formats the status with what became of the proposal, e.g. "applied:
// published". A stale one was made for another version than the current one.
func proposalStatus(a api.Proposal) string {
	switch {
	case a.Outcome != nil:
		return a.Status + ": " + a.Outcome.State
	case a.Stale:
		return a.Status + ", stale"
	}
	return a.Status
}

// proposalID is the argument of the commands about one proposal: its id, or its skill.
type proposalID struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"proposal" names:"skills" help:"Id of the proposal, or the skill of the newest pending one."`
}

// with resolves a skill to the id of its newest pending proposal, and calls do.
func (c *proposalID) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) error {
		if !server.IsID(c.ID) {
			all, err := s.Proposals(ctx, client.ProposalFilter{Status: "pending", SkillName: c.ID})
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fault.New(fault.NotFound,
					"No pending proposal is about a skill named %s; `whetstone proposal list` lists all", term.Plain(c.ID))
			}
			c.ID = all[0].ID
		}
		return do(s)
	})
}

// proposalShow shows one proposal.
type proposalShow struct {
	proposalID `embed:""`
}

// Run shows a proposal: its diff, the reason of each edit, and its proof.
func (c *proposalShow) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		a, err := s.Proposal(ctx, c.ID)
		if err != nil {
			return err
		}
		return p.Print(a, func(w io.Writer) { printProposal(w, a, p.Colour()) })
	})
}

// printProposal prints a proposal for people.
func printProposal(w io.Writer, a api.Proposal, colour bool) {
	fmt.Fprintf(w, "%s: change the %s (%s)\n%s\n", term.Plain(a.SkillName), proposalChanges(a), proposalStatus(a),
		term.Plain(a.Reason))
	if a.Stale {
		fmt.Fprintf(w, "Stale: %s\n", term.OrDash(a.StaleReason))
	}
	fmt.Fprintf(w, "Made for\t%s\n", term.OrDash(a.BaseVersion))
	switch {
	case a.Proof == nil:
		fmt.Fprintln(w, "Proof\tnone: nothing was tried")
	case a.Proved:
		fmt.Fprintf(w, "Proof\t%s\n", proofText(*a.Proof))
	default:
		fmt.Fprintf(w, "Not proved\t%s\n", proofText(*a.Proof))
	}
	if o := a.Outcome; o != nil {
		printProposalOutcome(w, a, *o)
	}
	for i, e := range a.Edits {
		fmt.Fprintf(w, "Edit %d\t%s\n", i+1, term.Plain(e.Why))
		if len(e.Cases) > 0 {
			fmt.Fprintf(w, "\tfor %s: %s\n", term.Count(len(e.Cases), "case"), term.Plain(strings.Join(e.Cases, ", ")))
		}
	}
	fmt.Fprintln(w)
	// An older proposal has values instead of a diff, and one without a text waits for
	// a person to write it.
	switch {
	case a.Diff != nil:
		term.PrintDiff(w, *a.Diff, colour)
	case a.ProposedValue != nil:
		fmt.Fprintf(w, "Now\t%s\nProposed\t%s\n", term.OrDash(a.CurrentValue), term.Plain(*a.ProposedValue))
	default:
		fmt.Fprintln(w, "It has no text yet: a person has to write it, on its page or with PATCH proposed_value.")
	}
	if a.Status == "pending" && a.ProposedValue != nil && !a.Stale {
		fmt.Fprintf(w, "\n`whetstone proposal apply %s` publishes it; `whetstone proposal reject %s` drops it.\n", a.ID, a.ID)
	}
}

// printProposalOutcome prints how a proposal was applied, and the pass rate that was
// promised against the one that was observed since.
func printProposalOutcome(w io.Writer, a api.Proposal, o api.ProposalOutcome) {
	fmt.Fprintf(w, "Applied\tas a %s: %s\n", strings.ReplaceAll(o.Kind, "_", " "), o.State)
	for _, row := range []struct {
		name  string
		value *string
	}{{"", o.Message}, {"Version", o.Version}, {"URL", o.URL}, {"Branch", o.Branch}} {
		if row.value != nil {
			fmt.Fprintf(w, "%s\t%s\n", row.name, term.Plain(*row.value))
		}
	}
	if o.ObservedPassRate != nil {
		fmt.Fprintf(w, "Observed\t%s of the sessions pass; %s were promised\n", term.Percent(o.ObservedPassRate),
			term.Percent(a.ProjectedPassRate))
	}
}

// proposalApprove approves a proposal.
type proposalApprove struct {
	proposalID `embed:""`
}

// Run approves a proposal. It changes no skill: `proposal apply` does.
func (c *proposalApprove) Run(ctx context.Context, p *term.Program) error {
	return c.decide(ctx, p, "approved")
}

// proposalReject rejects a proposal.
type proposalReject struct {
	proposalID `embed:""`
}

// Run rejects a proposal.
func (c *proposalReject) Run(ctx context.Context, p *term.Program) error {
	return c.decide(ctx, p, "rejected")
}

// decide sets the status of the proposal to approved or rejected.
func (c *proposalID) decide(ctx context.Context, p *term.Program, status string) error {
	return c.with(ctx, p, func(s *server.Session) error {
		a, err := s.ChangeProposal(ctx, c.ID, api.ProposalChange{Status: &status})
		if err != nil {
			return err
		}
		return p.Print(a, func(w io.Writer) {
			fmt.Fprintf(w, "The proposal for %s is %s.\n", term.Plain(a.SkillName), a.Status)
			if status == "approved" {
				fmt.Fprintf(w, "Nothing has changed yet: `whetstone proposal apply %s` does it.\n", a.ID)
			}
		})
	})
}
