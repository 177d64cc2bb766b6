package web

import (
	"slices"

	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// suitesView is a page of the list of suites.
type suitesView struct {
	Size
	Rows    []suiteRow
	Kinds   []suites.VerifierKind // that the list can be filtered by
	Sources []sources.Source      // that an imported suite can belong to
	Import  suiteForm             // input of the import form
}

// A suiteRow is a suite with its last run.
type suiteRow struct {
	suites.Suite
	SourceLabel string
	Last        *runs.Run // nil: it was never run
}

const suitesPerPage = 25

var verifierKinds = []suites.VerifierKind{suites.LLMJudge, suites.Deterministic, suites.StructuredRubric}

// verifierWords says who or what checks the cases of a suite.
func verifierWords(kind suites.VerifierKind) string {
	switch kind {
	case suites.LLMJudge:
		return "a model (LLM judge)"
	case suites.Deterministic:
		return "exact checks"
	case suites.StructuredRubric:
		return "a rubric"
	}
	return string(kind)
}

func (s *Service) handleSuites(v *visit) (answer, error) {
	view, err := s.suiteList(v)
	return show("suites", "Suites", view), err
}

// suiteList reads the page. The newest runs are read with one query for all of its
// rows.
func (s *Service) suiteList(v *visit) (view suitesView, err error) {
	org := v.Caller.OrgID
	kind := suites.VerifierKind(v.URL.Query().Get("verifier"))
	if !slices.Contains(verifierKinds, kind) {
		kind = ""
	}
	found, total, err := s.Suites.List(v.Context(), org,
		suites.Filter{Search: v.list.Search(), VerifierKind: kind, Page: v.list.Rows(suitesPerPage)})
	if err != nil {
		return view, err
	}
	view = suitesView{
		Size: Size{Total: total, PerPage: suitesPerPage}, Rows: make([]suiteRow, len(found)), Kinds: verifierKinds,
	}
	if view.Sources, err = s.Sources.List(v.Context(), org, sources.Filter{}); err != nil {
		return view, err
	}
	labels := map[string]string{}
	for _, src := range view.Sources {
		labels[src.ID] = src.Label
	}
	newest, err := s.Runs.Newest(v.Context(), org, found)
	for i, suite := range found {
		view.Rows[i].Suite = suite
		if suite.SourceID != nil {
			view.Rows[i].SourceLabel = labels[*suite.SourceID]
		}
		if run, ok := newest[suite.ID]; ok {
			view.Rows[i].Last = &run
		}
	}
	return view, err
}
