package comparisons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
)

// A questionKind is what the judge is asked about two outputs.
type questionKind string

const (
	ordinary    questionKind = "pair" // the outputs of two arms
	sameOutput  questionKind = "same" // an output beside itself: neither can win
	halfRemoved questionKind = "cut"  // an output of the first arm beside its first tenth, which must lose
)

// Rules of reliability; TestPromises shows what they find.
const (
	controlEvery    = 10  // one pair in ten has each kind of control
	maxInconsistent = 0.3 // of the pairs
	maxLongerShare  = 0.9 // of at least minLonger wins
	minLonger       = 10
	maxUnanswered   = 5 // the reciprocal of the share of questions
	// maxFailed is after how many failures in a row the judge is given up.
	maxFailed = 8
)

// An answer is what the judge said about two outputs, asked in both orders. Winner is that of
// both answers: "a", "b" or "" for a tie.
type answer struct {
	Winner       string     `json:"winner,omitempty"`
	Inconsistent bool       `json:"inconsistent,omitempty"`
	Longer       string     `json:"longer,omitempty"` // "a" or "b"; "" for equal lengths
	QuoteA       string     `json:"quote_a,omitempty"`
	QuoteB       string     `json:"quote_b,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	Cost         spend.Cost `json:"cost"`
	// Problem says why there is no answer: the question counts in nothing, and isn't asked again.
	Problem string `json:"problem,omitempty"`
}

// questions is how many pairs of outputs and controls there are for so many trials.
func questions(trials int) int { return trials + 2*((trials+controlEvery-1)/controlEvery) }

// errBudget means that what is left of the limit is less than a question costs.
var errBudget = errors.New("the spending limit is reached")

const (
	// maxTurn is how long one call asks before the job yields to those of other organisations.
	maxTurn = 20 * time.Second
	// atOnce is how many questions have their outputs read together.
	atOnce = 32
)

// An asking is one turn of asking for preferences.
type asking struct {
	s       *Service
	c       Comparison
	reports []runs.Report // of the arms
	prices  pricing.Table
	left    int64 // of the limit; meaningless without one
	dearest int64 // of the questions so far
	failed  int   // questions without an answer, since the last one with
}

// prefer asks the judge about the outputs of all pairs, and reports whether nothing is left to
// ask. Each answer is stored as it comes, so that a killed worker pays nothing twice.
func (s *Service) prefer(ctx context.Context, c Comparison) (done bool, err error) {
	made, err := answersOf(ctx, s.DB, c.ID, "")
	if err != nil {
		return false, err
	}
	x := &asking{s: s, c: c, prices: pricing.Embedded()}
	if x.reports, err = s.Runs.Measured(ctx, c.OrgID, c.runIDs()...); err != nil {
		return false, err
	}
	if s.Runs.Prices != nil {
		if x.prices, err = s.Runs.Prices.Table(ctx, c.OrgID); err != nil {
			return false, err
		}
	}
	if c.MaxMicros != nil {
		arms, err := spend.Spent(ctx, s.DB, c.ownRunIDs()...)
		if err != nil {
			return false, err
		}
		x.left = *c.MaxMicros - arms
	}
	known := map[answered]bool{}
	for _, a := range made {
		x.paid(a.Answer.Cost.Micros)
		a.Answer = answer{}
		known[a] = true
	}
	ends := time.Now().Add(maxTurn)
	for _, pair := range pairsOf(len(c.Arms)) {
		asked := slices.DeleteFunc(x.questions(pair), func(a answered) bool { return known[a] })
		for some := range slices.Chunk(asked, atOnce) {
			if err := x.askSome(ctx, some, ends); err != nil {
				return false, err
			}
			if time.Now().After(ends) {
				return false, nil
			}
		}
	}
	return true, nil
}

// paid counts what a question has cost.
func (x *asking) paid(micros int64) {
	x.left -= micros
	x.dearest = max(x.dearest, micros)
}

func pairsOf(arms int) (all [][2]int) {
	for a := range arms {
		for b := a + 1; b < arms; b++ {
			all = append(all, [2]int{a, b})
		}
	}
	return all
}

// questions returns what is asked about two arms: trial i of one beside trial i of the other, for
// each case that both decided, and the controls. They are in the order of the cases.
func (x *asking) questions(pair [2]int) (all []answered) {
	a, b := x.reports[pair[0]], x.reports[pair[1]]
	n := 0
	for i, of := range a.Cases {
		if of.Subject.Output != nil || of.Kind == "trigger_query" {
			continue // no arm makes an output
		}
		for _, t := range a.Results[i].Trials {
			other := slices.ContainsFunc(b.Results[i].Trials, func(o runs.Trial) bool {
				return o.N == t.N && o.Verdict.Decided()
			})
			if !t.Verdict.Decided() || !other {
				continue
			}
			one := answered{A: pair[0], B: pair[1], CaseID: of.ID, N: t.N, Kind: ordinary}
			all = append(all, one)
			if n%controlEvery == 0 {
				for _, kind := range []questionKind{sameOutput, halfRemoved} {
					one.Kind = kind
					all = append(all, one)
				}
			}
			n++
		}
	}
	return all
}

// askSome reads the outputs of questions about one pair, and asks them in groups until the turn
// ends. Under a limit, a group is as large as what is left surely pays, and the first question is
// alone: it shows what one costs.
func (x *asking) askSome(ctx context.Context, some []answered, ends time.Time) error {
	at := map[string]int{} // cases
	for i, of := range x.reports[0].Cases {
		at[of.ID] = i
	}
	pair := []string{x.c.Arms[some[0].A].runID, x.c.Arms[some[0].B].runID}
	made, err := x.s.Trials.Products(ctx, x.c.OrgID, pair, at[some[0].CaseID], at[some[len(some)-1].CaseID])
	if err != nil {
		return err
	}
	for len(some) > 0 && time.Now().Before(ends) {
		size := x.s.Runs.JudgeConcurrency()
		if x.c.MaxMicros != nil {
			if x.left <= 0 || x.left < x.dearest {
				return errBudget
			}
			size = int(min(int64(size), x.left/max(1, x.dearest)))
			if x.dearest == 0 {
				size = 1
			}
		}
		group := some[:min(size, len(some))]
		some = some[len(group):]
		var wg sync.WaitGroup
		problems := make([]error, len(group))
		for i := range group {
			q := &group[i]
			of := at[q.CaseID]
			a := shown(made[pair[0]][runs.TrialKey{Case: of, Arm: x.c.Arms[q.A].variant(), N: q.N}])
			b := shown(made[pair[1]][runs.TrialKey{Case: of, Arm: x.c.Arms[q.B].variant(), N: q.N}])
			wg.Go(func() { problems[i] = x.ask(ctx, q, trials.Asked(x.reports[0].Cases[of]), a, b) })
		}
		wg.Wait()
		for i, q := range group {
			x.paid(q.Answer.Cost.Micros)
			x.failed++
			if q.Answer.Problem == "" {
				x.failed = 0
			}
			if problems[i] != nil {
				return problems[i]
			}
		}
		// A judge that answers nothing any more would take hours to fail at each question.
		if x.failed >= maxFailed {
			return &judge.Error{Code: judge.Unavailable, Message: group[len(group)-1].Answer.Problem, Stop: true}
		}
	}
	return nil
}

// ask asks a question about two outputs in both orders, and stores the answer. The error is that of
// a judge who must not be asked again, or of the database.
func (x *asking) ask(ctx context.Context, q *answered, task, outputA, outputB string) error {
	a := &q.Answer
	switch q.Kind {
	case ordinary:
	case sameOutput:
		outputB = outputA
	case halfRemoved:
		outputB = text.Truncate(outputA, len(outputA)/10)
	}
	switch {
	case len(outputA) > len(outputB):
		a.Longer = "a"
	case len(outputB) > len(outputA):
		a.Longer = "b"
	}
	// Of equal outputs, there is nothing to prefer and nothing to pay.
	if outputA != outputB || q.Kind == sameOutput {
		err := x.askBoth(ctx, q, task, outputA, outputB)
		if failed, ok := errors.AsType[*judge.Error](err); ok && !judge.MustStop(err) && ctx.Err() == nil {
			a.Problem = failed.Message
		} else if err != nil {
			return err
		}
	}
	return insertAnswer(context.WithoutCancel(ctx), x.s.DB, x.c.ID, *q)
}

func (x *asking) askBoth(ctx context.Context, q *answered, task, outputA, outputB string) error {
	a := &q.Answer
	var choices [2]judge.Choice
	for i, r := range []judge.PreferRequest{
		{Task: task, A: outputA, B: outputB, Seed: x.c.Seed, N: q.N},
		{Task: task, A: outputB, B: outputA, Seed: x.c.Seed, N: q.N},
	} {
		got, err := x.s.Judge.Prefer(ctx, r)
		if failed, ok := errors.AsType[*judge.Error](err); ok {
			got.Record = failed.Record
		}
		a.Cost.Add(spend.OfRecord(got.Record, x.prices, time.Now()))
		if err != nil {
			return err
		}
		choices[i] = got.Choice
		if i == 0 {
			a.QuoteA, a.QuoteB, a.Reason = got.QuoteA, got.QuoteB, got.Reason
		}
	}
	switch {
	case choices[0] == judge.ChoiceA && choices[1] == judge.ChoiceB:
		a.Winner = "a"
	case choices[0] == judge.ChoiceB && choices[1] == judge.ChoiceA:
		a.Winner = "b"
	case choices[0] != choices[1] || choices[0] != judge.ChoiceTie:
		a.Inconsistent = true
	}
	return nil
}

// maxFiles is how many bytes of changed files the judge sees of each arm.
const maxFiles = 16 << 10

// shown is what the judge sees of a trial: its output, and the files that the agent changed.
func shown(p trials.Product) string {
	var b strings.Builder
	b.WriteString(p.Output)
	left := maxFiles
	for _, f := range p.Files {
		if f.Text == nil {
			continue
		}
		part := text.Truncate(*f.Text, max(0, left))
		left -= len(part)
		fmt.Fprintf(&b, "\n\nFile %s (%s):\n%s", f.Path, f.Change, part)
	}
	return b.String()
}

// An Opinion is what the judge said about two outputs, for people.
type Opinion struct {
	A, B                   string // names of arms
	RunA, RunB, CaseID     string
	N                      int    // the trial
	Winner                 string // the name of an arm; "" for a tie
	Inconsistent           bool
	Reason, QuoteA, QuoteB string
}

// Opinions returns what the judge said about the outputs of a comparison, or of one case, without
// the controls.
func (s *Service) Opinions(ctx context.Context, c Comparison, caseID string) (all []Opinion, err error) {
	made, err := answersOf(ctx, s.DB, c.ID, caseID)
	for _, q := range made {
		if q.Kind != ordinary || q.Answer.Reason == "" {
			continue
		}
		o := Opinion{
			A: c.Arms[q.A].Name, B: c.Arms[q.B].Name, RunA: c.Arms[q.A].runID, RunB: c.Arms[q.B].runID, CaseID: q.CaseID, N: q.N,
			Inconsistent: q.Answer.Inconsistent, Reason: q.Answer.Reason, QuoteA: q.Answer.QuoteA, QuoteB: q.Answer.QuoteB,
		}
		switch q.Answer.Winner {
		case "a":
			o.Winner = o.A
		case "b":
			o.Winner = o.B
		}
		all = append(all, o)
	}
	return all, err
}

// preferences sums up the answers by pair, and what they cost.
func (s *Service) preferences(ctx context.Context, c Comparison) (map[[2]int]*api.PreferenceResult, spend.Cost, error) {
	var cost spend.Cost
	if !c.Preference {
		return nil, cost, nil
	}
	made, err := answersOf(ctx, s.DB, c.ID, "")
	by := map[[2]int][]answered{}
	for _, a := range made {
		cost.Add(a.Answer.Cost)
		by[[2]int{a.A, a.B}] = append(by[[2]int{a.A, a.B}], a)
	}
	all := map[[2]int]*api.PreferenceResult{}
	for _, pair := range pairsOf(len(c.Arms)) {
		all[pair] = preferred(by[pair])
	}
	return all, cost, err
}

// preferred sums up the answers about one pair of arms. A case is won, lost or tied by the sum of
// its pairs.
func preferred(answers []answered) *api.PreferenceResult {
	r := &api.PreferenceResult{}
	balance, controls := map[string]int{}, map[questionKind]int{}
	failed := false
	wins, longer, unanswered := 0, 0, 0
	for _, q := range answers {
		a := q.Answer
		if a.Problem != "" {
			unanswered++
			continue
		}
		if q.Kind != ordinary {
			controls[q.Kind]++
			failed = failed || q.Kind == sameOutput && a.Winner != "" ||
				q.Kind == halfRemoved && a.Winner != "a" && a.Longer == "a"
			continue
		}
		r.Pairs++
		if a.Inconsistent {
			r.Inconsistent++
		}
		balance[q.CaseID] += map[string]int{"a": -1, "b": 1}[a.Winner]
		if a.Winner != "" {
			wins++
			if a.Longer == a.Winner {
				longer++
			}
		}
	}
	for _, sum := range balance {
		switch {
		case sum > 0:
			r.Wins++
		case sum < 0:
			r.Losses++
		default:
			r.Ties++
		}
	}
	if n := r.Wins + r.Losses; n > 0 {
		won, p := float64(r.Wins)/float64(n), stats.McNemar(r.Losses, r.Wins)
		low, high := stats.Wilson(won, n)
		r.WinShare, r.Interval, r.P = &won, &[2]float64{low, high}, &p
	}
	if wins > 0 {
		of := float64(longer) / float64(wins)
		r.LongerShare = &of
	}
	biased := wins >= minLonger && *r.LongerShare >= maxLongerShare
	r.Reliable = r.Pairs > 0 && maxUnanswered*unanswered <= len(answers) && !failed && !biased && controls[sameOutput] > 0 && controls[halfRemoved] > 0 &&
		float64(r.Inconsistent) <= maxInconsistent*float64(r.Pairs)
	return r
}
