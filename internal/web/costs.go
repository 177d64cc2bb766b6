package web

// handleCosts shows what model requests cost by skill.
func (s *Service) handleCosts(v *visit) (answer, error) {
	view, err := readBill(v.Context(), s.Costs, v.Caller.OrgID, v.list)
	return show("costs", "Costs", view), err
}

// handleCatalogue shows which skills an agent lists, and what that costs.
func (s *Service) handleCatalogue(v *visit) (answer, error) {
	view, err := readOffering(v.Context(), s.Report, v.Caller.OrgID, v.URL.Query(), v.offset(offeringPerPage))
	return show("catalogue", "Catalogue report", view), err
}

// handleTestCatalogue starts a run on the catalogue of an agent and one with whole
// descriptions, and redirects to the first.
func (s *Service) handleTestCatalogue(v *visit) (answer, error) {
	run, err := startCatalogueRuns(v.Context(), s.Runs, v.Caller, v.FormValue)
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("runs", run.ID), "Two runs were started: this one, and one with whole descriptions to compare with."), nil
}
