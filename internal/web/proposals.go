package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// proposalsView is a page of the list of proposals.
type proposalsView struct {
	Size
	Proposals []proposals.Proposal
	Statuses  []proposals.Status
	Filtered  bool
}

const proposalsShown = 25

var proposalStatuses = []proposals.Status{proposals.Pending, proposals.Approved, proposals.Applied, proposals.Rejected}

// handleProposals lists proposals. An unknown status in the address is ignored, as
// for other filters of pages.
func (s *Service) handleProposals(v *visit) (answer, error) {
	q := v.URL.Query()
	f := proposals.Filter{
		SkillName: q.Get("skill"), Hidden: q.Get("hidden") == "true", Page: v.list.Rows(proposalsShown),
	}
	if status := proposals.Status(q.Get("status")); slices.Contains(proposalStatuses, status) {
		f.Status = status
	}
	found, total, err := s.Proposals.List(v.Context(), v.Caller.OrgID, f)
	view := proposalsView{
		Size: Size{Total: total, PerPage: proposalsShown}, Proposals: found, Statuses: proposalStatuses,
		Filtered: f.Status != "" || f.SkillName != "" || f.Hidden,
	}
	return show("proposals", "Proposals", view), err
}

// proposalView is one proposal with its evidence.
type proposalView struct {
	proposals.Proposal
	Changes    diff // of SKILL.md, or of the two texts where that is not known; empty if nothing is proposed yet
	Connected  bool // a repository that takes pull requests is connected to the entry
	Facts      []fact
	Reviewer   string
	ImproveRun string     // id of the run that proposed it; "" if none did or it was deleted
	SuiteID    string     // of the cases; "" if there is none
	Typed      string     // the text that was typed, if it was refused
	Gate       gates.Mode // of the entry; "" if the skill is not in the registry
	GateID     string     // of the version that it became; "" without one
}

// UnderWay reports whether it is being applied, or is.
func (v proposalView) UnderWay() bool { return v.Outcome != nil && v.Outcome.State.UnderWay() }

// Gated says what becomes of a version that is made of the proposal.
func (v proposalView) Gated() string {
	switch v.Gate {
	case gates.Enforce:
		return "The new version waits until its gate passes."
	case gates.Report:
		return "The new version becomes current at once, unless it needs approvals. Its gate warns you if it looks worse."
	case gates.Off:
		return "The new version becomes current at once, unless it needs approvals: this skill has no gate."
	}
	return "This skill isn't in the registry. Push it first, or download the patch for git apply."
}

// Value is what the text area begins with. What was typed comes first, so that a
// refused form loses nothing.
func (v proposalView) Value() string {
	for _, value := range []*string{&v.Typed, v.ProposedValue, v.CurrentValue} {
		if value != nil && *value != "" {
			return *value
		}
	}
	return ""
}

// Open reports whether a person can still write and decide.
func (v proposalView) Open() bool {
	return v.Status == proposals.Pending || v.Status == proposals.Approved
}

// ProofShown is the proof, if there is one. The template calls it only if Proof is
// set.
func (v proposalView) ProofShown() proof {
	return proof{Proof: *v.Proof, Proved: v.Proved}
}

func (s *Service) handleProposal(v *visit) (answer, error) {
	view, err := s.proposalView(v)
	return show("proposal", "Proposal for "+view.SkillName, view), err
}

// proposalView reads the proposal of the path. Everything that it links to may be
// deleted by now; such links are left out.
func (s *Service) proposalView(v *visit) (view proposalView, err error) {
	if view.Proposal, err = s.Proposals.Get(v.Context(), v.Caller.OrgID, v.PathValue("id")); err != nil {
		return view, err
	}
	view.Facts = factsOf(view.Evidence)
	switch {
	case view.Diff != "":
		view.Changes = newDiff(view.Diff)
	case view.ProposedValue != nil:
		before := ""
		if view.CurrentValue != nil {
			before = *view.CurrentValue
		}
		view.Changes = diffOfTexts(string(view.Type), before, *view.ProposedValue)
	}
	view.Changes.Command = "whetstone proposal show " + view.ID
	if view.EntryID != "" {
		policy, _, err := s.Gates.PolicyOf(v.Context(), v.Caller.OrgID, view.EntryID)
		if err != nil && !fault.Is(err, fault.NotFound) { // the entry may be deleted
			return view, err
		}
		view.Gate = policy.Mode
		connections, _, err := s.Repohost.Connections(v.Context(), v.Caller.OrgID)
		if err != nil {
			return view, err
		}
		view.Connected = slices.ContainsFunc(connections, func(c repohost.Connection) bool {
			return c.EntryID == view.EntryID && c.WriteBackEnabled
		})
	}
	if o := view.Outcome; o != nil && o.EntryID != "" && o.Version != "" {
		_, made, err := s.Registry.Version(v.Context(), v.Caller.OrgID, o.EntryID, o.Version)
		if err != nil && !fault.Is(err, fault.NotFound) { // the entry may be deleted
			return view, err
		}
		if made.GateID != nil {
			view.GateID = *made.GateID
		}
	}
	if view.ReviewedBy != nil {
		names, err := s.userNames(v)
		if err != nil {
			return view, err
		}
		view.Reviewer = names[*view.ReviewedBy]
	}
	if view.ImproveRun, view.SuiteID, err = s.improveRunOf(v, view.Proposal); view.ImproveRun == "" {
		for i := range view.Facts {
			view.Facts[i].URL = "" // it is gone, and its suite with it
		}
	}
	return view, err
}

// improveRunOf returns the ids of the improve run that made a proposal and of its
// suite; "" if there is none, or if it was deleted with its suite.
func (s *Service) improveRunOf(v *visit, p proposals.Proposal) (runID, suiteID string, err error) {
	var evidence struct {
		ImproveRunID string `json:"improve_run_id"`
	}
	_ = json.Unmarshal(p.Evidence, &evidence) // evidence of another shape names no run
	if evidence.ImproveRunID == "" {
		return "", "", nil
	}
	r, err := s.Improve.Get(v.Context(), v.Caller.OrgID, evidence.ImproveRunID)
	if fault.Is(err, fault.NotFound) {
		return "", "", nil
	}
	return r.ID, r.SuiteID, err
}

// moves maps the buttons of a proposal to the status they set. Pending is missing: a
// decision is undone by another one.
var moves = map[string]proposals.Status{
	"approve": proposals.Approved, "reject": proposals.Rejected,
	"applied": proposals.Applied,
}

// handleChangeProposal decides about a proposal, or writes what it proposes.
func (s *Service) handleChangeProposal(v *visit) (answer, error) {
	done, problem := s.changeProposal(v, v.FormValue("decision"))
	if problem == nil {
		return redirect(pathTo("proposals", v.PathValue("id")), done), nil
	}
	view, err := s.proposalView(v)
	if err != nil {
		return answer{}, err
	}
	view.Typed = v.FormValue("value")
	return show("proposal", "Proposal for "+view.SkillName, view).refused(problem)
}

// changeProposal does what the button says, and returns the message for the page.
func (s *Service) changeProposal(v *visit, decision string) (done string, err error) {
	id := v.PathValue("id")
	switch decision {
	case "write":
		// Browsers send the lines of a text area with CRLF.
		value := strings.ReplaceAll(v.FormValue("value"), "\r\n", "\n")
		_, err = s.Proposals.Patch(v.Context(), v.Caller, id, proposals.Patch{Value: &value})
		return "The text is saved.", err
	case "refresh":
		_, err = s.Proposals.Refresh(v.Context(), v.Caller, id)
		return "The proposal was redone for the current text.", err
	}
	to, ok := moves[decision]
	if !ok {
		return "", fault.Invalid("decision", "The decision must be approve, reject, applied, write or refresh")
	}
	p, err := s.Proposals.Move(v.Context(), v.Caller, id, to)
	return fmt.Sprintf("The proposal is %s.", p.Status), err
}

// handleApplyProposal applies a proposal: as a version or a pull request it comes back
// to the page, as a patch it is a file.
func (s *Service) handleApplyProposal(v *visit) (answer, error) {
	way := proposals.Way(v.FormValue("as"))
	if !slices.Contains([]proposals.Way{proposals.AsVersion, proposals.AsPullRequest, proposals.AsPatch}, way) {
		return answer{}, fault.Invalid("as", "A proposal is applied as version, pull_request or patch")
	}
	p, patch, problem := s.Apply.Apply(v.Context(), v.Caller, v.PathValue("id"), way)
	switch {
	case problem != nil:
		view, err := s.proposalView(v)
		if err != nil {
			return answer{}, err
		}
		return show("proposal", "Proposal for "+view.SkillName, view).refused(problem)
	// A patch changes nothing here, so it needs no redirect.
	case way == proposals.AsPatch:
		return raw(func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "text/x-diff; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="proposal-`+p.ID+`.patch"`)
			_, err := io.WriteString(w, patch)
			return err
		}), nil
	}
	return redirect(pathTo("proposals", p.ID), "The proposal is being applied."), nil
}
