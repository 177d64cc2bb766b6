// Package bill prepares the page of what model requests cost. It owns no tables.
package bill

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

// A View is what the model requests of an organisation cost.
type View struct {
	Days   int
	Ranges []int
	Bill   costs.Bill
	listing.Size
	Items []costs.BillItem // that match, in the order of the page
	Rows  []Row            // a page of them
	Any   bool             // there are requests in these days
}

// A Row is the share of one skill in the bill.
type Row struct {
	costs.BillItem
	Share *float64 // of the total; nil if either is unknown
}

// PerPage is how many skills a page has.
const PerPage = 50

var (
	ranges      = []int{7, 30, 90, 365}
	defaultDays = 30
)

// Read returns the requested page, the most expensive skill first unless another order was
// asked for. Any days but those that the page offers are the default.
func Read(ctx context.Context, s *costs.Service, orgID string, l listing.Request) (View, error) {
	view := View{Days: defaultDays, Ranges: ranges}
	if n, err := strconv.Atoi(l.Query.Get("days")); err == nil && slices.Contains(ranges, n) {
		view.Days = n
	}
	bill, err := s.Bill(ctx, orgID, view.Days)
	slices.SortStableFunc(bill.Skills, func(a, b costs.BillItem) int { // those without a known cost last
		return cmp.Or(cmp.Compare(unknown(a.Total), unknown(b.Total)), cmp.Compare(amount(b.Total), amount(a.Total)))
	})
	view.Bill, view.Any = bill, len(bill.Skills) > 0 || bill.Total == nil || *bill.Total > 0
	items := slices.DeleteFunc(slices.Clone(bill.Skills), func(b costs.BillItem) bool { return !l.Matches(b.Name) })
	listing.Sort(l, items, orders)
	view.Items = items
	view.Size = listing.Size{Total: len(items), PerPage: PerPage}
	for _, item := range listing.Cut(l, items, PerPage) {
		view.Rows = append(view.Rows, Row{item, shareOf(item.Total, bill.Total)})
	}
	return view, err
}

// orders are the orders of the list, which has one row for each skill with a cost.
var orders = map[string]listing.Order[costs.BillItem]{
	"name": listing.ByText(func(b costs.BillItem) string { return b.Name }),
	"uses": listing.By(func(b costs.BillItem) int64 { return b.Uses }),
	// The cheapest first; the other direction is the order of the page without a choice.
	"cost": listing.By(func(b costs.BillItem) float64 {
		if b.Total == nil {
			return math.Inf(1)
		}
		return *b.Total
	}),
}

func amount(a *float64) float64 {
	if a == nil {
		return 0
	}
	return *a
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
func (c View) Attributed() (sum *float64) {
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
func (c View) UnattributedShare() *float64 { return shareOf(c.Bill.Unattributed, c.Bill.Total) }
