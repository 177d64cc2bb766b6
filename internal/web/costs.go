package web

import (
	"github.com/whetstone-dev/whetstone/internal/web/bill"
	"github.com/whetstone-dev/whetstone/internal/web/offering"
)

func (s *Service) handleCosts(v *visit) (answer, error) {
	view, err := bill.Read(v.Context(), s.Costs, v.Caller.OrgID, v.list)
	return show("costs", "Costs", view), err
}

func (s *Service) handleCatalogue(v *visit) (answer, error) {
	view, err := offering.Read(v.Context(), s.Report, v.Caller.OrgID, v.URL.Query(), v.offset(offering.PerPage))
	return show("catalogue", "Catalogue report", view), err
}
