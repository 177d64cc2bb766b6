package web

import (
	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/sources"
)

// suitesView is a page of the list of suites.
type suitesView struct {
	Rows    []suiteRow
	Total   int
	PerPage int
	Sources []sources.Source // that an imported suite can be for
	Import  suiteForm        // as it was typed
}

type suiteRow struct {
	evals.Suite
	SourceLabel string
	Last        *evals.Run // nil: it was never run
}

const suitesPerPage = 25

func (s *Service) suites(v *visit) (answer, error) {
	view, err := s.suiteList(v)
	return show("suites", "Suites", view), err
}

func (s *Service) suiteList(v *visit) (view suitesView, err error) {
	org := v.Caller.OrgID
	found, total, err := s.Evals.Suites(v.Context(), org, evals.Filter{Limit: suitesPerPage, Offset: v.offset(suitesPerPage)})
	if err != nil {
		return view, err
	}
	view = suitesView{Total: total, PerPage: suitesPerPage, Rows: make([]suiteRow, len(found))}
	if view.Sources, err = s.Sources.List(v.Context(), org, sources.Filter{}); err != nil {
		return view, err
	}
	labels := map[string]string{}
	for _, src := range view.Sources {
		labels[src.ID] = src.Label
	}
	newest, err := s.Evals.NewestRuns(v.Context(), org, found)
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
