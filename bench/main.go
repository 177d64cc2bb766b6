// Command bench measures Whetstone beside peers and limits, all in one run on
// one machine, so that its ratios mean something on every machine. It builds
// the real binary, starts it and its peers on loopback, and fails if a limit
// is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

// A benchmark measures one thing and returns what it found.
type benchmark struct {
	name string
	doc  string
	run  func(ctx context.Context, l *lab) ([]row, error)
}

func benchmarks() []benchmark {
	return []benchmark{
		{"start", "cold start, idle memory and the binary itself", benchStart},
		{"me", "GET /api/v1/me beside a bare handler", benchMe},
		{"sqlite-group", "grouped single-row inserts beside the driver's batches", benchGroup},
		{"publish", "POST of 100 KB versions beside Verdaccio", benchPublish},
		{"download", "GET of an archive beside Verdaccio and a file server", benchDownload},
		{"git", "git clone of 1,000 skills beside git's own server", benchGit},
		{"sync", "POST of 1,000 installations on small and large registries", benchSync},
		{"mcp", "skills/list of 5,000 skills", benchMCP},
		{"catalog", "GET of the catalogs of 5,000 skills, from memory and first, with one version and 20", benchCatalog},
		{"ingest", "POST of telemetry beside the driver's batches", benchIngest},
		{"ingest-peer", "POST of telemetry beside PocketBase", benchIngestPeer},
		{"retention", "the end of the retention of 10 M records, and what others wait for it", benchRetention},
		{"skills-read", "GET of skills as observations grow", benchSkillsRead},
		{"sessions", "GET of sessions as they grow, and of a long one", benchSessions},
		{"home", "the first page of the dashboard: its weight, and how soon it is there", benchHome},
		{"scale", "what one organisation waits for among 10 and among 10,000", benchScale},
		{"notice", "from a guilty grade to the webhook", benchNotice},
		{"sweep", "one evaluation of 100 alerts on 1,000 skills", benchSweep},
		{"eval", "a run of 10,000 deterministic cases beside promptfoo", benchEvals},
		{"eval-judged", "a run of 500 judged cases beside its judge's own time", benchJudged},
		{"sandbox", "what the sandbox costs a program that does nothing", benchSandbox},
		{"gateway", "a model's answer by the door of the sandbox beside the model itself", benchGateway},
		{"trial", "what a trial costs beyond its agent, in an environment of 1 GB", benchTrial},
		{"busy-trials", "GET /api/v1/me while eight trials want all processors", benchBusyTrials},
		{"source", "GET of a source with 10,000 suggestions and reviews", benchSource},
		{"signals", "POST of signals beside the driver's batches", benchSignals},
		{"signals-read", "GET of the overview as signals grow", benchSignalsRead},
		{"backup", "backup and restore as data grow", benchBackup},
		{"validate", "check of a skill of 200 files", benchValidate},
		{"work", "what each kind of request costs the service and PostgreSQL", benchWork},
		{"compare", "a comparison of four versions beside the four runs, and the decision of the largest", benchCompare},
		{"gate", "the decision of a large gate, and a push with the gate off", benchGate},
	}
}

// runLimit ends a run that hangs.
const runLimit = time.Hour

// errMissed says that the run is over and a limit was missed.
var errMissed = errors.New("a limit was missed")

func main() {
	if len(os.Args) > 1 && os.Args[1] == relay.Command { // as the service's own binary
		os.Exit(relay.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == peerCommand {
		exit(servePeer(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	stop()
	exit(err)
}

func exit(err error) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only                    string
	list, quick, full, json bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "run only these benchmarks, as `NAME,...`")
	flags.BoolVar(&o.list, "list", false, "list the benchmarks")
	flags.BoolVar(&o.quick, "quick", false, "measure for a short time: figures are rough")
	flags.BoolVar(&o.full, "full", false, "fill in 100 million observations for scale: half an hour, and 45 GB of disk")
	flags.BoolVar(&o.json, "json", false, "print JSON, for scripts")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q; benchmarks are chosen with -only", flags.Arg(0))
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, b := range chosen {
			fmt.Fprintf(out, "%-14s%s\n", b.name, b.doc)
		}
		return nil
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close()
	t := &table{Cores: runtime.NumCPU(), requireAll: os.Getenv("WHETSTONE_REQUIRE") == "all"}
	for _, b := range chosen {
		fmt.Fprintf(os.Stderr, "bench: %s: %s\n", b.name, b.doc)
		rows, err := b.run(ctx, l)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.add(b.name, rows, err)
	}
	if err := t.print(out, o.json); err != nil {
		return err
	}
	if !t.good() {
		return errMissed
	}
	return nil
}

// choose finds the benchmarks of a list of names; an empty one means all.
func choose(names string) ([]benchmark, error) {
	all := benchmarks()
	if names == "" {
		return all, nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no benchmark %q; -list shows them", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
