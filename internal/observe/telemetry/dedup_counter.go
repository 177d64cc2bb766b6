package telemetry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Deduplication of cumulative counters.

// A counterPoint is a data point of a cumulative counter: its weight is the total
// since the series began.
type counterPoint struct {
	skills.Observation
	Series string
	Index  int // among the data points of the body
}

// A pointRefusal is a data point that is not counted.
type pointRefusal struct {
	Index int
	Err   error
}

// A counter is the stored state of a series.
type counter struct {
	// Points are those at which the value changed, by time.
	Points []point `json:"points"`
	// Revision increases whenever the points change.
	Revision int64 `json:"revision"`
}

type point struct {
	Micros int64 `json:"t"`
	Value  int64 `json:"v"`
}

// maxPoints bounds the stored state of a series.
const maxPoints = 10_000

var errManyPoints = errors.New("its series has changed too often; start a new one")

// add inserts a point. It is idempotent, and points may arrive in any order.
func (c *counter) add(p point) error {
	i, found := slices.BinarySearchFunc(c.Points, p.Micros, func(known point, micros int64) int {
		return cmp.Compare(known.Micros, micros)
	})
	before := int64(0)
	if i > 0 {
		before = c.Points[i-1].Value
	}
	switch {
	case found:
		return nil
	case p.Value == before:
		return nil
	case i < len(c.Points) && c.Points[i].Value == p.Value:
		c.Points[i] = p // the value changed earlier than was known
	case len(c.Points) == maxPoints:
		return errManyPoints
	default:
		c.Points = slices.Insert(c.Points, i, p)
	}
	c.Revision++
	return nil
}

// increments returns by how much the counter grew, and when. A value below the
// one before means a reset to 0. Another point never makes fewer increments.
func (c *counter) increments() (all []point) {
	before := int64(0)
	for _, p := range c.Points {
		if p.Value < before {
			before = 0
		}
		if p.Value > before {
			all = append(all, point{p.Micros, p.Value - before})
		}
		before = p.Value
	}
	return all
}

// countIncrements turns the points of cumulative counters into observations of
// their increments. It also returns the points that are refused.
func countIncrements(
	ctx context.Context, tx *store.Tx, c access.Caller, points []counterPoint,
) (changed []skills.Observation, refused []pointRefusal, err error) {
	series := make([]string, len(points))
	for i, p := range points {
		series[i] = p.Series
	}
	counters, err := lockStates[counter](ctx, tx, c, series)
	if err != nil {
		return nil, nil, err
	}
	before, templates := map[string][]point{}, map[string]skills.Observation{}
	for _, p := range points {
		if _, ok := templates[p.Series]; !ok {
			templates[p.Series], before[p.Series] = p.Observation, counters[p.Series].increments()
		}
		if err := counters[p.Series].add(point{store.Micros(p.At), p.Weight}); err != nil {
			refused = append(refused, pointRefusal{p.Index, err})
		}
	}
	for series, o := range templates {
		changed = append(changed, counters[series].changes(c, series, before[series], o)...)
	}
	return changed, refused, updateStates(ctx, tx, counters)
}

// changes returns the increments that differ from those before. The id of an
// increment is its index in the series, so that skills replaces it; the revision
// is its version.
func (c *counter) changes(
	caller access.Caller, series string, before []point, o skills.Observation,
) (all []skills.Observation) {
	for i, now := range c.increments() {
		if i < len(before) && before[i] == now {
			continue
		}
		o.ID = skills.ID(caller.OrgID, caller.UserID, "otlp_count", series+"\n"+strconv.Itoa(i))
		o.At, o.Weight, o.NormalizedAt = time.UnixMicro(now.Micros).UTC(), now.Value, time.UnixMicro(c.Revision).UTC()
		all = append(all, o)
	}
	return all
}
