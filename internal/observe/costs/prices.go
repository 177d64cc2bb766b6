package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// orgPrices is a row of cost_prices.
type orgPrices struct {
	models []pricing.Model // the organisation's own
	// tableHash is the hash of the prices that all its requests have, or that the
	// job reprice gives them.
	tableHash string
	// repriceAfter is the cursor of that job, nil if there is nothing to do.
	repriceAfter *string
}

// A pricer prices the requests of one organisation.
type pricer struct {
	table pricing.Table
	// known caches lookups: a report has many requests of few models and days.
	known map[modelKey]*pricing.Price
}

func newPricer(table pricing.Table) pricer { return pricer{table, map[modelKey]*pricing.Price{}} }

// priced sets the money of a request: what the producer reported, else that of its
// tokens, else unknown.
func (p pricer) priced(r request) request {
	if r.micros = r.reported; r.micros != nil {
		return r
	}
	k := modelKey{dayOf(r.at), r.model}
	price, ok := p.known[k]
	if !ok {
		if found, ok := p.table.Lookup(r.model, r.at); ok {
			price = &found
		}
		p.known[k] = price
	}
	if price == nil {
		return r
	}
	if micros, ok := price.Micros(r.tokens); ok && micros <= MaxMicros {
		r.micros = &micros
	}
	return r
}

// pricesOf returns the prices of an organisation. They cannot change until the
// transaction ends, so that the job reprice, which starts after a change, finds
// all requests that have older ones.
func (s *Service) pricesOf(ctx context.Context, tx *store.Tx, orgID string) (pricer, error) {
	own, err := sharePrices(ctx, tx, orgID)
	if fault.Is(err, fault.NotFound) {
		if err := ensurePrices(ctx, tx, orgID, s.Prices.Hash()); err != nil {
			return pricer{}, err
		}
		own, err = sharePrices(ctx, tx, orgID)
	}
	return newPricer(s.Prices.Before(own.models)), err
}

// OwnPrices returns the organisation's own prices.
func (s *Service) OwnPrices(ctx context.Context, orgID string) ([]pricing.Model, error) {
	own, err := pricesByOrg(ctx, s.DB, orgID)
	if fault.Is(err, fault.NotFound) {
		return []pricing.Model{}, nil
	}
	return own.models, err
}

// Table returns the prices of an organisation: its own before the installation's.
func (s *Service) Table(ctx context.Context, orgID string) (pricing.Table, error) {
	own, err := s.OwnPrices(ctx, orgID)
	return s.Prices.Before(own), err
}

// SetPrices replaces the caller's organisation's own prices, and reprices its
// requests in the background. No models mean those of the installation.
func (s *Service) SetPrices(ctx context.Context, c access.Caller, models []pricing.Model) error {
	if err := pricing.Check(models); err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := ensurePrices(ctx, tx, c.OrgID, s.Prices.Hash()); err != nil {
			return err
		}
		own, err := lockPrices(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		own.models = models
		if err := audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "costs.prices.change",
			Target: audit.Target{Kind: "organisation", ID: c.OrgID, Name: c.OrgName},
		}); err != nil {
			return err
		}
		return s.startRepricing(ctx, tx, c.OrgID, own)
	})
}

// startRepricing stores the prices of an organisation, whose row is locked, and
// lets the job give them to its requests if they are not those that these have.
func (s *Service) startRepricing(ctx context.Context, tx *store.Tx, orgID string, own orgPrices) error {
	if hash := s.Prices.Before(own.models).Hash(); hash != own.tableHash {
		start := ""
		own.tableHash, own.repriceAfter = hash, &start
	}
	if err := updatePrices(ctx, tx, orgID, own); err != nil || own.repriceAfter == nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, reprice{OrgID: orgID}, jobs.For(orgID))
}

// adopt starts repricing where the prices of the installation are no longer those
// that the requests of an organisation have: after a new price file or program.
func (s *Service) adopt(ctx context.Context) error {
	orgs, err := orgsWithPrices(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, orgID := range orgs {
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			own, err := lockPrices(ctx, tx, orgID)
			if err != nil {
				return err
			}
			return s.startRepricing(ctx, tx, orgID, own)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// repriceChunk is how many requests one transaction of the job handles.
const repriceChunk = 500

// reprice gives the requests of an organisation whose price was not reported its
// prices of today, in chunks. It may be interrupted, and run twice: the cursor is
// in cost_prices.
func (s *Service) reprice(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "reprice")
	for done := false; !done; {
		err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
			done, err = s.repriceSome(ctx, tx, orgID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) repriceSome(ctx context.Context, tx *store.Tx, orgID string) (done bool, err error) {
	own, err := pricesByOrg(ctx, tx, orgID)
	if err != nil || own.repriceAfter == nil {
		return true, err
	}
	after, prices := *own.repriceAfter, own.tableHash
	ids, users, err := pricedAfter(ctx, tx, orgID, after, repriceChunk)
	if err != nil {
		return false, err
	}
	// Users first, then the prices, as Ingest does.
	if err := skills.LockUsers(ctx, tx, users); err != nil {
		return false, err
	}
	if own, err = lockPrices(ctx, tx, orgID); err != nil {
		return false, err
	}
	// The cursor alone does not tell: a change at the start of the job leaves it at
	// the start, and requests may have come between those that were read.
	if own.repriceAfter == nil || *own.repriceAfter != after || own.tableHash != prices {
		return false, nil // the prices changed meanwhile, or another job is ahead
	}
	if own.repriceAfter = nil; len(ids) > 0 {
		own.repriceAfter = &ids[len(ids)-1]
	}
	known, err := requestsByID(ctx, tx, ids)
	if err != nil {
		return false, err
	}
	in := newIngestion(tx, orgID, "")
	in.load(known)
	pricer := newPricer(s.Prices.Before(own.models))
	for id, r := range in.after {
		in.after[id] = pricer.priced(r)
	}
	if err := in.write(ctx); err != nil {
		return false, err
	}
	return own.repriceAfter == nil, updatePrices(ctx, tx, orgID, own)
}
