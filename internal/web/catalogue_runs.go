package web

import (
	"context"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// startCatalogueRuns starts a pair of runs of a suite on the same skill as its last
// run: one with the descriptions as the agent lists them, and one with whole ones. It
// returns the first. Both are added in one transaction, as one alone would be of no
// use.
func startCatalogueRuns(ctx context.Context, s *runs.Service, caller access.Caller, field func(string) string) (cut runs.Run,
	err error,
) {
	suiteID := field("suite")
	before, err := s.Newest(ctx, caller.OrgID, []suites.Suite{{ID: suiteID}})
	if err != nil {
		return cut, err
	}
	last, ok := before[suiteID]
	if !ok {
		return cut, fault.New(fault.NotFound, "Suite not found, or it never ran: start its first run on its page")
	}
	n := runs.NewRun{Subject: last.Subject.Ref, Baseline: runs.NoBaseline}
	if n.Trials, err = strconv.Atoi(field("trials")); err != nil || n.Trials < 1 || n.Trials > runs.MaxTrials {
		return cut, fault.Invalid("trials", "trials must be 1 to %d", runs.MaxTrials)
	}
	window, err := strconv.ParseInt(field("context_window"), 10, 64)
	if err != nil {
		return cut, fault.Invalid("context_window", "context_window must be a number of tokens")
	}
	n.Catalog = &catalogue.Choice{Catalog: field("agent"), Window: window}
	if cut, err = s.Plan(ctx, caller, suiteID, n); err != nil {
		return cut, err
	}
	// The same seed, so that both runs draw the same samples.
	n.Seed, n.Catalog = cut.Seed, &catalogue.Choice{Catalog: catalogue.Full}
	full, err := s.Plan(ctx, caller, suiteID, n)
	if err != nil {
		return cut, err
	}
	return cut, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.Add(ctx, tx, full); err != nil {
			return err
		}
		return s.Add(ctx, tx, cut)
	})
}
