package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// A gradeRequest asks for the graders' verdicts on what one trial produced.
type gradeRequest struct {
	Graders []verify.Grader
	Check   verify.GraderCheck // of the graders
	Sample  verify.Sample
	// Compared reports whether the run has an arm without the skill, and Without
	// whether this trial belongs to it. Graders that only the arm with the skill can
	// pass aren't scored in such runs.
	Compared, Without bool

	Task   string   // that the agent was given
	Others []string // criteria of other cases, for the judge's controls
	Seed   int64
	Trial  int
}

// A grading is the verdict of each grader that applies.
type grading struct {
	Results []verify.GraderResult
	Judge   *judge.Record // nil if no judge was asked
}

// decideGraders returns the result of each grader that applies. Deterministic graders
// come first: if one can't be decided, no judge is paid. Judged graders are asked
// together per target, i.e. per text that the judge has to read. Errors are those of
// the judge and of the checks.
func decideGraders(ctx context.Context, j *judge.Judge, r gradeRequest) (g grading, err error) {
	decided, err := r.Check(ctx, r.Sample)
	if err != nil {
		return g, err
	}
	scored := verify.Scored(r.Graders, r.Compared)
	asked := map[verify.Target][]int{} // indexes of results, by what the judge reads
	var order []verify.Target
	for i, grader := range r.Graders {
		if r.Without && !scored[i] {
			continue
		}
		if grader.IsJudged() {
			if asked[grader.On] == nil {
				order = append(order, grader.On)
			}
			asked[grader.On] = append(asked[grader.On], len(g.Results))
		}
		g.Results = append(g.Results, verify.GraderResult{
			Name: grader.Name, Type: grader.Type, Weight: grader.Weight, Scored: scored[i],
			Passed: decided[i].Pass, Details: decided[i].Evidence,
		})
	}
	criteria := map[string]string{}
	for _, grader := range r.Graders {
		criteria[grader.Name] = grader.Criteria
	}
	for _, target := range order {
		if err := g.ask(ctx, j, r, target, asked[target], criteria); err != nil {
			return g, err
		}
	}
	return g, nil
}

// maxAsked is how many criteria one request to the judge has; more go in batches.
const maxAsked = 50

// ask lets the judge decide the graders that read one target. If the target can't be
// read, the reason becomes their details and the judge isn't asked.
func (g *grading) ask(
	ctx context.Context, j *judge.Judge, r gradeRequest, target verify.Target, indexes []int, criteria map[string]string,
) error {
	material, err := r.Sample.Read(target)
	if err != nil {
		for _, i := range indexes {
			g.Results[i].Details = err.Error()
		}
		return nil
	}
	for len(indexes) > 0 {
		some := indexes[:min(maxAsked, len(indexes))]
		indexes = indexes[len(some):]
		request := judge.GradeRequest{Task: r.Task, Material: material, Others: r.Others, Seed: r.Seed, Trial: r.Trial}
		for _, i := range some {
			request.Criteria = append(request.Criteria, criteria[g.Results[i].Name])
		}
		got, err := j.Grade(ctx, request)
		// A trial that fails is charged for its earlier batches, too.
		if failed, ok := errors.AsType[*judge.Error](err); ok && g.Judge != nil {
			failed.Record.Usage = sumUsage(failed.Record.Usage, g.Judge.Usage)
		}
		if err != nil {
			return err
		}
		for k, i := range some {
			g.Results[i].Passed, g.Results[i].Details = got.Results[k].Passed, verdictDetails(got.Results[k])
		}
		if g.Judge != nil {
			got.Record.Usage = sumUsage(got.Record.Usage, g.Judge.Usage)
		}
		g.Judge = &got.Record
	}
	return nil
}

// verdictDetails explains a judged grader to people. A pass needs a quotation that
// occurs in the output (else Downgraded) and that shows the criterion when it is read
// by itself (else Refuted).
func verdictDetails(r judge.Result) string {
	switch {
	case r.Downgraded:
		return "the judge's quotation does not stand in the output"
	case r.Refuted:
		return "read by itself, the judge's quotation does not show this"
	case r.Passed:
		return fmt.Sprintf("the judge quotes %q", r.Evidence)
	}
	return "the judge found nothing that shows this"
}

func sumUsage(a, b judge.Usage) judge.Usage {
	return judge.Usage{
		Attempts: a.Attempts + b.Attempts, InputTokens: a.InputTokens + b.InputTokens,
		OutputTokens:    a.OutputTokens + b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
		LatencyMS: a.LatencyMS + b.LatencyMS,
	}
}
