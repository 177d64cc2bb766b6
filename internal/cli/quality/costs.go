package quality

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// costsCommand shows what model requests cost. The window is whole days in UTC, as
// on the page.
type costsCommand struct {
	server.Flags `embed:""`
	Days         int `env:"-" default:"30" placeholder:"N" help:"How many days, today included: 1 to 365."`
}

// Run prints what model requests cost, the most expensive skill first.
func (c *costsCommand) Run(ctx context.Context, p *term.Program) error {
	// The client takes 0 as its default.
	if c.Days == 0 {
		return fault.Invalid("days", "days must be between 1 and 365")
	}
	return c.WithSession(p, func(s *server.Session) error {
		bill, err := s.Costs(ctx, c.Days)
		if err != nil {
			return err
		}
		return p.Print(bill, func(w io.Writer) { printBill(w, bill) })
	})
}

// printBill prints a bill. It sorts bill.Skills in place. Amounts are rounded as on
// the pages; --json has all digits.
func printBill(w io.Writer, bill client.Bill) {
	if len(bill.Skills) == 0 && bill.Total != nil && *bill.Total == 0 {
		fmt.Fprintf(w, "No model requests in the last %s; agents report them by OpenTelemetry, or with `whetstone import`.\n",
			term.Count(bill.Days, "day"))
		return
	}
	// Skills without a known cost come last.
	slices.SortStableFunc(bill.Skills, func(a, b client.BillItem) int {
		switch {
		case a.Total == nil && b.Total == nil:
			return 0
		case a.Total == nil:
			return 1
		case b.Total == nil:
			return -1
		}
		return cmp.Compare(*b.Total, *a.Total)
	})
	fmt.Fprintln(w, "SKILL\tCOST\tUSES")
	for _, k := range bill.Skills {
		fmt.Fprintf(w, "%s\t%s\t%d\n", term.Plain(k.Name), term.Dollars(k.Total), k.Uses)
	}
	fmt.Fprintf(w, "(no skill)\t%s\n", term.Dollars(bill.Unattributed))
	fmt.Fprintf(w, "Total\t%s\tin %s\n", term.Dollars(bill.Total), term.Count(bill.Days, "day"))
	if bill.Total == nil {
		fmt.Fprintln(w, "\nThe prices of these models are unknown; `whetstone prices set FILE` sets them.")
	}
}

// costBasis formats how a cost is known: reported by agents, or computed from tokens
// and prices. Requests of unknown price are not in the total, so it names their number.
func costBasis(c client.Cost) string {
	requests := "of " + term.Count(int(c.Requests), "request")
	switch {
	case c.Basis == nil:
		return requests + ", whose prices are unknown; `whetstone prices set FILE` sets them"
	case *c.Basis == "reported":
		requests += ", reported by agents"
	case *c.Basis == "priced":
		requests += ", computed from tokens"
	default:
		requests += ", partly reported by agents, partly computed from tokens"
	}
	if c.UnpricedRequests > 0 {
		requests += fmt.Sprintf("; without %d of unknown price", c.UnpricedRequests)
	}
	return requests
}

// pricesCommands are the commands `whetstone prices`: an organisation's own prices of
// models take precedence over those of the server.
type pricesCommands struct {
	Show  pricesShow  `cmd:"" default:"1" help:"Show the organisation's own prices of models; --json prints them as a price file."`
	Set   pricesSet   `cmd:"" help:"Replace them by those of a price file. Needs the permission admin."`
	Reset pricesReset `cmd:"" help:"Remove them, so that those of the server apply. Needs the permission admin."`
}

// pricesShow shows prices.
type pricesShow struct {
	server.Flags `embed:""`
}

// Run prints the organisation's own prices. With --json the output is a price file,
// which `prices set` accepts.
func (c *pricesShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		prices, err := s.Prices(ctx)
		if err != nil {
			return err
		}
		return p.Print(prices, func(w io.Writer) {
			if len(prices.Models) == 0 {
				fmt.Fprintln(w, "No prices of its own: those of the server apply. `whetstone prices set FILE` sets some.")
				return
			}
			fmt.Fprintln(w, "MODEL\tVALID FROM\tINPUT\tOUTPUT\tCACHE READ\tCACHE WRITE\tCACHE WRITE, 1 H")
			for _, m := range prices.Models {
				from := "always"
				if m.ValidFrom != "" {
					from = m.ValidFrom
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", term.Plain(m.Match), from, exactPrice(&m.Input),
					exactPrice(&m.Output), exactPrice(m.CacheRead), exactPrice(m.CacheWrite), exactPrice(m.CacheWriteHour))
			}
			fmt.Fprintln(w, "\nDollars per million tokens; the first model that matches counts.")
		})
	})
}

// exactPrice formats a price with all its digits: rounding would change a price such as
// 0.0375. An unset one (nil) is a dash.
func exactPrice(dollars *float64) string {
	if dollars == nil {
		return "-"
	}
	return strconv.FormatFloat(*dollars, 'f', -1, 64)
}

// recomputed is printed after each change of prices.
const recomputed = "Costs that agents did not report are computed again in the background."

// pricesSet replaces prices.
type pricesSet struct {
	server.Flags `embed:""`
	File         string `arg:"" help:"Price file, as for the setting price-file of the server."`
}

// Run replaces the organisation's own prices with those of a file. The file is checked
// here, as its parser's errors name the line.
func (c *pricesSet) Run(ctx context.Context, p *term.Program) error {
	models, err := pricing.Load(c.File)
	if err != nil {
		return fault.Invalid("file", "%s", err)
	}
	prices := make([]client.Price, len(models))
	for i, m := range models {
		prices[i] = client.Price(m)
	}
	return c.WithSession(p, func(s *server.Session) error {
		stored, err := s.SetPrices(ctx, prices)
		if err != nil {
			return err
		}
		return p.Print(stored, func(w io.Writer) {
			fmt.Fprintf(w, "Stored the prices of %s. %s\n", term.Count(len(stored.Models), "model"), recomputed)
		})
	})
}

// pricesReset removes prices.
type pricesReset struct {
	server.Flags `embed:""`
}

// Run removes the organisation's own prices.
func (c *pricesReset) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		// No prices of its own means that those of the server apply.
		stored, err := s.SetPrices(ctx, nil)
		if err != nil {
			return err
		}
		return p.Print(stored, func(w io.Writer) {
			fmt.Fprintln(w, "The prices of the server apply again. "+recomputed)
		})
	})
}
