package api

// An EvalSubject names the skill of a run, by a cloud source, a snapshot of one, or an entry of the
// registry.
type EvalSubject struct {
	SourceID   string `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot"`
	SnapshotID string `json:"snapshot_id,omitempty" doc:"A snapshot of a cloud source"`
	EntryID    string `json:"entry_id,omitempty" doc:"An entry of the registry"`
	Version    string `json:"version,omitempty" doc:"Of the entry; its current one when omitted"`
}

// NewEvalRun describes a run to start.
type NewEvalRun struct {
	Subject  EvalSubject `json:"subject" doc:"Exactly one of source_id, snapshot_id and entry_id"`
	Trials   int         `json:"trials,omitempty" minimum:"1" maximum:"30" default:"1" doc:"Of each case"`
	Baseline string      `json:"baseline,omitempty" enum:"none,no_skill,previous" default:"none" doc:"What to compare with"`
	Seed     int64       `json:"seed,omitempty" minimum:"0" maximum:"9007199254740991" doc:"Of an earlier run to compare with; a new one when omitted"`
	CaseIDs  []string    `json:"case_ids,omitempty" maxItems:"500" doc:"Only these cases of the suite; all when omitted"`
	Agent    *EvalAgent  `json:"agent,omitempty" doc:"Works on the cases with a prompt, query or task package; without one, a model answers"`

	Catalog       string `json:"catalog,omitempty" enum:"full,claude-code,codex" doc:"Ask the trigger queries on all skills of the registry: with whole descriptions, or as this agent truncates them; on chosen distractors when omitted"`
	ContextWindow int64  `json:"context_window,omitempty" minimum:"0" maximum:"10000000" doc:"That the agent's budget is computed from, in tokens, from 1000 on; 0: 200000 for Claude Code, 272000 for Codex"`

	MaxCostUSD *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that the run may cost"`
}

// An EvalAgent is the coding agent that works on the cases of a run.
type EvalAgent struct {
	Name     string `json:"name" maxLength:"40" example:"claude-code" doc:"One of GET /api/v1/agents"`
	Model    string `json:"model,omitempty" maxLength:"100" doc:"One of the agent's models; its first one when omitted"`
	MaxTurns int    `json:"max_turns,omitempty" minimum:"1" maximum:"1000" default:"50" doc:"Most answers of the model, per trial"`
	TimeoutS int    `json:"timeout_s,omitempty" minimum:"1" maximum:"7200" default:"900" doc:"Most seconds, per trial"`
}

// An EvalRun is one execution of a suite's cases against a skill, without its cases.
type EvalRun struct {
	ID               string         `json:"id" format:"uuid"`
	SuiteID          string         `json:"suite_id" format:"uuid"`
	SuiteVersion     *int64         `json:"suite_version" doc:"Version of the suite whose cases the run has; null for runs from before it was kept, and for imported ones"`
	Status           string         `json:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent"`
	Subject          PinnedSubject  `json:"subject"`
	Trials           int            `json:"trials"`
	Baseline         string         `json:"baseline" enum:"none,no_skill,previous"`
	Seed             int64          `json:"seed"`
	Requires         []EvalRequired `json:"requires,omitempty" doc:"Skills that the subject requires, pinned when the run started and present in all arms; only where skills compete or agents work"`
	Judge            *EvalJudge     `json:"judge" doc:"Null if no case needs one"`
	Progress         EvalProgress   `json:"progress" doc:"Trials of all cases, the baseline's included"`
	Totals           EvalTotals     `json:"totals" doc:"Cases; zero until the run is over"`
	TrialErrors      int            `json:"trial_errors" doc:"Trials of both variants without a verdict; zero until the run is over"`
	Reliable         bool           `json:"reliable" doc:"False if more than a fifth of the trials ended as error: the rates say little then"`
	Score            *float64       `json:"score" doc:"Mean over the decided cases of the share of their trials that passed; does not grow with trials"`
	ScoreInterval    *[2]float64    `json:"score_interval" doc:"Wilson interval of 95 %, over cases"`
	PassRate         *float64       `json:"pass_rate" doc:"Share of the decided cases that pass by the majority of their trials; with more trials it moves away from one half"`
	PassRateInterval *[2]float64    `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
	PassK            *float64       `json:"pass_k" doc:"Share of cases whose every trial passed"`
	BaselineResult   *EvalBaseline  `json:"baseline_result"`
	Lift             *EvalLift      `json:"lift" doc:"What the skill changes against the baseline; null without one, and until the run is over"`
	Cost             *EvalCost      `json:"cost" doc:"Of the models that took part, so far; null for runs from before costs were counted"`
	Agent            *EvalAgent     `json:"agent" doc:"That works on the cases which name none; null without one"`
	MaxCostUSD       *float64       `json:"max_cost_usd" doc:"Most that the run may cost; null for no limit"`
	EstimateUSD      *float64       `json:"estimate_usd" doc:"What the run would probably cost, by the last trials of its agents; null if it is not known"`
	Imported         *EvalOrigin    `json:"imported" doc:"Which tool made the run elsewhere; null for runs made here"`
	ImproveRunID     *string        `json:"improve_run_id" doc:"Of the improve run that it was made for, and that alone counts it; null for others"`
	Catalog          *EvalCatalog   `json:"catalog" doc:"That trigger queries were asked on; such a run counts in no gate and no rate. Null for others"`
	Error            *string        `json:"error" doc:"Why the run failed"`
	CreatedAt        Time           `json:"created_at"`
	StartedAt        *Time          `json:"started_at"`
	FinishedAt       *Time          `json:"finished_at"`
}

// Over reports whether the run has ended.
func (r EvalRun) Over() bool {
	return r.Status == "succeeded" || r.Status == "failed" || r.Status == "cancelled" || r.Status == "budget_spent"
}

// A PinnedSubject is the tested skill: the reference of the request, and the skill that it
// resolved to.
type PinnedSubject struct {
	EvalSubject
	Name        string `json:"name"`
	ContentHash string `json:"content_hash"`
	Label       string `json:"label,omitempty" doc:"The version that was found"`
}

// An EvalRequired is a skill that the subject of a run requires.
type EvalRequired struct {
	Name         string `json:"name" example:"pdf-tables"`
	Organisation string `json:"organisation,omitempty" doc:"That owns it; as written if it is missing"`
	EntryID      string `json:"entry_id,omitempty" doc:"Omitted if it is missing, like version and content_hash"`
	Version      string `json:"version,omitempty"`
	ContentHash  string `json:"content_hash,omitempty"`
	State        string `json:"state" enum:"met,missing,unmet,withdrawn" doc:"missing: the run goes on without it; unmet and withdrawn: it has the current version all the same"`
}

// Present reports whether the run has the skill.
func (r EvalRequired) Present() bool { return r.EntryID != "" }

// An EvalOrigin says which tool made a run elsewhere and what the tool reported about it. Numbers
// that it didn't report are null.
type EvalOrigin struct {
	Tool    string `json:"tool" example:"claude plugin eval"`
	Version string `json:"version" doc:"Of the tool" example:"2.1.325"`
	// Model is the model of all cases, JudgeModel that of the graders; "" if the file
	// names none.
	Model      string       `json:"model" doc:"That the agent asked; empty if the file does not say"`
	JudgeModel string       `json:"judge_model" doc:"That graded; empty for the tool's default"`
	Plugins    []EvalPlugin `json:"plugins" nullable:"false"`
	Threshold  float64      `json:"threshold" doc:"Score by which the tool lets a case pass"`
	// CasesPassed and the rates are the tool's own, by its rules.
	CasesPassed int      `json:"cases_passed" doc:"By the rules of the tool"`
	Score       float64  `json:"overall_score" doc:"By the rules of the tool"`
	MeanDelta   *float64 `json:"mean_delta" doc:"By the rules of the tool; null without a baseline"`
	CostUSD     float64  `json:"cost_usd" doc:"As the tool reports it"`
	Partial     string   `json:"partial_reason" doc:"Why the run is not complete; empty if it is"`
	Digest      string   `json:"digest" doc:"SHA-256 of the file"`
}

// An EvalPlugin is one of the plugins under test.
type EvalPlugin struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty" doc:"Why it may not have been loaded"`
}

// An EvalCatalog is the listing of skills that the model of a run chose from.
type EvalCatalog struct {
	Catalog string `json:"catalog" enum:"full,claude-code,codex" doc:"Whose listing the model sees; full: whole descriptions"`
	Window  int64  `json:"context_window" doc:"That the agent's budget is computed from, in tokens; 0 for full"`
	Skills  int    `json:"skills" doc:"That are listed"`
	Pair    string `json:"pair" doc:"Equal for runs that differ in the listing only: same cases, skills, judge, trials and seed"`
}

// EvalProgress counts trials.
type EvalProgress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// EvalTotals counts cases by verdict.
type EvalTotals struct {
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Errors  int `json:"errors"`
	Skipped int `json:"skipped"`
}

// EvalCost is what the models that took part cost.
type EvalCost struct {
	USD      *float64   `json:"usd" doc:"Null if the price of a request is unknown"`
	Requests int64      `json:"requests" doc:"Failed ones included"`
	Tokens   CostTokens `json:"tokens"`
}

// EvalBaseline is the result of the baseline, on the cases that both arms decided.
type EvalBaseline struct {
	PassRate       float64 `json:"pass_rate"`
	Delta          float64 `json:"delta"`
	NormalizedGain float64 `json:"normalized_gain"`
}

// An EvalLift is what the skill changes against the baseline, on the cases that both decided.
type EvalLift struct {
	Difference float64    `json:"difference" doc:"Mean difference of the cases' scores: with the skill, minus the baseline's"`
	Interval   [2]float64 `json:"interval" doc:"Tango's interval of 95 %, over cases"`
	P          float64    `json:"p" doc:"Of the exact two-sided sign test over the cases that differ"`

	// The ratios are of the skill to the baseline.
	Cost     *EvalFigure `json:"cost_ratio" doc:"Geometric mean over the cases that both passed at least once; null below 5 of them"`
	Tokens   *EvalFigure `json:"tokens_ratio"`
	Turns    *EvalFigure `json:"turns_ratio" doc:"Null without an agent"`
	Duration *EvalFigure `json:"duration_ratio"`
}

// An EvalFigure has its interval of 95 %.
type EvalFigure struct {
	Value    float64    `json:"value"`
	Interval [2]float64 `json:"interval"`
}

// An EvalJudge is the model that judged.
type EvalJudge struct {
	API           string `json:"api"`
	Model         string `json:"model"`
	PromptVersion string `json:"prompt_version"`
}

// An EvalCase is a case of a run, with its trials of all arms.
type EvalCase struct {
	ID               string              `json:"id"`
	Name             string              `json:"name"`
	Title            string              `json:"title" doc:"The name, or the beginning of what it asks"`
	CaseKind         string              `json:"case_kind"`
	Verdict          *string             `json:"verdict" enum:"pass,fail,error,skipped" doc:"Null until there is one"`
	Score            *float64            `json:"score" doc:"The mean of its trials"`
	BaselineVerdict  *string             `json:"baseline_verdict" enum:"pass,fail,error,skipped"`
	CostUSDByVariant map[string]*float64 `json:"cost_usd_by_variant" nullable:"false" doc:"Of its trials, in dollars; null if a price is unknown"`
	Trials           []EvalTrial         `json:"trials" nullable:"false"`
}

// An EvalTrial is one try of a case.
type EvalTrial struct {
	N          int           `json:"n"`
	Variant    string        `json:"variant" enum:"skill,no_skill,previous"`
	Verdict    string        `json:"verdict" enum:"pass,fail,error,skipped"`
	Score      *float64      `json:"score"`
	Evidence   TrialEvidence `json:"evidence" doc:"Why; summary says it in a sentence"`
	OutputTail string        `json:"output_tail"`
	DurationMS int64         `json:"duration_ms"`
	CostUSD    *float64      `json:"cost_usd" doc:"Of the models that took part; 0 if the agent asked none, null without an agent or a judge, or if a price is unknown"`
	Activated  *bool         `json:"activated" doc:"Whether the agent activated the skill; null without an agent, or if it does not tell"`
	Turns      *int          `json:"turns" doc:"Answers of the agent's model; null without an agent"`
	ToolCalls  *int          `json:"tool_calls" doc:"Calls of tools; null without an agent"`
	SessionID  *string       `json:"session_id" doc:"Opens what the agent did with GET /v1/sessions/{session_id}; null without an agent"`
	Error      *string       `json:"error" doc:"Why there is no verdict"`
}

// TrialEvidence is why a trial has its verdict: a JSON object whose fields depend on the case.
// Its summary says it in a sentence.
type TrialEvidence any

// An EvalReport is a run with its cases.
type EvalReport struct {
	EvalRun
	CostUSDByVariant map[string]*float64 `json:"cost_usd_by_variant" nullable:"false" doc:"Of the trials of these cases, in dollars; null if a price is unknown"`
	Cases            []EvalCase          `json:"cases" nullable:"false"`
}

// An EvalEstimate is what a run with an agent would probably cost.
type EvalEstimate struct {
	Trials      int64    `json:"trials" doc:"With an agent"`
	EstimateUSD *float64 `json:"estimate_usd" doc:"By what the last trials of the same agent and model cost; null if there were none"`
}

// An EvalTrialDetail is a trial with what was asked and done in it, and the files that it left.
type EvalTrialDetail struct {
	RunID    string `json:"run_id" format:"uuid"`
	CaseID   string `json:"case_id"`
	CaseName string `json:"case_name"`
	CaseKind string `json:"case_kind"`
	EvalTrial
	Asked          *string       `json:"asked" doc:"The instruction; null if the case has none"`
	Session        SessionDetail `json:"session" doc:"What was done, as GET /v1/sessions/{session_id} answers it; session_id is empty without an agent"`
	Files          []EvalFile    `json:"files" nullable:"false" doc:"That the agent changed, by path"`
	FilesTruncated bool          `json:"files_truncated" doc:"There may be more changed files"`
}

// An EvalFile is a file that an agent changed in a trial.
type EvalFile struct {
	Path      string  `json:"path" example:"result.csv"`
	Change    string  `json:"change" enum:"added,modified,deleted"`
	Size      int64   `json:"size" doc:"Bytes; 0 of a deleted file"`
	SHA256    *string `json:"sha256" doc:"Null of a deleted file, and beyond 64 MiB"`
	Text      *string `json:"text" doc:"Of a text file; null of others"`
	Truncated bool    `json:"truncated" doc:"text is not all of it"`
	Diff      *string `json:"diff" doc:"Unified diff of a small text file that was modified"`
}
