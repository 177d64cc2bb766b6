package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// reviewView is the queue of suggestions with the one to review now. The position is
// in the address, so that a person can go back and forth.
type reviewView struct {
	Waiting []overview.Waiting  // of all sources, by label
	Source  string              // id of the source to which the queue is limited, or ""
	Label   string              // of Source
	Total   int                 // length of the queue
	At      int                 // position in the queue, from 0
	Item    *reviewItem         // nil if the queue is empty
	Last    []overview.Decision // what can be undone: one decision, or several that were made together
	Sources int                 // of the organisation
}

// A reviewItem is a suggestion with what is needed to decide on it.
type reviewItem struct {
	suggestions.Suggestion
	SourceID, Label string
	Suites          []suites.Suite // that can take it
	// Case is the suggestion as JSON, for the form. The decision is about what the
	// person saw: a job may have derived the suggestion anew since then.
	Case string
}

const (
	// undoTime is how long a decision can be undone on this page.
	undoTime = time.Hour
	// pendingPage is how many suggestions are read to find one to show.
	pendingPage = 10
	// undoSearch limits the search for the position of an undone suggestion.
	undoSearch = 200
	// suitesOffered limits the suites that a suggestion can be added to.
	suitesOffered = 100
)

func (s *Service) handleReview(v *visit) (answer, error) {
	source := cmp.Or(v.PathValue("source"), v.URL.Query().Get("source"))
	view, err := s.queue(v, source)
	if err != nil {
		return answer{}, err
	}
	if v.URL.Query().Get("view") == listed {
		return s.reviewList(v, view)
	}
	at, err := strconv.Atoi(v.URL.Query().Get("at"))
	if err != nil || at < 0 || at >= view.Total {
		at = 0
	}
	// The counts may be out of date by now, so there may be nothing at that
	// position.
	item, at, err := s.suggestionAt(v, view.inScope(), at)
	if fault.Is(err, fault.NotFound) { // the rest of the queue is gone: start over
		item, at, err = s.suggestionAt(v, view.inScope(), 0)
	}
	if err == nil {
		view.Item, view.At = &item, at
	} else if !fault.Is(err, fault.NotFound) {
		return answer{}, err
	}
	return show("review", "Review", view), nil
}

// queue reads the pending suggestions of one source, or of all if source is "".
func (s *Service) queue(v *visit, source string) (view reviewView, err error) {
	org := v.Caller.OrgID
	all, err := s.Sources.List(v.Context(), org, sources.Filter{})
	if err != nil {
		return view, err
	}
	view.Sources = len(all)
	// A source of another organisation is not found.
	if source != "" {
		src, err := s.Sources.Get(v.Context(), org, source)
		if err != nil {
			return view, err
		}
		view.Source, view.Label = src.ID, src.Label
	}
	if view.Waiting, err = s.Overview.Waiting(v.Context(), org); err != nil {
		return view, err
	}
	// The counts change with every decision; the order should not.
	slices.SortFunc(view.Waiting, func(a, b overview.Waiting) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.SourceID, b.SourceID))
	})
	for _, w := range view.inScope() {
		view.Total += w.Suggestions
	}
	if !v.Caller.May(access.Write) {
		return view, nil
	}
	view.Last, err = s.lastDecisions(v)
	return view, err
}

// inScope returns the sources that the queue is limited to.
func (r reviewView) inScope() []overview.Waiting {
	if r.Source == "" {
		return r.Waiting
	}
	return slices.DeleteFunc(slices.Clone(r.Waiting), func(w overview.Waiting) bool { return w.SourceID != r.Source })
}

// lastDecisions is what the caller decided last; nothing if that is too long ago.
func (s *Service) lastDecisions(v *visit) ([]overview.Decision, error) {
	return s.Overview.LastDecisions(v.Context(), v.Caller.OrgID, v.Caller.UserID, time.Now().Add(-undoTime))
}

// suggestionAt returns the first suggestion at a position of the queue or after it,
// and its position; a fault.NotFound if there is none. The counts of waiting are
// older than the pages that it reads: others may have reviewed meanwhile.
func (s *Service) suggestionAt(v *visit, waiting []overview.Waiting, at int) (item reviewItem, place int, err error) {
	begin := 0
	for _, w := range waiting {
		for offset := max(0, at-begin); offset < w.Suggestions; offset += pendingPage {
			found, _, err := s.Suggestions.Pending(v.Context(), v.Caller.OrgID, w.SourceID, pendingPage, offset)
			if err != nil {
				return item, 0, err
			}
			if len(found) > 0 {
				item, err = s.newReviewItem(v, w, found[0])
				return item, begin + offset, err
			}
		}
		begin += w.Suggestions
	}
	return item, 0, fault.New(fault.NotFound, "Suggestion not found")
}

// newReviewItem adds to a suggestion what its form needs. It is for a single
// suggestion: the list of several reads less.
func (s *Service) newReviewItem(v *visit, w overview.Waiting, g suggestions.Suggestion) (reviewItem, error) {
	item := reviewItem{Suggestion: g, SourceID: w.SourceID, Label: w.Label}
	// As JSON, because browsers change line breaks in form fields.
	text, err := json.Marshal(g)
	if err != nil {
		return item, err
	}
	item.Case = string(text)
	item.Suites, _, err = s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{
		SourceID: w.SourceID, VerifierKind: suites.LLMJudge, Page: store.Page{Limit: suitesOffered},
	})
	slices.Reverse(item.Suites) // oldest first, so that the choice does not move with every new suite
	return item, err
}

// handleDecide records a decision on the suggestion as the page showed it. An
// unknown decision is refused, not taken for a default.
func (s *Service) handleDecide(v *visit) (answer, error) {
	if v.FormValue("view") == listed {
		return s.decideSeveral(v)
	}
	d, err := readDecision(v.FormValue("case"))
	if err != nil {
		return answer{}, err
	}
	suite, message := "", "Accepted as a draft."
	d.Status = suggestions.Accepted
	switch v.FormValue("decision") {
	case "accept":
	case "reject":
		d.Status, message = suggestions.Rejected, "Rejected."
	case "suite":
		if suite = v.FormValue("suite"); suite == "" {
			return answer{}, fault.Invalid("suite", "Choose a suite")
		}
		message = "Added to the suite."
	case "new-suite":
	default:
		return answer{}, fault.Invalid("decision", "decision must be accept, reject or suite")
	}
	source := v.FormValue("source")
	r, err := s.Suggestions.Review(v.Context(), v.Caller, source, d, suite)
	if err != nil {
		return answer{}, err
	}
	if v.FormValue("decision") == "new-suite" {
		out, err := s.Suggestions.ApplyDrafts(v.Context(), v.Caller, source, []string{d.SuggestionID}, suggestions.Destination{})
		e, _ := errors.AsType[*fault.Error](err)
		switch {
		case err == nil:
			r.AppliedSuiteID, message = &out.Suite.ID, "Added to "+out.Suite.Name+"."
		case e != nil && e.Code == sources.Protected:
			suite = newSuite
		default:
			return answer{}, err
		}
	}
	// Accepting is allowed, changing a gate's suite is not.
	if suite != "" && r.AppliedSuiteID == nil {
		message = "Accepted as a draft: a gate reads the suite, so an admin or an owner of its skills adds the case."
	}
	at, _ := strconv.Atoi(v.FormValue("at")) // 0 if invalid
	next := redirect(reviewPath(v.FormValue("scope"), at), message)
	switch {
	case r.AppliedSuiteID != nil:
		next = next.linking(pathTo("suites", *r.AppliedSuiteID), "Open the suite")
	case d.Status == suggestions.Accepted:
		next = next.linking(pathTo("sources", r.SourceID)+"#drafts", "Add the drafts to a suite")
	}
	return next, nil
}

// readDecision decodes the suggestion in the form.
func readDecision(text string) (d suggestions.Decision, err error) {
	var g suggestions.Suggestion
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return d, fault.Invalid("case", "the form has no valid suggestion").Because(err)
	}
	// What the decision rests on follows from where the suggestion came from.
	evidence := suggestions.LinkedTelemetry
	switch g.Provenance {
	case suggestions.FailedEvaluation, suggestions.MissedQuery:
	case suggestions.RunRegression, suggestions.RunFailure:
		evidence = suggestions.HostedRun
	default:
		return d, fault.Invalid("case", "the form has no valid suggestion")
	}
	// The form could be made up, so it is checked like a request of the API.
	id, err := uuid.Parse(g.ID)
	if err != nil || utf8.RuneCountInString(g.Query) > suggestions.MaxQuery || g.ObservedCount < 0 ||
		g.Confidence < 0 || g.Confidence > 1 {
		return d, fault.Invalid("case", "the form has no valid suggestion")
	}
	count := float64(g.ObservedCount)
	return suggestions.Decision{
		SuggestionID: id.String(), Query: g.Query, ShouldTrigger: g.ShouldTrigger, Evidence: evidence, Provenance: g.Provenance,
		Rationale: &g.Rationale, ObservedCount: &count, Confidence: &g.Confidence, LastObservedAt: &g.LastObservedAt,
		InvocationType: g.InvocationType,
	}, nil
}

// reviewPath is the queue at a position, limited to a source unless scope is "".
func reviewPath(scope string, at int) string {
	query := url.Values{"at": {strconv.Itoa(max(0, at))}}
	if scope != "" {
		query.Set("source", scope)
	}
	return "/review?" + query.Encode()
}

// handleUndo undoes the caller's last decision and shows its suggestion again.
func (s *Service) handleUndo(v *visit) (answer, error) {
	scope := v.FormValue("scope")
	all, err := s.lastDecisions(v)
	if err != nil {
		return answer{}, err
	}
	if len(all) == 0 {
		return redirect(reviewPath(scope, 0), "There is nothing to undo."), nil
	}
	if len(all) > 1 {
		return s.undoSeveral(v, all)
	}
	last := all[0]
	gone, err := s.Suggestions.Undo(v.Context(), v.Caller, last.SourceID, last.SuggestionID)
	if err != nil {
		return answer{}, err
	}
	message := "The decision was undone."
	if !gone {
		message += " The case stays in its suite, because a suite cannot be empty."
	}
	// Its place is known in its own source, or in the whole queue.
	if scope != last.SourceID {
		scope = ""
	}
	at, found, err := s.placeOf(v, scope, last)
	if !found {
		message += " The suggestion will reappear in a moment."
	}
	return redirect(reviewPath(scope, at), message), err
}

// placeOf returns the position of an undone suggestion in the queue. It is not there
// yet if its case was in a suite when suggestions were last derived: a job derives
// them again.
func (s *Service) placeOf(v *visit, scope string, d overview.Decision) (at int, found bool, err error) {
	view, err := s.queue(v, scope)
	if err != nil {
		return 0, false, err
	}
	begin := 0
	for _, w := range view.inScope() {
		if w.SourceID != d.SourceID {
			begin += w.Suggestions
			continue
		}
		pending, _, err := s.Suggestions.Pending(v.Context(), v.Caller.OrgID, w.SourceID, undoSearch, 0)
		i := slices.IndexFunc(pending, func(g suggestions.Suggestion) bool { return g.ID == d.SuggestionID })
		// Not found among the first ones: the beginning of its source is near
		// enough.
		return begin + max(0, i), i >= 0, err
	}
	return 0, false, nil
}

// Place is the position of the suggestion, from 1.
func (r reviewView) Place() int { return r.At + 1 }

// Back is the URL of the previous suggestion.
func (r reviewView) Back() string { return reviewPath(r.Source, r.At-1) }

// Next is the URL of the next suggestion.
func (r reviewView) Next() string { return reviewPath(r.Source, r.At+1) }
