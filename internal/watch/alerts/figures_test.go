package alerts

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

func TestEvaluateCost(t *testing.T) {
	cost := func(perUse float64, uses int64) *pricing.Cost {
		return &pricing.Cost{PerUseP50: &perUse, Requests: 100, Uses: uses}
	}
	wide := func(c *pricing.Cost, low float64) *pricing.Cost {
		c.PerUseLow = &low
		return c
	}
	for name, c := range map[string]struct {
		cost        *pricing.Cost
		sensitivity Sensitivity
		want        verdict
	}{
		"unknown":             {nil, Point, insufficient},
		"no price":            {&pricing.Cost{Requests: 100}, Point, insufficient},
		"four uses":           {cost(9, 4), Point, insufficient},
		"above":               {cost(0.51, 5), Point, breached},
		"at the threshold":    {cost(0.5, 5), Point, healthy},
		"five are not proof":  {cost(9, 5), Confident, insufficient},
		"above, not surely":   {wide(cost(0.9, 9), 0.5), Confident, healthy},
		"above, and surely":   {wide(cost(0.9, 9), 0.51), Confident, breached},
		"sequential the same": {wide(cost(0.9, 9), 0.5), Sequential, healthy},
	} {
		if got := (Rule{Type: CostAbove, Threshold: 0.5, Sensitivity: c.sensitivity}).evaluate(figures{cost: c.cost}, noon); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestEvaluateOffers(t *testing.T) {
	for name, c := range map[string]struct {
		offers      skills.Offers
		sensitivity Sensitivity
		want        verdict
	}{
		"too few now":             {skills.Offers{Offered: 19, OfferedBefore: 100, UsedBefore: 50}, Point, insufficient},
		"too few before":          {skills.Offers{Offered: 100, OfferedBefore: 19, UsedBefore: 19}, Point, insufficient},
		"half as often":           {skills.Offers{Offered: 100, Used: 25, OfferedBefore: 100, UsedBefore: 50}, Point, healthy},
		"less than half":          {skills.Offers{Offered: 100, Used: 24, OfferedBefore: 100, UsedBefore: 50}, Point, breached},
		"less, but not surely":    {skills.Offers{Offered: 20, Used: 1, OfferedBefore: 20, UsedBefore: 4}, Confident, healthy},
		"less, and surely":        {skills.Offers{Offered: 200, Used: 10, OfferedBefore: 200, UsedBefore: 80}, Sequential, breached},
		"more uses than offers":   {skills.Offers{Offered: 20, Used: 40, OfferedBefore: 20, UsedBefore: 20}, Point, healthy},
		"never used, never to be": {skills.Offers{Offered: 50, OfferedBefore: 50}, Point, healthy},
	} {
		r := Rule{Type: SilentFall, Threshold: 0.5, Sensitivity: c.sensitivity}
		if got := r.evaluate(figures{offers: c.offers}, noon); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
