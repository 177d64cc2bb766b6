package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

const (
	// listed is the view of the queue as a list, in which several can be selected.
	listed = "list"
	// reviewsListed is how many suggestions a page of the list has, and so the most that
	// can be answered at once.
	reviewsListed = 50
)

// reviewListView is a page of the queue as a list. Nothing is selected at first: a
// person must look before deciding on many.
type reviewListView struct {
	reviewView
	Items   []listedSuggestion
	PerPage int
	All     bool // all are selected
}

// A listedSuggestion is a row of the list.
type listedSuggestion struct {
	suggestions.Suggestion
	SourceID, Label string
}

// reviewList shows a page of the queue as a list. The queue runs over all sources,
// so a page may end one and begin the next.
func (s *Service) reviewList(v *visit, queue reviewView) (answer, error) {
	view := reviewListView{reviewView: queue, PerPage: reviewsListed, All: v.URL.Query().Get("all") != ""}
	offset := v.offset(reviewsListed)
	for _, w := range queue.inScope() {
		// Skipped by its count, without a query.
		if offset >= w.Suggestions || len(view.Items) == reviewsListed {
			offset -= w.Suggestions
			continue
		}
		found, _, err := s.Suggestions.Pending(v.Context(), v.Caller.OrgID, w.SourceID, reviewsListed-len(view.Items),
			max(0, offset))
		if err != nil {
			return answer{}, err
		}
		for _, g := range found {
			view.Items = append(view.Items, listedSuggestion{g, w.SourceID, w.Label})
		}
		offset = 0
	}
	return show("review_list", "Review", view), nil
}

// decideSeveral records one decision on all suggestions that are selected. A
// suggestion that was answered meanwhile is no error: the message counts those.
func (s *Service) decideSeveral(v *visit) (answer, error) {
	back := listPath(v.FormValue("scope"), v.FormValue("page"))
	if v.FormValue("back") == "source" {
		back = pathTo("sources", v.FormValue("scope"))
	}
	status, word := suggestions.Accepted, "accepted"
	switch v.FormValue("decision") {
	case "accept":
	case "reject":
		status, word = suggestions.Rejected, "rejected"
	default:
		return answer{}, fault.Invalid("decision", "decision must be accept or reject")
	}
	selected := v.PostForm["selected"]
	if len(selected) == 0 {
		return redirect(back, "Select the suggestions first."), nil
	}
	if len(selected) > reviewsListed {
		return answer{}, fault.Invalid("selected", "At most %d suggestions can be answered at once", reviewsListed)
	}
	refs := make([]suggestions.Ref, len(selected))
	for i, text := range selected {
		// The value of a checkbox is both ids.
		source, id, _ := strings.Cut(text, " ")
		if _, err := uuid.Parse(id); err != nil {
			return answer{}, fault.Invalid("selected", "the form has no valid suggestion")
		}
		refs[i] = suggestions.Ref{SourceID: source, SuggestionID: id}
	}
	done, err := s.Suggestions.ReviewSeveral(v.Context(), v.Caller, refs, status)
	message := fmt.Sprintf("%d %s.", done, word)
	if left := len(refs) - done; left > 0 {
		message = fmt.Sprintf("%d %s, %d had been answered already.", done, word, left)
	}
	next := redirect(back, message)
	elsewhere := func(r suggestions.Ref) bool { return r.SourceID != refs[0].SourceID }
	if status == suggestions.Accepted && !slices.ContainsFunc(refs, elsewhere) {
		next = next.linking(pathTo("sources", refs[0].SourceID)+"#drafts", "Add the drafts to a suite")
	}
	return next, err
}

// undoSeveral undoes decisions that were made together. All or none: what was
// decided in one step is undone in one.
func (s *Service) undoSeveral(v *visit, all []overview.Decision) (answer, error) {
	refs := make([]suggestions.Ref, len(all))
	for i, d := range all {
		refs[i] = suggestions.Ref{SourceID: d.SourceID, SuggestionID: d.SuggestionID}
	}
	err := s.Suggestions.UndoSeveral(v.Context(), v.Caller, refs)
	return redirect(listPath(v.FormValue("scope"), ""), fmt.Sprintf("%d decisions were undone.", len(all))), err
}

// listPath is the URL of a page of the list; page comes from a form, and may be
// anything.
func listPath(scope, page string) string {
	query := url.Values{"view": {listed}}
	if n, err := strconv.Atoi(page); err == nil && n > 1 {
		query.Set("page", strconv.Itoa(n))
	}
	if scope != "" {
		query.Set("source", scope)
	}
	return "/review?" + query.Encode()
}

// List is the URL of the queue as a list.
func (r reviewView) List() string { return listPath(r.Source, "") }

// First is the URL of the first suggestion of the queue.
func (r reviewView) First() string { return reviewPath(r.Source, 0) }

// AllSelected is the URL of the page with everything selected.
func (r reviewListView) AllSelected(page string) string { return listPath(r.Source, page) + "&all=1" }
