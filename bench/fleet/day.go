package main

import (
	"errors"
	"math"
	"math/rand/v2"
)

// A day is what happens on a working day.
type day struct {
	developers, zones                                    int
	sessions, records, pages, syncs, downloads, versions float64 // of a developer; records of a session
	batch                                                float64 // records that an agent sends at once
	seed                                                 uint64
}

// typicalDay is an assumption, to be replaced by what a company knows of itself.
func typicalDay() day {
	return day{
		developers: 50_000, zones: 3, batch: 50, seed: 1,
		sessions: 12, records: 40, pages: 2, syncs: 12, downloads: 1, versions: 0.05,
	}
}

func (d day) check() error {
	switch {
	case d.developers < 1:
		return errors.New("-developers must be at least 1")
	case d.zones < 1 || d.zones > 24:
		return errors.New("-zones must be 1 to 24")
	case min(d.sessions, d.records, d.pages, d.versions) < 0:
		return errors.New("what a developer does cannot be negative")
	}
	return nil
}

// times is how often each kind of thing happens in the day.
func (d day) times() map[string]float64 {
	n := float64(d.developers)
	return map[string]float64{
		record: n * d.sessions * d.records, page: n * d.pages, sync: n * d.syncs, download: n * d.downloads, version: n * d.versions,
	}
}

const seconds = 24 * 60 * 60

// share is the part of the day's load that falls into a second: people work in
// the morning and in the afternoon, each zone in its own.
func (d day) share(second int) float64 {
	const hour = 3600.0
	bump := func(t, middle, width float64) float64 {
		away := math.Abs(t - middle)
		away = min(away, seconds-away) // the day before and the day after are alike
		return math.Exp(-away*away/(2*width*width)) / (width * math.Sqrt(2*math.Pi))
	}
	sum := 0.0
	for zone := range d.zones {
		t := math.Mod(float64(second)+float64(zone)*seconds/24, seconds) // neighbours, not all around the world
		sum += 0.5*bump(t, 10.5*hour, 1.2*hour) + 0.5*bump(t, 15*hour, 1.4*hour)
	}
	return sum / float64(d.zones)
}

// A trace is the work that arrives in each second, in seconds of a core, and
// what the busiest minute brings.
type trace struct {
	service, database []float64
	records, wal      float64 // a second, in the busiest minute
}

// play lets a day happen. Arrivals are independent of each other; records come in batches.
func play(costs map[string]cost, d day) trace {
	random := rand.New(rand.NewPCG(d.seed, 1)) // not a secret
	t := trace{service: make([]float64, seconds), database: make([]float64, seconds)}
	times := d.times()
	records, wal := 0.0, 0.0
	for second := range seconds {
		if second%60 == 0 {
			records, wal = 0, 0
		}
		for _, kind := range kinds() {
			size := 1.0
			if kind == record {
				size = d.batch
			}
			n := size * poisson(random, times[kind]/size*d.share(second))
			t.service[second] += n * costs[kind].service
			t.database[second] += n * costs[kind].database
			wal += n * costs[kind].wal
			if kind == record {
				records += n
			}
		}
		t.records, t.wal = max(t.records, records/60), max(t.wal, wal/60)
	}
	return t
}

// poisson draws a number of arrivals: exactly where few are expected, as a normal
// distribution where many are.
func poisson(random *rand.Rand, expected float64) float64 {
	if expected > 50 {
		return max(0, math.Round(expected+math.Sqrt(expected)*random.NormFloat64()))
	}
	n, p := 0.0, random.Float64()
	for limit := math.Exp(-expected); p > limit; n++ {
		p *= random.Float64()
	}
	return n
}

// A queue is what a capacity makes of work that arrives.
type queue struct {
	busiest float64 // minute, as a share of the capacity
	wait    float64 // seconds that 99 of 100 units of work wait less than
}

// serve works off what arrives, with so many seconds of a core a second, first come
// first served.
func serve(arrivals []float64, capacity float64) queue {
	var q queue
	waits := &weighted{}
	left, minute := 0.0, 0.0
	for second, work := range arrivals {
		if second%60 == 0 {
			minute = 0
		}
		minute += work
		q.busiest = max(q.busiest, minute/60/capacity)
		// Work arrives evenly within its second: only what is left at its end waits.
		left = max(0, left+work-capacity)
		waits.add(left/capacity, work)
	}
	q.wait = waits.quantile(0.99)
	return q
}
