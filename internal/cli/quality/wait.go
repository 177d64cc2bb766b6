package quality

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// An Outcome is what became of a candidate. Its values are part of the output of
// --json.
type Outcome string

// The outcomes of Wait.
const (
	Current      Outcome = "current"      // the candidate is the current version
	Blocked      Outcome = "blocked"      // its gate blocked it
	Rejected     Outcome = "rejected"     // a person rejected it
	Withdrawn    Outcome = "withdrawn"    // a person withdrew it
	Inconclusive Outcome = "inconclusive" // its gate had too little evidence
	Waiting      Outcome = "waiting"      // still a candidate when the time was over
)

// Code returns the error that ends a command with the exit code of the outcome, nil for
// Current.
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

// A Candidate is a version to wait for.
type Candidate struct {
	EntryID, Name, Version string
	Most                   time.Duration // maximum time to wait
}

// waitPoll is how often the server is asked. Gates and approvals take minutes to hours.
const waitPoll = 2 * time.Second

// Wait waits until a candidate is current, or until only a person could still make it
// so, and returns the reason. After c.Most the outcome is Waiting, which is not an
// error.
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

// lookOnce asks the server once for the state of a candidate. It reads the gate before
// the version: a verdict and what becomes of the version are stored together, so a
// version that is read later cannot be older than the verdict.
func lookOnce(ctx context.Context, s *server.Session, c Candidate) (Outcome, string, error) {
	gates, err := s.Gates(ctx, c.EntryID, "")
	if err != nil {
		return Waiting, "", err
	}
	var r api.VersionReview
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
	// The list is newest first, and only the newest gate of the version counts.
	for _, g := range gates {
		if g.Version == c.Version {
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

// verdictOf returns the outcome if the gate ends the wait: without an override, which
// is a person's decision, the version stays a candidate.
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

// rejectionText formats who rejected the version, and why.
func rejectionText(r api.VersionReview) string {
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
