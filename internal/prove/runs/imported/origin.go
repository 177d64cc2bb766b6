// Package imported reads the results of runs that another tool made elsewhere:
// aggregate-result.json of `claude plugin eval`. It writes the table
// eval_run_imports of package runs.
package imported

// An Origin says which tool made a run and what the tool reported about it. Numbers
// that it didn't report are nil.
type Origin struct {
	Tool    string `json:"tool" example:"claude plugin eval"`
	Version string `json:"version" doc:"Of the tool" example:"2.1.325"`
	// Model is the model of all cases, JudgeModel that of the graders; "" if the file
	// names none.
	Model      string   `json:"model" doc:"That the agent asked; empty if the file does not say"`
	JudgeModel string   `json:"judge_model" doc:"That graded; empty for the tool's default"`
	Plugins    []Plugin `json:"plugins" nullable:"false"`
	Threshold  float64  `json:"threshold" doc:"Score by which the tool lets a case pass"`
	// CasesPassed and the rates are the tool's own, by its rules.
	CasesPassed int      `json:"cases_passed" doc:"By the rules of the tool"`
	Score       float64  `json:"overall_score" doc:"By the rules of the tool"`
	MeanDelta   *float64 `json:"mean_delta" doc:"By the rules of the tool; null without a baseline"`
	CostUSD     float64  `json:"cost_usd" doc:"As the tool reports it"`
	Partial     string   `json:"partial_reason" doc:"Why the run is not complete; empty if it is"`
	Digest      string   `json:"digest" doc:"SHA-256 of the file"`
}

// USD returns the cost in the form of costs that may be unknown.
func (o Origin) USD() *float64 { return &o.CostUSD }

// A Plugin is one of the plugins under test.
type Plugin struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty" doc:"Why it may not have been loaded"`
}
