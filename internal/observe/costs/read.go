package costs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// Texts knows what is in the registry. The package catalog, above this one, implements it.
type Texts interface {
	// TextTokens estimates the tokens of the texts of skills that are in the registry,
	// by skill: of name and description, and of SKILL.md.
	TextTokens(ctx context.Context, skillIDs []string) (listing, body map[string]int64, err error)
}

// CostsOf returns the costs of skills or versions of an organisation from a day on
// (counted from the epoch, UTC), without those that have no request.
func (s *Service) CostsOf(
	ctx context.Context, orgID string, subjects []string, since int64,
) (_ map[string]pricing.Cost, err error) {
	defer fault.Wrap(&err, "costs")
	sums, err := daySums(ctx, s.DB, append([]string{orgID}, subjects...), since)
	if err != nil {
		return nil, err
	}
	org := sums[orgID]
	delete(sums, orgID)
	histograms, err := histogramsOf(ctx, s.DB, subjects, since)
	if err != nil {
		return nil, err
	}
	context, err := s.contextCosts(ctx, orgID, subjects, org, since)
	if err != nil {
		return nil, err
	}
	all := map[string]pricing.Cost{}
	for id, d := range sums {
		if d.requests == 0 {
			continue
		}
		c := d.cost()
		c.PerUseP50, c.PerUseP95 = histograms[id].quantile(50), histograms[id].quantile(95)
		c.Uses = histograms[id].uses()
		c.PerUseLow = histograms[id].at(int64(stats.MedianRank(int(c.Uses))))
		c.StandingPerSession, c.LoadPerUse = context.standing(id, org), context.load(id, d)
		all[id] = c
	}
	return all, nil
}

func (d dayCount) cost() pricing.Cost {
	c := pricing.Cost{
		Currency: "USD", Requests: d.requests, UnpricedRequests: d.unpriced,
		Tokens: pricing.CostTokens{Input: d.input, Output: d.output, CacheRead: d.cacheRead, CacheWrite: d.cacheWrite},
		Total:  d.total(),
	}
	if d.passRateSum > 0 {
		c.PerSuccess = dollars(divide(d.gradedMicros*billion, d.passRateSum))
	}
	if priced := d.requests - d.unpriced; priced > 0 {
		basis := "mixed"
		switch d.reported {
		case priced:
			basis = "reported"
		case 0:
			basis = "priced"
		}
		c.Basis = &basis
	}
	return c
}

// total is the money that is known, nil if there are requests and all of them are
// unpriced.
func (d dayCount) total() *float64 {
	if d.requests > 0 && d.unpriced == d.requests {
		return nil
	}
	return dollars(d.micros)
}

// billion is the unit of pass rates, see skills.SessionGrade.
const billion = 1_000_000_000

func dollars(micros int64) *float64 {
	d := pricing.Dollars(micros)
	return &d
}

// divide rounds half up. Neither number is negative.
func divide(a, b int64) int64 { return (a + b/2) / b }

// A histogram is the uses of a subject in buckets of rising cost.
type histogram []bucketCount

// quantile returns the cost of the use at the nearest rank: the mean of its bucket,
// which is exact where all costs of the bucket are equal. It is nil without uses.
func (h histogram) quantile(percent int64) *float64 {
	return h.at((percent*h.uses() + 99) / 100)
}

func (h histogram) uses() (count int64) {
	for _, b := range h {
		count += b.uses
	}
	return count
}

// at is the cost of the use at a rank, counted from 1; nil for 0.
func (h histogram) at(rank int64) *float64 {
	if rank == 0 {
		return nil
	}
	for _, b := range h {
		if rank -= b.uses; rank <= 0 {
			return dollars(divide(b.micros, b.uses))
		}
	}
	return nil
}

// contextCosts are what it takes to estimate the cost of a skill's texts in the
// context of agents.
type contextCosts struct {
	listing, body map[string]int64 // tokens
	price         *pricing.Price   // of the model that is used most
}

func (s *Service) contextCosts(
	ctx context.Context, orgID string, skillIDs []string, org dayCount, since int64,
) (c contextCosts, err error) {
	if s.Texts == nil || org.requests == 0 {
		return c, nil
	}
	if c.listing, c.body, err = s.Texts.TextTokens(ctx, skillIDs); err != nil || len(c.listing)+len(c.body) == 0 {
		return c, err
	}
	_, c.price, err = s.usualPrice(ctx, orgID, since)
	return c, err
}

// usualPrice returns the model that the organisation used most from a day on, of those
// whose price is known, and the price; nil without one.
func (s *Service) usualPrice(ctx context.Context, orgID string, since int64) (model string, _ *pricing.Price, err error) {
	models, err := modelsByUse(ctx, s.DB, orgID, since)
	if err != nil {
		return "", nil, err
	}
	table, err := s.Table(ctx, orgID)
	for _, m := range models {
		if price, ok := table.Lookup(m.Model, time.Now()); ok {
			return m.Model, &price, err
		}
	}
	return "", nil, err
}

// A Standing is what it takes to tell the cost of text that all sessions of an
// organisation have in their context.
type Standing struct {
	Sessions int64  // with model requests, that began in the window
	Model    string // the one that is used most, of those whose price is known; "" if there is none

	price    *pricing.Price
	requests int64 // of the sessions
}

// PerSession is what so many tokens cost a session, in dollars: they are written to the
// cache once and read by every later request. It is nil if the price is unknown, or
// the number of requests.
func (s Standing) PerSession(tokens int64) *float64 {
	if s.price == nil || s.Sessions == 0 {
		return nil
	}
	cost := s.price.Standing(tokens, float64(s.requests)/float64(s.Sessions))
	return &cost
}

// Standing returns that of the last days, today included.
func (s *Service) Standing(ctx context.Context, orgID string, days int) (st Standing, err error) {
	defer fault.Wrap(&err, "costs")
	since := dayOf(time.Now()) - int64(days) + 1
	sums, err := daySums(ctx, s.DB, []string{orgID}, since)
	if err != nil {
		return st, err
	}
	org := sums[orgID]
	st.Sessions, st.requests = org.sessions, org.sessionRequests
	st.Model, st.price, err = s.usualPrice(ctx, orgID, since)
	return st, err
}

// frame is about what agents put around a name and a description, in tokens.
const frame = 20

// standing is what it costs to list the skill in a session of the organisation: its
// name and description are written to the cache once and read by every later
// request.
func (c contextCosts) standing(skillID string, org dayCount) *float64 {
	tokens, ok := c.listing[skillID]
	if !ok || c.price == nil || org.sessions == 0 {
		return nil
	}
	cost := c.price.Standing(tokens+frame, float64(org.sessionRequests)/float64(org.sessions))
	return &cost
}

// load is what it costs to have SKILL.md in the context of a use.
func (c contextCosts) load(skillID string, d dayCount) *float64 {
	tokens, ok := c.body[skillID]
	if !ok || c.price == nil || d.uses == 0 {
		return nil
	}
	cost := c.price.Standing(tokens, float64(d.useRequests)/float64(d.uses))
	return &cost
}

// A Bill is what the requests of an organisation cost in a window, by skill.
type Bill struct {
	Total        *float64
	Unattributed *float64 // of requests that belong to no skill
	Skills       []BillItem
}

// A BillItem is the share of one skill.
type BillItem = api.BillItem

// Bill returns the costs of the last days, today included. The total is the sum
// of the rest.
func (s *Service) Bill(ctx context.Context, orgID string, days int) (b Bill, err error) {
	since := dayOf(time.Now()) - int64(days) + 1
	sums, err := daySums(ctx, s.DB, []string{orgID}, since)
	if err != nil {
		return b, err
	}
	skills, err := skillSums(ctx, s.DB, orgID, since)
	org := sums[orgID]
	rest := org
	for _, k := range skills {
		rest.requests, rest.unpriced, rest.micros = rest.requests-k.requests, rest.unpriced-k.unpriced, rest.micros-k.micros
		b.Skills = append(b.Skills, BillItem{SkillID: k.id, Name: k.name, Total: k.total(), Uses: k.uses})
	}
	b.Total, b.Unattributed = org.total(), rest.total()
	return b, err
}

// A Day is what the requests of an organisation cost on a day.
type Day struct {
	At    time.Time // its begin, UTC
	Total *float64  // nil if no price is known
}

// Days returns what each of the last days cost, today included, oldest first.
func (s *Service) Days(ctx context.Context, orgID string, days int) ([]Day, error) {
	since := dayOf(time.Now()) - int64(days) + 1
	found, err := sumsByDay(ctx, s.DB, orgID, since)
	all := make([]Day, days)
	for i := range all {
		day := since + int64(i)
		all[i] = Day{At: time.Unix(day*24*60*60, 0).UTC(), Total: found[day].total()}
	}
	return all, err
}

// A ModelCount is how many requests a model had.
type ModelCount struct {
	Model    string
	Requests int64
}

// Models returns the models of the last days, the one with the most requests first.
func (s *Service) Models(ctx context.Context, orgID string, days int) ([]ModelCount, error) {
	return modelsByUse(ctx, s.DB, orgID, dayOf(time.Now())-int64(days)+1)
}
