// Package gating compares the skill in a folder with a version in the registry, as
// a gate of the server does, before it is pushed.
package gating

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Options say what to compare.
type Options struct {
	Archive  []byte // of the new version
	Entry    client.Entry
	Against  string   // a version; "": the current one
	Suites   []string // ids; empty: those of the entry's policy
	Trials   int      // 0: as the policy says
	MinCases int      // -1: as the policy says
	// Progress, if not nil, is called with the number of finished trials of a run.
	Progress func(done, total int)
}

// Compare tries both on the server and decides.
func Compare(ctx context.Context, c *client.Client, o Options) (g gateapi.Gate, err error) {
	policy, err := c.GatePolicy(ctx, o.Entry.ID)
	if err != nil {
		return g, err
	}
	if len(o.Suites) == 0 {
		o.Suites = policy.Suites
	}
	if len(o.Suites) == 0 {
		return g, fault.Invalid("suite", "name a suite with --suite: the gate policy of %s has none", o.Entry.Name)
	}
	if o.Trials == 0 {
		o.Trials = policy.Trials
	}
	if o.MinCases < 0 {
		o.MinCases = policy.MinCases
	}
	snapshotID, err := upload(ctx, c, o)
	if err != nil {
		return g, err
	}
	x := &comparison{
		client: c, options: o, before: client.EvalSubject{EntryID: o.Entry.ID, Version: o.Against},
		now: client.EvalSubject{SnapshotID: snapshotID},
	}
	d, err := x.decide(ctx)
	var failed runFailed
	if errors.As(err, &failed) {
		d, err = decision.Decision{Verdict: decision.Inconclusive, Reason: failed.Error()}, nil
	}
	if err != nil {
		return g, err
	}
	return x.output(d), nil
}

// upload stores the folder as a snapshot of a cloud source that is kept for
// this: a snapshot can be run, and is not published.
func upload(ctx context.Context, c *client.Client, o Options) (snapshotID string, err error) {
	u := client.SourceUpload{Label: "gate: " + o.Entry.Name, Archive: o.Archive}
	all, err := c.Sources(ctx, "upload")
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.Label == u.Label {
			u.SourceID = s.ID
			break
		}
	}
	taken, err := c.UploadSource(ctx, u)
	return taken.Snapshot.ID, err
}

// A comparison is one that is being made.
type comparison struct {
	client      *client.Client
	options     Options
	now, before client.EvalSubject
	against     string // the version that was found
	suites      []decision.Suite
	names       []map[string]string // of cases by id, suite by suite
	runIDs      [][]string
}

// decide screens all cases and confirms those that look worse.
func (x *comparison) decide(ctx context.Context) (d decision.Decision, err error) {
	for i, id := range x.options.Suites {
		x.suites, x.runIDs = append(x.suites, decision.Suite{ID: id}), append(x.runIDs, nil)
		fresh, current, err := x.runBoth(ctx, i, x.options.Trials, nil)
		if err != nil {
			return d, err
		}
		names, others := map[string]string{}, byCase(current)
		for _, one := range fresh.Cases {
			names[one.ID] = one.Name
			c := decision.Case{ID: one.ID}
			c.New, c.Current = paired(one, others[one.ID])
			x.suites[i].Cases = append(x.suites[i].Cases, c)
		}
		x.names, x.against = append(x.names, names), current.Subject.Label
	}
	policy := decision.Policy{MinCases: x.options.MinCases}
	if d = decision.Decide(x.suites, policy); d.Again == nil {
		return d, nil
	}
	for i, s := range x.suites {
		ids := d.Again[s.ID]
		if len(ids) == 0 {
			continue
		}
		fresh, current, err := x.runBoth(ctx, i, decision.FreshTrials, ids)
		if err != nil {
			return d, err
		}
		again, others := byCase(fresh), byCase(current)
		for k, one := range s.Cases {
			s.Cases[k].FreshNew, s.Cases[k].FreshCurrent = paired(again[one.ID], others[one.ID])
		}
	}
	// Cases whose every fresh trial is an error stay as they are: they were asked once.
	return decision.Decide(x.suites, policy), nil
}

// runBoth runs a suite, or some cases of it, on both versions with one seed.
func (x *comparison) runBoth(ctx context.Context, i, trials int, ids []string) (fresh, current client.EvalRun, err error) {
	n := client.NewEvalRun{Subject: x.now, Trials: trials, CaseIDs: ids}
	suite := x.suites[i].ID
	if fresh, err = x.client.StartEvalRun(ctx, suite, n); err != nil {
		return fresh, current, err
	}
	n.Subject, n.Seed = x.before, fresh.Seed
	if current, err = x.client.StartEvalRun(ctx, suite, n); err != nil {
		return fresh, current, err
	}
	x.runIDs[i] = append(x.runIDs[i], fresh.ID, current.ID)
	for _, r := range []*client.EvalRun{&fresh, &current} {
		if *r, err = x.await(ctx, r.ID); err != nil {
			return fresh, current, err
		}
	}
	return fresh, current, nil
}

// runFailed is the error of a run without a result.
type runFailed struct{ id, status, reason string }

func (e runFailed) Error() string {
	return fmt.Sprintf("the run %s has %s: %s", e.id, e.status, e.reason)
}

func (x *comparison) await(ctx context.Context, id string) (client.EvalRun, error) {
	_, err := x.client.WatchEvalRun(ctx, id, func(e client.EvalEvent) {
		if e.Progress != nil && x.options.Progress != nil {
			x.options.Progress(e.Progress.Done, e.Progress.Total)
		}
	})
	if err != nil {
		return client.EvalRun{}, err
	}
	run, err := x.client.EvalRun(ctx, id)
	if err == nil && run.Status != "succeeded" {
		failed := runFailed{id: id, status: run.Status}
		if run.Error != nil {
			failed.reason = *run.Error
		}
		return run, failed
	}
	return run, err
}

func byCase(r client.EvalRun) map[string]client.EvalCase {
	all := make(map[string]client.EvalCase, len(r.Cases))
	for _, c := range r.Cases {
		all[c.ID] = c
	}
	return all
}

// paired counts as many decided trials of both versions, as the gate does.
func paired(fresh, current client.EvalCase) (a, b decision.Count) {
	x, y := decided(fresh), decided(current)
	n := min(len(x), len(y))
	for i := range n {
		a.Decided, b.Decided = a.Decided+1, b.Decided+1
		if x[i] {
			a.Passed++
		}
		if y[i] {
			b.Passed++
		}
	}
	return a, b
}

func decided(c client.EvalCase) (passed []bool) {
	for _, t := range c.Trials {
		if t.Variant == "skill" && (t.Verdict == "pass" || t.Verdict == "fail") {
			passed = append(passed, t.Verdict == "pass")
		}
	}
	return passed
}

func (x *comparison) output(d decision.Decision) gateapi.Gate {
	verdict, at := string(d.Verdict), store.Now()
	g := gateapi.Gate{
		EntryID: x.options.Entry.ID, Against: &x.against, Mode: "report", Status: "decided", Verdict: &verdict, Reason: d.Reason,
		Suites: []gateapi.Suite{}, Floors: []gateapi.Floor{}, FalseBlockRate: decision.FalseBlockRate,
		CreatedAt: httpapi.Time(at), DecidedAt: httpapi.NullTime(&at),
	}
	for i, f := range d.Suites {
		g.Suites = append(g.Suites, outcome.Suite(f, x.suites[i].Cases, x.names[i], x.runIDs[i]))
	}
	return g
}

// Formats are what Write can write.
const Formats = "markdown,json,junit,sarif"

// Write encodes the result.
func Write(w io.Writer, g gateapi.Gate, format, skillFile string) error {
	switch format {
	case "junit":
		return outcome.JUnit(w, g)
	case "markdown":
		return outcome.Markdown(w, g)
	}
	var value any = g
	if format == "sarif" {
		value = outcome.SARIF(g, skillFile)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}
