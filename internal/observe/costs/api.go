package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of costs and prices. Everyone may read the prices that bills
// are computed with; only admins replace them.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleBill, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/costs",
		Summary: "What model requests cost, by skill",
	})
	httpapi.Add(a, s.handlePrices, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/settings/prices",
		Summary: "The organisation's own prices of models",
	})
	httpapi.Add(a, s.handleSetPrices, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/api/v1/settings/prices",
		Summary: "Replace the organisation's own prices of models",
	})
}

type billInput struct {
	Days int `query:"days" default:"30" minimum:"1" maximum:"365" doc:"Window in days, today included"`
}

func (s *Service) handleBill(ctx context.Context, in billInput) (api.Bill, error) {
	b, err := s.Bill(ctx, access.From(ctx).OrgID, in.Days)
	return api.Bill{
		Days: in.Days, Total: b.Total, Unattributed: b.Unattributed,
		Skills: append([]BillItem{}, b.Skills...),
	}, err
}

type pricesOutput struct {
	Models []pricing.Model `json:"models" nullable:"false"`
}

func (s *Service) handlePrices(ctx context.Context, _ struct{}) (pricesOutput, error) {
	models, err := s.OwnPrices(ctx, access.From(ctx).OrgID)
	return pricesOutput{Models: models}, err
}

// setPricesInput replaces the organisation's price list. The order matters: the
// first model whose pattern matches has the price.
type setPricesInput struct {
	Body struct {
		Models []pricing.Model `json:"models" nullable:"false" maxItems:"1000" doc:"Tried in this order before those of the installation; none: only these"`
	}
}

func (s *Service) handleSetPrices(ctx context.Context, in setPricesInput) (pricesOutput, error) {
	return pricesOutput{Models: in.Body.Models}, s.SetPrices(ctx, access.From(ctx), in.Body.Models)
}
