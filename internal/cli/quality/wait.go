package quality

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// An Outcome is what became of a candidate.
type Outcome string

// The outcomes.
const (
	Current      Outcome = "current"
	Blocked      Outcome = "blocked"      // by its gate
	Rejected     Outcome = "rejected"     // by a person
	Withdrawn    Outcome = "withdrawn"    // by a person
	Inconclusive Outcome = "inconclusive" // its gate had not enough evidence
	Waiting      Outcome = "waiting"      // still, when the time was over
)

// Code is the error that ends a command with the exit code of the outcome.
func (o Outcome) Code() error {
	switch o {
	case Current:
		return nil
	case Inconclusive:
		return term.ExitCode(term.ExitInconclusive)
	case Waiting:
		return term.ExitCode(term.ExitOutdated)
	case Blocked, Rejected, Withdrawn:
	}
	return term.ErrPrinted
}

// A Candidate is a version that is to be waited for.
type Candidate struct {
	EntryID, Name, Version string
	Most                   time.Duration // how long to wait
}

// waitPoll is how often the server is asked.
const waitPoll = 2 * time.Second

// Wait waits until a candidate is current, or will not be by itself, and says why.
func Wait(ctx context.Context, p *term.Program, s *server.Session, c Candidate) (o Outcome, why string, err error) {
	progress := p.Progress()
	defer progress.Clear()
	over := time.Now().Add(c.Most)
	for {
		if o, why, err = lookOnce(ctx, s, c); err != nil || o != Waiting || time.Now().After(over) {
			return o, why, err
		}
		progress.Show("%s %s waits: %s", term.Plain(c.Name), term.Plain(c.Version), term.Cell(why))
		select {
		case <-ctx.Done():
			return Waiting, why, ctx.Err()
		case <-time.After(waitPoll):
		}
	}
}

// lookOnce reads the gate first: its verdict and what becomes of the version are stored
// together.
func lookOnce(ctx context.Context, s *server.Session, c Candidate) (Outcome, string, error) {
	gates, err := s.Gates(ctx, c.EntryID, "")
	if err != nil {
		return Waiting, "", err
	}
	var r versionReview
	if err := s.Call(ctx, http.MethodGet, approvalsPath(c.EntryID, c.Version), nil, &r); err != nil {
		return Waiting, "", err
	}
	switch r.State {
	case "published":
		return Current, "", nil
	case "withdrawn":
		return Withdrawn, "it was withdrawn", nil
	}
	if r.Rejected > 0 {
		return Rejected, rejectionText(r), nil
	}
	for _, g := range gates {
		if g.Version == c.Version { // the newest
			if o, ended := verdictOf(g); ended {
				return o, g.Reason, nil
			}
			break
		}
	}
	if r.WaitsFor != nil {
		return Waiting, *r.WaitsFor, nil
	}
	return Waiting, fmt.Sprintf("approvals: %d of %d", r.Given, r.Needed), nil
}

// verdictOf is the end that a gate makes of waiting: without an override, which people
// decide on, the version stays a candidate.
func verdictOf(g client.Gate) (Outcome, bool) {
	switch {
	case g.Verdict == nil || g.Override != nil || g.Mode != "enforce":
		return Waiting, false
	case *g.Verdict == "block":
		return Blocked, true
	case *g.Verdict == "inconclusive":
		return Inconclusive, true
	}
	return Waiting, false
}

func rejectionText(r versionReview) string {
	for _, a := range r.Approvals {
		if a.Decision == "reject" && a.Counts {
			text := a.Name + " rejected it"
			if a.Comment != nil && *a.Comment != "" {
				text += ": " + *a.Comment
			}
			return text
		}
	}
	return "it was rejected"
}
