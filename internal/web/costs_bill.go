package web

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// A billView is what the model requests of an organisation cost.
type billView struct {
	Days   int
	Ranges []int
	Bill   costs.Bill
	Size
	Items []costs.BillItem // those that match the search, in the order of the page
	Rows  []billRow        // a page of Items
	Any   bool             // whether there are requests in these days

	ByDay  columnChart
	Models []modelRow
}

// A modelRow is the share of one model in the requests.
type modelRow struct {
	costs.ModelCount
	Share float64
}

// addCharts adds what the days cost, and which models were asked.
func (c *billView) addCharts(ctx context.Context, s *costs.Service, orgID string) error {
	days, err := s.Days(ctx, orgID, c.Days)
	if err != nil {
		return err
	}
	points := make([]point, len(days))
	for i, d := range days {
		points[i] = point{
			Name: d.At.Format("Mon, Jan 2, 2006"), Short: d.At.Format("Jan 2"), Value: d.Total, Link: sessionsOfDay("", "", d.At),
		}
	}
	c.ByDay = columnChart{Head: "Day", Unit: "Cost"}
	c.ByDay.draw(points, 0, format.Money)
	models, err := s.Models(ctx, orgID, c.Days)
	var all int64
	for _, m := range models {
		all += m.Requests
	}
	for _, m := range models {
		c.Models = append(c.Models, modelRow{m, float64(m.Requests) / float64(all)})
	}
	return err
}

// A billRow is the share of one skill in the bill.
type billRow struct {
	costs.BillItem
	Share *float64 // share of the total; nil if either is unknown
}

// billPerPage is the number of skills on a page.
const billPerPage = 50

// The numbers of days that the page offers.
var (
	billRanges      = []int{7, 30, 90, 365}
	defaultBillDays = 30
)

// readBill returns the requested page, the most expensive skill first unless another
// order was requested. A number of days that the page does not offer becomes the
// default.
func readBill(ctx context.Context, s *costs.Service, orgID string, l tableRequest) (billView, error) {
	view := billView{Days: defaultBillDays, Ranges: billRanges}
	if n, err := strconv.Atoi(l.Query.Get("days")); err == nil && slices.Contains(billRanges, n) {
		view.Days = n
	}
	bill, err := s.Bill(ctx, orgID, view.Days)
	// Skills without a known cost come last: they are not the cheapest.
	slices.SortStableFunc(bill.Skills, func(a, b costs.BillItem) int {
		return cmp.Or(cmp.Compare(unknownLast(a.Total), unknownLast(b.Total)),
			cmp.Compare(amountOr0(b.Total), amountOr0(a.Total)))
	})
	view.Bill, view.Any = bill, len(bill.Skills) > 0 || bill.Total == nil || *bill.Total > 0
	// A clone: the totals below are of all skills, whatever is searched for.
	items := slices.DeleteFunc(slices.Clone(bill.Skills), func(b costs.BillItem) bool { return !l.Matches(b.Name) })
	sortRows(l, items, billOrders)
	view.Items = items
	view.Size = Size{Total: len(items), PerPage: billPerPage}
	for _, item := range cutRows(l, items, billPerPage) {
		view.Rows = append(view.Rows, billRow{item, shareOf(item.Total, bill.Total)})
	}
	if err == nil && view.Any {
		err = view.addCharts(ctx, s, orgID)
	}
	return view, err
}

// billOrders are the orders of the list, which has one row for each skill with a cost.
var billOrders = map[string]rowOrder[costs.BillItem]{
	"name": orderByText(func(b costs.BillItem) string { return b.Name }),
	"uses": orderBy(func(b costs.BillItem) int64 { return b.Uses }),
	// The cheapest first; the other direction is the order of the page without a
	// choice.
	"cost": orderBy(func(b costs.BillItem) float64 {
		if b.Total == nil {
			return math.Inf(1)
		}
		return *b.Total
	}),
}

// amountOr0 returns an amount, or 0 if it is unknown.
func amountOr0(a *float64) float64 {
	if a == nil {
		return 0
	}
	return *a
}

// unknownLast is 1 for an unknown amount, to sort it after the others.
func unknownLast(amount *float64) int {
	if amount == nil {
		return 1
	}
	return 0
}

// shareOf returns part as a share of whole; nil if either is unknown or whole is 0.
func shareOf(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole == 0 {
		return nil
	}
	share := *part / *whole
	return &share
}

// Attributed is what the requests of skills cost; nil if no skill's cost is known.
func (c billView) Attributed() (sum *float64) {
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

// UnattributedShare is the share of requests that belong to no skill.
func (c billView) UnattributedShare() *float64 { return shareOf(c.Bill.Unattributed, c.Bill.Total) }
