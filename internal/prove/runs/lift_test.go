package runs_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	agentattempt "github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// TestScoreRecount ends runs with random trials, and counts score and lift once more from
// the trials in the answer of the API.
func TestScoreRecount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		random := rand.New(rand.NewPCG(1, 2))
		ratios := 0
		for round := range 12 {
			var cases []object
			for range 1 + random.IntN(24) {
				cases = append(cases, object{"case_kind": "exact_match", "command": []string{"true"}, "expected": ""})
			}
			suite := c.Create(with(deterministic(cases...), object{"supports_no_skill": true}))
			r, err := w.Runs.Start(t.Context(), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, suite["id"].(string), runs.NewRun{
				Subject: subject.Ref{EntryID: c.Entry()}, Trials: 1 + random.IntN(6),
				Baseline: []runs.Baseline{runs.NoBaseline, runs.NoSkill, runs.NoSkill}[round%3],
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Runs.Finish(t.Context(), c.Org.ID, r.ID, randomTrials(random, r, len(cases))); err != nil {
				t.Fatal(err)
			}
			got := c.Get(runsPath + r.ID).Want(http.StatusOK).Field("run")
			want := recounted(t, got)
			listed := c.Get(suitesPath + "/" + r.SuiteID + "/runs").Want(http.StatusOK).List("runs")
			for what, got := range map[string]object{"run": got, "list": listed[0]} {
				shown := object{"score": got["score"], "score_interval": got["score_interval"], "lift": got["lift"]}
				if diff := cmp.Diff(apptest.Plain(t, want), apptest.Plain(t, shown), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
					t.Fatalf("round %d, %s (-want +got):\n%s", round, what, diff)
				}
			}
			if lift, ok := got["lift"].(object); ok && lift["cost_ratio"] != nil {
				ratios++
			}
			upgraded(t, w)
			listed = c.Get(suitesPath + "/" + r.SuiteID + "/runs").Want(http.StatusOK).List("runs")
			if diff := cmp.Diff(apptest.Plain(t, want["score"]), listed[0]["score"], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Fatalf("round %d, after an upgrade (-want +got):\n%s", round, diff)
			}
		}
		if ratios == 0 {
			t.Error("no run had enough cases for a ratio")
		}
	})
}

// upgraded counts the scores as the migration does for runs from before.
func upgraded(t *testing.T, w *runstest.World) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../platform/store/migrations", path.Base(t.Name()), "00150_eval_run_scores.sql"))
	if err != nil {
		t.Fatal(err)
	}
	_, insert, _ := strings.Cut(string(raw), "INSERT INTO")
	w.Exec(`DELETE FROM eval_run_scores`)
	w.Exec("INSERT INTO" + insert)
}

func randomTrials(random *rand.Rand, r runs.Run, cases int) (all []runs.Trial) {
	for i := range cases {
		for _, arm := range r.Baseline.Arms() {
			p := random.Float64() * 1.3
			for n := range r.Trials {
				verdict, passed := runs.Fail, 0.0
				switch {
				case random.IntN(9) == 0:
					verdict = runs.Error
				case random.Float64() < p:
					verdict, passed = runs.Pass, 1
				}
				one := runs.Trial{
					TrialKey: runs.TrialKey{Case: i, Arm: arm, N: n + 1}, Verdict: verdict,
					Duration: time.Duration(1+random.IntN(900)) * time.Millisecond,
					Evidence: runs.Evidence{
						Agent: &agentattempt.Evidence{Name: "a", Turns: random.IntN(4)},
						Cost:  &spend.Cost{Micros: int64(random.IntN(5000)), Tokens: pricing.CostTokens{Input: int64(random.IntN(900)), Output: 7}},
					},
				}
				if verdict != runs.Error {
					one.Score = &passed
				}
				if random.IntN(40) == 0 {
					one.Evidence.Cost.Unpriced = 1
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// recounted is what the trials of an answer come to, by the definitions of docs/evals.md.
func recounted(t *testing.T, run object) object {
	t.Helper()
	type sums struct{ passed, decided, usd, tokens, turns, ms float64 }
	var scores, positive, negative, compared, better, worse float64
	score, compares := 0.0, run["baseline"] != "none"
	var usd, tokens, turns, ms [2][]float64
	for _, one := range apptest.List(t, run, "cases") {
		arms, priced := map[any]*sums{"skill": {}, "no_skill": {}}, true
		for _, trial := range apptest.List(t, one, "trials") {
			if trial["verdict"] == "error" {
				continue
			}
			s := arms[trial["variant"]]
			s.decided++
			if trial["verdict"] == "pass" {
				s.passed++
			}
			for _, n := range trial["evidence"].(object)["cost"].(object)["tokens"].(object) {
				s.tokens += n.(float64)
			}
			s.turns += trial["turns"].(float64)
			s.ms += trial["duration_ms"].(float64)
			cost, known := trial["cost_usd"].(float64)
			s.usd += cost
			priced = priced && known
		}
		with, without := arms["skill"], arms["no_skill"]
		if with.decided > 0 {
			scores, score = scores+1, score+with.passed/with.decided
		}
		if with.decided == 0 || without.decided == 0 {
			continue
		}
		compared++
		switch d := with.passed/with.decided - without.passed/without.decided; {
		case d > 0:
			better, positive = better+1, positive+d
		case d < 0:
			worse, negative = worse+1, negative-d
		}
		if with.passed == 0 || without.passed == 0 {
			continue
		}
		for i, s := range []*sums{without, with} {
			if priced {
				usd[i] = append(usd[i], s.usd/s.decided)
			}
			tokens[i] = append(tokens[i], s.tokens/s.decided)
			turns[i], ms[i] = append(turns[i], s.turns/s.decided), append(ms[i], s.ms/s.decided)
		}
	}
	want := object{"score": nil, "score_interval": nil, "lift": nil}
	if scores > 0 {
		low, high := stats.Wilson(score/scores, int(scores))
		want["score"], want["score_interval"] = score/scores, []float64{low, high}
	}
	if compares && compared > 0 {
		low, high := stats.PairedDifference(positive, negative, int(compared))
		p := 1.0
		if n := better + worse; n > 0 { // 2 P(X <= min) for X ~ Binomial(n, 1/2)
			p = 0
			for k := range int(math.Min(better, worse)) + 1 {
				ways := 1.0
				for i := range k {
					ways *= (n - float64(i)) / float64(i+1)
				}
				p += 2 * ways / math.Pow(2, n)
			}
		}
		want["lift"] = object{
			"difference": (positive - negative) / compared, "interval": []float64{low, high}, "p": math.Min(1, p),
			"cost_ratio": stats.Ratio(usd[0], usd[1]), "tokens_ratio": stats.Ratio(tokens[0], tokens[1]), "turns_ratio": stats.Ratio(turns[0], turns[1]),
			"duration_ratio": stats.Ratio(ms[0], ms[1]),
		}
	}
	return want
}

// TestScoreOfTrials: a skill that passes four of five trials has the score 0.8, however
// often it was tried, where the majority says 1.
func TestScoreOfTrials(t *testing.T) {
	t.Parallel()
	for _, trials := range []int{5, 15} {
		var all []runs.Trial
		for i := range 10 {
			for n := range trials {
				verdict := runs.Pass
				if n%5 == i%5 {
					verdict = runs.Fail
				}
				all = append(all, runs.Trial{TrialKey: runs.TrialKey{Case: i, Arm: runs.WithSkill, N: n + 1}, Verdict: verdict})
			}
		}
		_, sum := runs.Summarize(make([]suites.Case, 10), all)
		if math.Abs(sum.Score.Value-0.8) > 1e-9 || *sum.PassRate != 1 {
			t.Errorf("%d trials: score %v, pass rate %v, want 0.8 and 1", trials, sum.Score.Value, *sum.PassRate)
		}
		if low, high := stats.Wilson(0.8, 10); math.Abs(sum.Score.Interval[0]-low) > 1e-9 || math.Abs(sum.Score.Interval[1]-high) > 1e-9 {
			t.Errorf("%d trials: interval %v, want that of 10 cases", trials, sum.Score.Interval)
		}
	}
}

// TestBaselineSkipsAll: a baseline in which every case would be skipped is refused, by
// the name of the setting that allows it.
func TestBaselineSkipsAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		prompt := object{"case_kind": "exact_match", "prompt": "Say a.", "expected": "a"}
		for name, test := range map[string]struct {
			suite   object
			refused string
		}{
			"command":  {deterministic(object{"case_kind": "exact_match", "command": []string{"true"}, "expected": ""}), "supports_no_skill"},
			"given":    {with(deterministic(exact("a", "a")), object{"supports_no_skill": true}), "the output is given"},
			"declined": {with(deterministic(prompt), object{"supports_no_skill": false}), "supports_no_skill"},
			"prompt":   {deterministic(exact("a", "a"), prompt), ""},
		} {
			suite := c.Create(test.suite)
			if want := name == "given" || name == "prompt"; suite["supports_no_skill"] != want {
				t.Errorf("%s: supports_no_skill is %v, want %v", name, suite["supports_no_skill"], want)
			}
			path := suitesPath + "/" + suite["id"].(string) + "/runs"
			res := c.Post(path, object{"subject": object{"entry_id": c.Entry()}, "baseline": "no_skill"})
			if test.refused == "" {
				res.Want(http.StatusAccepted)
				continue
			}
			res.Want(http.StatusBadRequest)
			if !strings.Contains(string(res.Body), test.refused) || !strings.Contains(string(res.Body), `"baseline"`) {
				t.Errorf("%s: the refusal is %s, want %q", name, res.Body, test.refused)
			}
		}
	})
}
