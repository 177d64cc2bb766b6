package judge

import (
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

// Recorded are answers that were written before, for the demo: it shows what a judge does without
// having a model. Each of them may be nil.
type Recorded struct {
	// Grade returns a result for each criterion, or none for a material that it doesn't know.
	Grade func(GradeRequest) []Result
	// Complete returns the answer to a prompt, or "" if it has none.
	Complete func(Prompt) string
	// Rewrite returns a better description of a skill, or "" for a skill whose description the
	// built-in writer shall write.
	Rewrite func(RewriteRequest) (description, reason string)
}

// NewRecorded returns a judge that routes like the built-in one and answers everything else from
// what is recorded. What isn't recorded is Unavailable.
func NewRecorded(r Recorded) *Judge {
	about := api.EvalJudge{API: Builtin, Model: "recorded", PromptVersion: BuiltinModel}
	return &Judge{about: Description{EvalJudge: about}, recorded: r}
}

// grade holds a recorded verdict to the same rule as a model's: nothing is passed without a
// quotation that is in the material.
func (r Recorded) grade(ask GradeRequest, rec Record) (Grading, error) {
	var results []Result
	if r.Grade != nil {
		results = r.Grade(ask)
	}
	if len(results) != len(ask.Criteria) {
		return Grading{}, &Error{Code: Unavailable, Message: "no verdict of this material is recorded", Record: rec}
	}
	sheet := gradeSheet{GradeRequest: ask, material: newQuotable(ask.Material)}
	for i, given := range results {
		results[i] = sheet.result(i, given.Evidence, given.Passed)
	}
	return Grading{Results: results, Score: score(results), Record: rec}, nil
}

func (r Recorded) complete(p Prompt, rec Record) (Completion, error) {
	answer := ""
	if r.Complete != nil {
		answer = r.Complete(p)
	}
	if answer == "" {
		return Completion{}, &Error{Code: Unavailable, Message: "no answer to this prompt is recorded", Record: rec}
	}
	if p.Check != nil {
		if err := p.Check(answer); err != nil {
			return Completion{}, &Error{Code: Unusable, Message: strconv.Quote(err.Error()), Record: rec}
		}
	}
	return Completion{Text: answer, Record: rec}, nil
}

// rewrite reports false for a skill whose description isn't recorded.
func (r Recorded) rewrite(ask RewriteRequest, rec Record) (out Rewriting, ok bool, err error) {
	if r.Rewrite == nil {
		return out, false, nil
	}
	out.Description, out.Reason = r.Rewrite(ask)
	if out.Record = rec; out.Description != "" && ask.wasTried(out.Description) {
		return Rewriting{}, true, &Error{Code: Unusable, Message: "the recorded description was tried", Record: rec}
	}
	return out, out.Description != "", nil
}
