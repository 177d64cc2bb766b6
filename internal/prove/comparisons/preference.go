package comparisons

import (
	"cmp"
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
}

// questions is how many pairs of outputs and controls there are for so many trials.
func questions(trials int) int { return trials + 2*((trials+controlEvery-1)/controlEvery) }

// errBudget means that the preferences have spent their share of the limit.
var errBudget = errors.New("the spending limit is reached")

// maxTurn is how long one call asks before the job yields to those of other organisations.
const maxTurn = 20 * time.Second

// prefer asks the judge about the outputs of all pairs, and reports whether nothing is left to
// ask. Each answer is stored as it comes, so that a killed worker pays nothing twice.
func (s *Service) prefer(ctx context.Context, c Comparison) (done bool, err error) {
	made, err := answersOf(ctx, s.DB, c.ID, "")
	if err != nil {
		return false, err
	}
	known := map[answered]bool{}
	var spent spend.Cost
	for _, a := range made {
		spent.Add(a.Answer.Cost)
		a.Answer = answer{}
		known[a] = true
	}
	prices := pricing.Embedded()
	if s.Runs.Prices != nil {
		if prices, err = s.Runs.Prices.Table(ctx, c.OrgID); err != nil {
			return false, err
		}
	}
	ends := time.Now().Add(maxTurn)
	most := share(c, len(c.Arms))
	for _, pair := range pairsOf(len(c.Arms)) {
		asked, err := s.questionsOf(ctx, c, pair)
		if err != nil {
			return false, err
		}
		asked = slices.DeleteFunc(asked, func(a answered) bool { return known[a] })
		for group := range slices.Chunk(asked, s.Runs.JudgeConcurrency()) {
			if most != nil && spent.Micros >= *most {
				return false, errBudget
			}
			costs, err := s.ask(ctx, c, group, func(r judge.Record) spend.Cost { return spend.OfRecord(r, prices, time.Now()) })
			spent.Add(costs)
			if err != nil {
				return false, err
			}
			if time.Now().After(ends) {
				return false, nil
			}
		}
	}
	return true, nil
}

func pairsOf(arms int) (all [][2]int) {
	for a := range arms {
		for b := a + 1; b < arms; b++ {
			all = append(all, [2]int{a, b})
		}
	}
	return all
}

// questionsOf returns what is asked about two arms: trial i of one beside trial i of the other, for
// each case that both decided, and the controls.
func (s *Service) questionsOf(ctx context.Context, c Comparison, pair [2]int) (all []answered, err error) {
	var reports [2]runs.Report
	for i, at := range pair {
		if reports[i], err = s.Runs.Measured(ctx, c.OrgID, c.Arms[at].runID); err != nil {
			return nil, err
		}
	}
	n := 0
	for i, of := range reports[0].Cases {
		if of.Subject.Output != nil || of.Kind == "trigger_query" {
			continue // no arm makes an output
		}
		for _, t := range reports[0].Results[i].Trials {
			other := slices.ContainsFunc(reports[1].Results[i].Trials, func(o runs.Trial) bool {
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
	return all, nil
}

// ask asks a group of questions at once and stores the answers.
func (s *Service) ask(
	ctx context.Context, c Comparison, group []answered, costOf func(judge.Record) spend.Cost,
) (spent spend.Cost, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, q := range group {
		wg.Go(func() {
			got, problem := s.askBoth(ctx, c, q, costOf)
			if problem == nil {
				q.Answer = got
				problem = insertAnswer(context.WithoutCancel(ctx), s.DB, c.ID, q)
			}
			mu.Lock()
			defer mu.Unlock()
			spent.Add(got.Cost)
			err = cmp.Or(err, problem)
		})
	}
	wg.Wait()
	return spent, err
}

// askBoth asks a question in both orders.
func (s *Service) askBoth(
	ctx context.Context, c Comparison, q answered, costOf func(judge.Record) spend.Cost,
) (a answer, err error) {
	task, outputA, err := s.produced(ctx, c, q.A, q)
	if err != nil {
		return a, err
	}
	outputB := outputA
	switch q.Kind {
	case ordinary:
		if _, outputB, err = s.produced(ctx, c, q.B, q); err != nil {
			return a, err
		}
	case sameOutput:
	case halfRemoved:
		outputB = text.Truncate(outputA, len(outputA)/10)
	}
	switch {
	case len(outputA) > len(outputB):
		a.Longer = "a"
	case len(outputB) > len(outputA):
		a.Longer = "b"
	}
	if outputA == outputB && q.Kind != sameOutput { // there is nothing to prefer, and nothing to pay
		return a, nil
	}
	var choices [2]judge.Choice
	for i, r := range []judge.PreferRequest{
		{Task: task, A: outputA, B: outputB, Seed: c.Seed, N: q.N},
		{Task: task, A: outputB, B: outputA, Seed: c.Seed, N: q.N},
	} {
		got, err := s.Judge.Prefer(ctx, r)
		if e, ok := errors.AsType[*judge.Error](err); ok {
			a.Cost.Add(costOf(e.Record))
		}
		if err != nil {
			return a, err
		}
		a.Cost.Add(costOf(got.Record))
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
	return a, nil
}

// maxFiles is how many bytes of changed files the judge sees of each arm.
const maxFiles = 16 << 10

// output returns what a trial was asked, and what it produced: its output and the files that
// the agent changed.
func (s *Service) produced(ctx context.Context, c Comparison, arm int, q answered) (task, out string, err error) {
	variant := runs.WithSkill
	if c.Arms[arm].NoSkill() {
		variant = runs.WithoutSkill
	}
	t, err := s.Trials.Get(ctx, c.OrgID, trials.Key{RunID: c.Arms[arm].runID, CaseID: q.CaseID, Arm: variant, N: q.N})
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	b.WriteString(t.OutputTail)
	left := maxFiles
	for _, f := range t.Files {
		if f.Text == nil {
			continue
		}
		shown := text.Truncate(*f.Text, max(0, left))
		left -= len(shown)
		fmt.Fprintf(&b, "\n\nFile %s (%s):\n%s", f.Path, f.Change, shown)
	}
	return t.Asked, b.String(), nil
}

// An Opinion is what the judge said about two outputs, for people.
type Opinion struct {
	A, B, CaseID           string // names of arms
	N                      int    // the trial
	Winner                 string // the name of an arm; "" for a tie
	Inconsistent           bool
	Reason, QuoteA, QuoteB string
}

// Opinions returns what the judge said about the outputs of a comparison, without the controls.
func (s *Service) Opinions(ctx context.Context, c Comparison) (all []Opinion, err error) {
	made, err := answersOf(ctx, s.DB, c.ID, "")
	for _, q := range made {
		if q.Kind != ordinary || q.Answer.Reason == "" {
			continue
		}
		o := Opinion{
			A: c.Arms[q.A].Name, B: c.Arms[q.B].Name, CaseID: q.CaseID, N: q.N, Inconsistent: q.Answer.Inconsistent,
			Reason: q.Answer.Reason, QuoteA: q.Answer.QuoteA, QuoteB: q.Answer.QuoteB,
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
	wins, longer := 0, 0
	for _, q := range answers {
		a := q.Answer
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
	r.Reliable = r.Pairs > 0 && !failed && !biased && controls[sameOutput] > 0 && controls[halfRemoved] > 0 &&
		float64(r.Inconsistent) <= maxInconsistent*float64(r.Pairs)
	return r
}
