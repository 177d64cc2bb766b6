package telemetry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A count is a point of a counter that never begins anew: its weight is how
// many there have been since the series began.
type count struct {
	skills.Observation
	series string
	index  int // among the data points of the body
}

// A counter is what is remembered of a series.
type counter struct {
	// Points are those at which the value changed, in the order of their times.
	Points []point `json:"points"`
	// Revision grows whenever the points change.
	Revision int64 `json:"revision"`
}

type point struct {
	Micros int64 `json:"t"`
	Value  int64 `json:"v"`
}

// maxPoints bounds what is remembered of a series.
const maxPoints = 10_000

var errManyPoints = errors.New("its series has changed too often; start a new one")

// add puts a point in its place in time. It does not matter in which order
// points come, or how often.
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
		c.Points[i] = p // it changed earlier than we knew
	case len(c.Points) == maxPoints:
		return errManyPoints
	default:
		c.Points = slices.Insert(c.Points, i, p)
	}
	c.Revision++
	return nil
}

// increments are by how much the counter grew, and when. A value below the one
// before means that it began anew at 0. One more point never makes fewer
// increments.
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

// countUp turns counts into observations of what they add. It also returns
// those that could not be taken.
func countUp(ctx context.Context, tx *store.Tx, c access.Caller, counts []count) ([]skills.Observation, []rejection, error) {
	counters, err := lockStates[counter](ctx, tx, c, each(counts, func(c count) string { return c.series }))
	if err != nil {
		return nil, nil, err
	}
	var refused []rejection
	before, templates := map[string][]point{}, map[string]skills.Observation{}
	for _, n := range counts {
		if _, ok := templates[n.series]; !ok {
			templates[n.series], before[n.series] = n.Observation, counters[n.series].increments()
		}
		if err := counters[n.series].add(point{store.Micros(n.At), n.Weight}); err != nil {
			refused = append(refused, rejection{Kind: "data point", Index: n.index, Message: err.Error()})
		}
	}
	var changed []skills.Observation
	for series, o := range templates {
		changed = append(changed, counters[series].changes(c, series, before[series], o)...)
	}
	return changed, refused, writeStates(ctx, tx, counters)
}

// changes are the increments that are not as they were before. They are named
// by their place in the series, and the newest revision of each counts.
func (c *counter) changes(caller access.Caller, series string, before []point, o skills.Observation) (all []skills.Observation) {
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
