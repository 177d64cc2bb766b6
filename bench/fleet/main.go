// Command fleet plans a deployment by simulation: it takes what one request of
// each kind costs, as `make bench ARGS="-only work -json"` measures it, plays a
// working day of a given number of developers, and prints the smallest fleet
// whose queues stay short.
//
//	go run ./fleet -developers 50000
//	go run ./fleet -nodes
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// recorded are figures of the benchmark on two shared cores.
//
//go:embed figures.json
var recorded []byte

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "fleet:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	d, h := typicalDay(), typicalHardware()
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	figures := flags.String("figures", "", "`FILE` that the benchmark work wrote with -json; a recorded run when empty")
	nodes := flags.Bool("nodes", false, "print what PostgreSQL on one node of 2, 8 and 32 cores carries")
	flags.IntVar(&d.developers, "developers", d.developers, "developers whose agents report")
	flags.IntVar(&d.zones, "zones", d.zones, "time zones that they are spread over, 1 to 24")
	flags.Float64Var(&d.sessions, "sessions", d.sessions, "agent sessions of a developer on a working day")
	flags.Float64Var(&d.records, "records", d.records, "telemetry records of a session")
	flags.Float64Var(&d.pages, "pages", d.pages, "pages of the dashboard that a developer opens on a working day")
	flags.Float64Var(&d.versions, "versions", d.versions, "versions that a developer publishes on a working day")
	flags.Uint64Var(&d.seed, "seed", d.seed, "of the random arrivals")
	flags.IntVar(&h.serviceCores, "service-cores", h.serviceCores, "cores of one process of the service")
	flags.IntVar(&h.databaseCores, "database-cores", h.databaseCores, "most cores of one PostgreSQL")
	flags.Float64Var(&h.disk, "database-disk", h.disk, "most terabytes of one PostgreSQL")
	flags.Float64Var(&h.contention, "contention", h.contention, "share of PostgreSQL's work that does not run in parallel; 0 is a perfect machine")
	flags.Float64Var(&h.busy, "busy", h.busy, "most that a core may be busy in the busiest minute")
	flags.IntVar(&h.retention, "retention", h.retention, "days that records are kept")
	flags.Float64Var(&h.years, "years", h.years, "years for which figures have been kept, which have no retention")
	flags.Float64Var(&h.coreHour, "core-hour", h.coreHour, "price of a core for an hour")
	flags.Float64Var(&h.gigabyteMonth, "gb-month", h.gigabyteMonth, "price of a gigabyte of disk for a month")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := errors.Join(d.check(), h.check()); err != nil {
		return err
	}
	text := recorded
	if *figures != "" {
		var err error
		if text, err = os.ReadFile(*figures); err != nil {
			return err
		}
	}
	costs, err := parseFigures(text)
	if err != nil {
		return err
	}
	if *nodes {
		printNodes(out, costs, d, h)
		return nil
	}
	printPlan(out, plan(costs, d, h), d, h)
	return nil
}

// A cost is what one thing of a kind costs, in seconds of a core and in bytes. Kept are
// those of the disk that no retention deletes.
type cost struct{ service, database, disk, kept, wal float64 }

// Kinds of things that happen, as the benchmark names them.
const (
	record   = "telemetry record"
	page     = "page"
	sync     = "sync"
	download = "download"
	version  = "published version"
)

func kinds() []string { return []string{record, page, sync, download, version} }

// parseFigures reads the benchmark's rows: "work: KIND" has microseconds of the
// service beside PostgreSQL's, "bytes: KIND" what is stored beside the log, "kept: KIND" what stays of it.
func parseFigures(text []byte) (map[string]cost, error) {
	var bench struct {
		Rows []struct {
			Name          string
			Figure, Other float64
		}
	}
	if err := json.Unmarshal(text, &bench); err != nil {
		return nil, err
	}
	costs := map[string]cost{}
	for _, r := range bench.Rows {
		what, kind, _ := strings.Cut(r.Name, ": ")
		c := costs[kind]
		switch what {
		case "work":
			c.service, c.database = r.Figure/1e6, r.Other/1e6
		case "bytes":
			c.disk, c.wal = r.Figure, r.Other
		case "kept":
			c.kept = r.Figure
		}
		costs[kind] = c
	}
	for _, kind := range kinds() {
		if costs[kind].service <= 0 {
			return nil, fmt.Errorf("the figures have no row %q: make them with -only work -json", "work: "+kind)
		}
	}
	return costs, nil
}
