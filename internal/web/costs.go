package web

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/costs"
)

// costsView is what the model requests of an organisation cost.
type costsView struct {
	Days    int
	Ranges  []int
	Bill    costs.Bill
	Rows    []costRow // a page, the most expensive skill first
	PerPage int
	Any     bool // there are requests in these days
}

// A costRow is the share of one skill in the bill.
type costRow struct {
	costs.BillItem
	Share *float64 // of the total; nil if either is unknown
}

const costsPerPage = 50

var (
	costRanges      = []int{7, 30, 90, 365}
	defaultCostDays = 30
)

func (s *Service) handleCosts(v *visit) (answer, error) {
	view := costsView{Days: defaultCostDays, Ranges: costRanges, PerPage: costsPerPage}
	if days, err := strconv.Atoi(v.URL.Query().Get("days")); err == nil && slices.Contains(costRanges, days) {
		view.Days = days
	}
	bill, err := s.Costs.Bill(v.Context(), v.Caller.OrgID, view.Days)
	slices.SortStableFunc(bill.Skills, func(a, b costs.BillItem) int { // those without a known cost last
		if a.Total == nil || b.Total == nil {
			return cmp.Compare(unknown(a.Total), unknown(b.Total))
		}
		return cmp.Compare(*b.Total, *a.Total)
	})
	view.Bill, view.Any = bill, len(bill.Skills) > 0 || bill.Total == nil || *bill.Total > 0
	from := min(v.offset(costsPerPage), len(bill.Skills))
	for _, item := range bill.Skills[from:min(from+costsPerPage, len(bill.Skills))] {
		view.Rows = append(view.Rows, costRow{item, shareOf(item.Total, bill.Total)})
	}
	return show("costs", "Costs", view), err
}

// unknown is 1 for an amount that is unknown, to sort it after the others.
func unknown(amount *float64) int {
	if amount == nil {
		return 1
	}
	return 0
}

// shareOf returns the part as a share of the whole; nil if one is unknown, or there is
// nothing to share.
func shareOf(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole == 0 {
		return nil
	}
	share := *part / *whole
	return &share
}

// Attributed is what requests of skills cost; nil if that is unknown.
func (c costsView) Attributed() (sum *float64) {
	for _, item := range c.Bill.Skills {
		if item.Total != nil {
			if sum == nil {
				sum = new(float64)
			}
			*sum += *item.Total
		}
	}
	return sum
}

// UnattributedShare is that of requests which belong to no skill.
func (c costsView) UnattributedShare() *float64 { return shareOf(c.Bill.Unattributed, c.Bill.Total) }
