package quality

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// printReview prints the state and what the version waits for. The output is the same for
// every command about approvals.
func printReview(w io.Writer, r api.VersionReview, name string) {
	state := term.Plain(r.State)
	if state == "candidate" {
		state = "a candidate"
	}
	fmt.Fprintf(w, "Version %s of %s is %s; approvals: %d of %d.\n", term.Plain(r.Version), term.Plain(name), state, r.Given,
		r.Needed)
	if r.WaitsFor != nil {
		fmt.Fprintf(w, "It waits: %s.\n", term.Cell(*r.WaitsFor))
	}
}

// approvalsPath returns the path of a version's approvals.
func approvalsPath(entryID, version string) string {
	return "/api/v1/registry/" + url.PathEscape(entryID) + "/versions/" + url.PathEscape(version) + "/approvals"
}

// approveCommand decides on a candidate. Without a flag it approves.
type approveCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry."`
	Version      string `arg:"" help:"The candidate."`
	Reject       bool   `env:"-" help:"Reject it: it does not become current until you approve it."`
	Override     bool   `env:"-" help:"Make it current without the approvals that it lacks; needs --comment as the reason."`
	Comment      string `env:"-" help:"Comment for the other reviewers."`
}

// Run approves the candidate, rejects it, or with --override makes it current without
// the missing approvals. The server decides who may.
func (c *approveCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Reject && c.Override {
		return fault.Invalid("override", "give --reject or --override, not both")
	}
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		// An override has another path and other fields: it is no answer of a
		// reviewer.
		at, body := approvalsPath(entry.ID, c.Version), map[string]string{"decision": "approve", "comment": c.Comment}
		switch {
		case c.Reject:
			body["decision"] = "reject"
		case c.Override:
			at, body = at+"/override", map[string]string{"reason": c.Comment}
		}
		var r api.VersionReview
		if err := s.Call(ctx, http.MethodPost, at, body, &r); err != nil {
			return err
		}
		return p.Print(r, func(w io.Writer) { printReview(w, r, entry.Name) })
	})
}

// approvalsCommand shows approvals.
type approvalsCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" optional:"" names:"entries" help:"Name or id of the entry; what waits for your approval when empty."`
	Version      string `arg:"" optional:"" help:"The version."`
}

// Run shows the approvals of a version, or without arguments the candidates that wait
// for the caller's.
func (c *approvalsCommand) Run(ctx context.Context, p *term.Program) error {
	if c.Name != "" && c.Version == "" {
		return fault.Invalid("version", "name a version, too: `whetstone approvals %s VERSION`", c.Name)
	}
	return c.WithSession(p, func(s *server.Session) error {
		if c.Name == "" {
			return printWaiting(ctx, p, s)
		}
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		var r api.VersionReview
		if err := s.Call(ctx, http.MethodGet, approvalsPath(entry.ID, c.Version), nil, &r); err != nil {
			return err
		}
		return p.Print(r, func(w io.Writer) {
			printReview(w, r, entry.Name)
			for _, a := range r.Approvals {
				fmt.Fprintf(w, "%s\t%s\t%s\n", term.Cell(a.Name), decisionText(a), term.Minute(a.CreatedAt))
			}
			for _, a := range r.Conversation {
				fmt.Fprintf(w, "%s: %s\n", term.Cell(a.Name), term.Cell(*a.Comment))
			}
			if r.PullRequest != nil {
				printPull(w, *r.PullRequest)
			}
			if r.State == "candidate" && r.Needed > 0 {
				fmt.Fprintf(w, "To approve it: `whetstone approve %s %s`; with --reject to reject it.\n",
					term.Plain(entry.Name), term.Plain(r.Version))
			}
		})
	})
}

// decisionText formats a decision, e.g. "approved in acme/skills#12 (URL)" for a review
// on the code host. An unknown decision of a newer server is "".
func decisionText(a api.Approval) string {
	text := map[string]string{"approve": "approved", "reject": "rejected"}[a.Decision]
	if !a.Counts {
		text += ", does not count any more"
	}
	if a.Review != nil {
		text += fmt.Sprintf(" in %s#%d (%s)", term.Cell(a.Review.Repository), a.Review.Number, term.Cell(a.Review.URL))
	}
	return text
}

// printPull prints which reviews do not count, and why.
func printPull(w io.Writer, p api.PullFound) {
	if p.Problem != "" {
		fmt.Fprintf(w, "No review of pull request #%d counts: %s. %s\n", p.Number, term.Cell(p.Problem), term.Cell(p.URL))
		return
	}
	for _, i := range p.Ignored {
		fmt.Fprintf(w, "The review of %s in pull request #%d does not count: the account %s.\n", term.Cell(i.Login), p.Number,
			term.Cell(i.Reason))
	}
}

// printWaiting prints the candidates that wait for the caller.
func printWaiting(ctx context.Context, p *term.Program, s *server.Session) error {
	var out struct {
		Waiting []api.WaitingCandidate `json:"waiting"`
	}
	if err := s.Call(ctx, http.MethodGet, "/api/v1/approvals", nil, &out); err != nil {
		return err
	}
	return term.List[api.WaitingCandidate]{
		None: "Nothing waits for your approval.",
		Head: "SKILL\tVERSION\tCURRENT\tAPPROVALS\tPUSHED",
		Row: func(c api.WaitingCandidate) []any {
			return []any{
				term.Cell(c.Name), term.Plain(c.Version), term.OrDash(c.Current),
				fmt.Sprintf("%d of %d", c.Given, c.Needed), term.Minute(c.PushedAt),
			}
		},
	}.Print(p, out.Waiting)
}
