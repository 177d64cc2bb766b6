// Package bill prepares the page of what model requests cost. It owns no tables.
package bill

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/costs"
)

// A View is what the model requests of an organisation cost.
type View struct {
	Days    int
	Ranges  []int
	Bill    costs.Bill
	Rows    []Row // a page, the most expensive skill first
	PerPage int
	Any     bool // there are requests in these days
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

// Read returns the page that begins at offset. Any days but those that the page offers
// are the default.
func Read(ctx context.Context, s *costs.Service, orgID, days string, offset int) (View, error) {
	view := View{Days: defaultDays, Ranges: ranges, PerPage: PerPage}
	if n, err := strconv.Atoi(days); err == nil && slices.Contains(ranges, n) {
		view.Days = n
	}
	bill, err := s.Bill(ctx, orgID, view.Days)
	slices.SortStableFunc(bill.Skills, func(a, b costs.BillItem) int { // those without a known cost last
		if a.Total == nil || b.Total == nil {
			return cmp.Compare(unknown(a.Total), unknown(b.Total))
		}
		return cmp.Compare(*b.Total, *a.Total)
	})
	view.Bill, view.Any = bill, len(bill.Skills) > 0 || bill.Total == nil || *bill.Total > 0
	from := min(offset, len(bill.Skills))
	for _, item := range bill.Skills[from:min(from+PerPage, len(bill.Skills))] {
		view.Rows = append(view.Rows, Row{item, shareOf(item.Total, bill.Total)})
	}
	return view, err
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
