package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// hardware is what a fleet is made of, and how far it may be loaded.
type hardware struct {
	serviceCores, databaseCores int     // of one node
	contention                  float64 // of PostgreSQL
	busy, wait                  float64 // most of a core, in the busiest minute; seconds
	retention                   int     // days
	years                       float64 // in which what has no retention came together
	disk                        float64 // most TB of one PostgreSQL
	coreHour, gigabyteMonth     float64
}

func typicalHardware() hardware {
	return hardware{
		serviceCores: 2, databaseCores: 32, contention: 0.03, busy: 0.6, wait: 0.1, retention: 90, years: 1, disk: 16,
		coreHour: 0.05, gigabyteMonth: 0.12,
	}
}

func (h hardware) check() error {
	switch {
	case h.serviceCores < 1 || h.databaseCores < 2:
		return errors.New("-service-cores must be at least 1, -database-cores at least 2")
	case h.contention < 0 || h.contention >= 1 || h.busy <= 0 || h.busy >= 1:
		return errors.New("-contention and -busy are shares below 1")
	case h.retention < 1 || h.disk <= 0 || h.years < 0:
		return errors.New("-retention must be at least a day, -database-disk more than 0, -years not negative")
	}
	return nil
}

// parallel is how much more than one core so many cores do, by Amdahl's law. The benchmark
// has seen two cores only.
func (h hardware) parallel(cores int) float64 {
	return float64(cores) / (1 + h.contention*float64(cores-1))
}

func (h hardware) holds(q queue) bool { return q.busiest <= h.busy && q.wait <= h.wait }

// A fleet is the answer.
type fleet struct {
	day               trace
	processes         int // of the service, one more than needed
	service           queue
	shards, cores     int // PostgreSQL: how many, with how many cores each
	database          queue
	disk              float64 // bytes of one shard, in steady state
	monthly, sessions float64
}

// workdays of a month.
const workdays = 22

// plan finds the smallest fleet for a day.
func plan(costs map[string]cost, d day, h hardware) fleet {
	f := fleet{day: play(costs, d), sessions: float64(d.developers) * d.sessions * workdays}
	for f.processes = 1; ; f.processes++ {
		f.service = serve(f.day.service, float64(f.processes*h.serviceCores))
		if h.holds(f.service) {
			break
		}
	}
	f.processes++ // one may be replaced or broken at any time
	disk := 0.0
	for kind, times := range d.times() {
		c := costs[kind]
		disk += times * ((c.disk-c.kept)*float64(h.retention)*workdays/30 + c.kept*h.years*12*workdays)
	}
	for f.shards = int(math.Ceil(disk / (h.disk * 1e12))); ; f.shards++ {
		part := make([]float64, len(f.day.database))
		for i, work := range f.day.database {
			part[i] = work / float64(f.shards)
		}
		if f.cores, f.database = h.smallest(part); f.cores > 0 {
			break
		}
	}
	f.disk = disk / float64(f.shards)
	cores := float64(f.processes*h.serviceCores + 2*f.shards*f.cores) // each PostgreSQL has a standby
	f.monthly = cores*730*h.coreHour + 2*f.disk*float64(f.shards)/1e9*h.gigabyteMonth
	return f
}

// smallest finds the cores of one PostgreSQL, 0 if none are enough.
func (h hardware) smallest(arrivals []float64) (int, queue) {
	for cores := 2; cores <= h.databaseCores; cores *= 2 {
		if q := serve(arrivals, h.parallel(cores)); h.holds(q) {
			return cores, q
		}
	}
	return 0, queue{}
}

func printPlan(out io.Writer, f fleet, d day, h hardware) {
	times := d.times()
	fmt.Fprintf(out, "%s developers: %s sessions, %s records, %s pages a working day; %s records/s in the busiest minute\n\n",
		short(float64(d.developers)), short(float64(d.developers)*d.sessions),
		short(times[record]), short(times[page]), short(f.day.records))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tnodes\tbusiest minute\twait p99")
	fmt.Fprintf(w, "service\t%d x %d cores, one of them spare\t%.0f %%\t%.0f ms\n",
		f.processes, h.serviceCores, 100*f.service.busiest, 1000*f.service.wait)
	fmt.Fprintf(w, "PostgreSQL\t%d x %d cores, and a standby each\t%.0f %%\t%.0f ms\n",
		f.shards, f.cores, 100*f.database.busiest, 1000*f.database.wait)
	_ = w.Flush() // a tabwriter fails as its writer does, which prints to a terminal
	fmt.Fprintf(out, "\nlog of each PostgreSQL  %s/s in the busiest minute\n", bytes(f.day.wal/float64(f.shards)))
	fmt.Fprintf(out, "disk of each PostgreSQL %s with %d days of records and the figures of %g years\n",
		bytes(f.disk), h.retention, h.years)
	fmt.Fprintf(out, "cost                    %.0f a month, %.2f per million sessions, at %g per core and hour and %g per GB and month\n",
		f.monthly, f.monthly/f.sessions*1e6, h.coreHour, h.gigabyteMonth)
	if f.shards > 1 {
		fmt.Fprintf(out, "\nOne PostgreSQL of %d cores and %g TB does not hold this: docs/scale.md says how to shard.\n",
			h.databaseCores, h.disk)
	}
}

// printNodes shows how many developers one PostgreSQL carries.
func printNodes(out io.Writer, costs map[string]cost, d day, h hardware) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "PostgreSQL\tdevelopers\tsessions a day\trecords/s, busiest minute\tlog\tdisk\tends by\tcost per million sessions\n")
	for _, cores := range []int{2, 8, 32} {
		one := h
		one.databaseCores = cores
		most, step := 0, 1<<22
		for ; step >= 100; step /= 2 {
			d.developers = most + step
			if f := plan(costs, d, one); f.shards == 1 {
				most += step
			}
		}
		d.developers = most
		f, ends := plan(costs, d, one), "processors"
		if f.disk > 0.99*h.disk*1e12 {
			ends = "disk"
		}
		fmt.Fprintf(w, "%d cores\t%s\t%s\t%s\t%s/s\t%s\t%s\t%.2f\n", cores, short(float64(most)), short(float64(most)*d.sessions),
			short(f.day.records), bytes(f.day.wal), bytes(f.disk), ends, f.monthly/f.sessions*1e6)
	}
	_ = w.Flush()
}

// short shows a number with two digits.
func short(f float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if f >= unit.size {
			return fmt.Sprintf("%.*f%s", digits(f/unit.size), f/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f", f)
}

func bytes(f float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}} {
		if f >= unit.size {
			return fmt.Sprintf("%.*f%s", digits(f/unit.size), f/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f KB", f/1e3)
}

// digits behind the point that make two in all.
func digits(f float64) int { return max(0, 1-int(math.Floor(math.Log10(f)))) }

// weighted are values with weights, of which a quantile is wanted.
type weighted struct{ all [][2]float64 }

func (w *weighted) add(value, weight float64) { w.all = append(w.all, [2]float64{value, weight}) }

func (w *weighted) quantile(q float64) float64 {
	slices.SortFunc(w.all, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	total, sum := 0.0, 0.0
	for _, v := range w.all {
		total += v[1]
	}
	for _, v := range w.all {
		if sum += v[1]; sum >= q*total {
			return v[0]
		}
	}
	return 0
}
