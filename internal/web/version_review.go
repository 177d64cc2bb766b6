package web

import (
	"net/url"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
)

// versionReviewView is the page on which people decide about a candidate.
type versionReviewView struct {
	candidateReview
	Diff    diff
	Figures []shownVersion // of the current version and of this one
}

// versionReview reads the page: the decision, what it rests on, and what would
// change.
func (s *Service) versionReview(v *visit) (view versionReviewView, err error) {
	if view.candidateReview, err = s.reviewOf(v.Context(), v.Caller, v.PathValue("id"), v.PathValue("version")); err != nil {
		return view, err
	}
	versions, _, err := s.releases(v.Context(), view.Entry, true)
	if err != nil {
		return view, err
	}
	view.Figures = compared(versions, view.From, view.Version.Version)
	text, err := s.Registry.Diff(v.Context(), view.Version, view.From)
	view.Diff = newDiff(string(text))
	view.Diff.URL = pathTo("registry", view.Entry.ID, "versions", view.Version.Version, "diff") + "?" +
		url.Values{"from": {view.From}}.Encode()
	return view, err
}

func (s *Service) handleVersionReview(v *visit) (answer, error) {
	view, err := s.versionReview(v)
	return show("version_review", "Review of "+view.Entry.Name+" "+view.Version.Version, view), err
}

// handleAnswerVersion approves, rejects or comments. Who may is decided by
// approvals.
func (s *Service) handleAnswerVersion(v *visit) (answer, error) {
	var r approvals.Review
	var err error
	comment := v.FormValue("comment")
	if d := approvals.Decision(v.FormValue("decision")); d == approvals.Comment {
		r, err = s.Approvals.AddComment(v.Context(), v.Caller, v.PathValue("id"), v.PathValue("version"), comment)
	} else {
		r, err = s.Approvals.Answer(v.Context(), v.Caller, v.PathValue("id"), v.PathValue("version"), d, comment)
	}
	return s.reviewed(v, r, err)
}

// handleOverrideApprovals publishes without the approvals, with a reason for the
// record.
func (s *Service) handleOverrideApprovals(v *visit) (answer, error) {
	r, err := s.Approvals.Override(v.Context(), v.Caller, v.PathValue("id"), v.PathValue("version"), v.FormValue("reason"))
	return s.reviewed(v, r, err)
}

// reviewed shows what became of the version, or the page again with the problem of a
// form on it.
func (s *Service) reviewed(v *visit, r approvals.Review, problem error) (answer, error) {
	if problem == nil {
		said := "Version " + r.Version.Version + " is current."
		if r.Version.State == registry.Candidate {
			said = "Saved. Version " + r.Version.Version + " waits: " + r.Waits + "."
		}
		return redirect(pathTo("registry", r.Entry.ID, "versions", r.Version.Version, "review"), said), nil
	}
	view, err := s.versionReview(v)
	if err != nil {
		return answer{}, err
	}
	view.Comment, view.Reason = v.FormValue("comment"), v.FormValue("reason")
	return show("version_review", "Review of "+view.Entry.Name+" "+view.Version.Version, view).refused(problem)
}
