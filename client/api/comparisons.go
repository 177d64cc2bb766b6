package api

// NewComparison describes a comparison to start.
type NewComparison struct {
	SuiteID string          `json:"suite_id" format:"uuid" doc:"The suite whose cases every arm is tried on"`
	Arms    []ComparisonArm `json:"arms" minItems:"2" maxItems:"8" doc:"What to compare; the first arm is a in its pairs"`
	Trials  int             `json:"trials,omitempty" minimum:"1" maximum:"30" default:"3" doc:"Of each case in each arm"`
	Margin  *float64        `json:"margin,omitempty" minimum:"0" maximum:"0.5" default:"0.05" doc:"By how much an arm may be worse and still be recommended"`

	Preference bool     `json:"preference,omitempty" doc:"Also ask the judge which output of a pair of arms serves the task better"`
	MaxCostUSD *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that all arms together may cost, the judge included"`
	Estimate   bool     `json:"estimate,omitempty" doc:"Answer what it would probably cost, and start nothing"`
}

// A ComparisonArm is one of the things to compare: a version of a skill, or no skill, with an
// agent or without one.
type ComparisonArm struct {
	Name     string     `json:"name,omitempty" maxLength:"100" example:"pdf-forms 1.2.0" doc:"Made of the rest when omitted; names differ"`
	EntryID  string     `json:"entry_id,omitempty" doc:"An entry of the registry. Exactly one of entry_id, source_id and no_skill"`
	SourceID string     `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot"`
	Version  string     `json:"version,omitempty" doc:"Of the entry; its current one when omitted"`
	NoSkill  bool       `json:"no_skill,omitempty" doc:"Try the cases without a skill"`
	Agent    *EvalAgent `json:"agent,omitempty" doc:"Works on the cases with a prompt, query or task package; without one, a model answers"`
}

// A Comparison says which of several arms is better on the cases of a suite, and what follows
// from that.
type Comparison struct {
	ID             string                   `json:"id" format:"uuid"`
	SuiteID        string                   `json:"suite_id" format:"uuid"`
	Status         string                   `json:"status" enum:"queued,running,succeeded,failed,cancelled,budget_spent"`
	Trials         int                      `json:"trials" doc:"Of each case in each arm"`
	Preference     bool                     `json:"preference" doc:"Whether the judge is asked which output is better"`
	Progress       EvalProgress             `json:"progress" doc:"Trials of all arms"`
	Arms           []ComparedArm            `json:"arms" nullable:"false" doc:"In the order of the request; their figures are null until the comparison is over"`
	Pairs          []ComparedPair           `json:"pairs" nullable:"false" doc:"All pairs of arms; empty until the comparison is over"`
	Recommendation ComparisonRecommendation `json:"recommendation" doc:"What follows; none until the comparison is over"`
	MaxCostUSD     *float64                 `json:"max_cost_usd" doc:"Most that all arms together may cost; null for no limit"`
	CostUSD        *float64                 `json:"cost_usd" doc:"Of all arms that this comparison tried itself, and of the preferences; null if a price is unknown"`
	Error          *string                  `json:"error" doc:"Why the comparison failed"`
	CreatedAt      Time                     `json:"created_at"`
	EndedAt        *Time                    `json:"ended_at" doc:"When it ended; null until then" example:"2026-01-02T03:09:41.000Z"`
}

// Over reports whether the comparison has ended.
func (c Comparison) Over() bool { return c.Status != "queued" && c.Status != "running" }

// A ComparedArm is an arm with its figures.
type ComparedArm struct {
	Name     string      `json:"name"`
	EntryID  *string     `json:"entry_id" doc:"Null without a skill, and for a cloud source"`
	SourceID *string     `json:"source_id" doc:"Null unless it is a cloud source"`
	Version  *string     `json:"version" doc:"That was tried"`
	NoSkill  bool        `json:"no_skill" doc:"It tried the cases without a skill"`
	Agent    *EvalAgent  `json:"agent"`
	RunID    *string     `json:"run_id" format:"uuid" doc:"Of its eval run; null before it has begun"`
	Reused   bool        `json:"reused" doc:"An earlier comparison made the trials, under the same conditions, within 24 hours"`
	Cases    int         `json:"cases" doc:"Decided"`
	Score    *float64    `json:"score" doc:"Mean over the decided cases of the share of their trials that passed"`
	Interval *[2]float64 `json:"interval" doc:"Wilson interval of 95 % of the score, over cases"`
	PassK    *float64    `json:"pass_k" doc:"Share of the decided cases whose every trial passed"`
	Errors   int         `json:"errors" doc:"Trials without a verdict; they count in no figure"`
	CostUSD  *float64    `json:"cost_usd" doc:"Of all trials; null if a price is unknown, or if no model took part"`
	PerPass  *float64    `json:"cost_per_success_usd" doc:"cost_usd by passed trial; null if none passed"`
	Tokens   *CostTokens `json:"tokens" doc:"Mean of a decided trial; null if they were not counted"`
	Turns    *float64    `json:"turns" doc:"Mean of a decided trial; null without an agent"`
	Duration *float64    `json:"duration_ms" doc:"Mean of a decided trial"`
}

// A ComparedPair compares two arms: every figure is b against a.
type ComparedPair struct {
	A          string            `json:"a" doc:"Name of an arm"`
	B          string            `json:"b" doc:"Name of an arm"`
	Cases      int               `json:"cases" doc:"That both arms decided"`
	Difference float64           `json:"difference" doc:"Mean of the differences of the cases' scores, b - a"`
	Interval   [2]float64        `json:"interval" doc:"Tango's interval of 95 % of the difference"`
	P          float64           `json:"p" doc:"Of the exact two-sided sign test over the cases that differ, before Holm's correction"`
	Verdict    string            `json:"verdict" enum:"a_better,b_better,no_difference_shown,inconclusive" doc:"By Holm's correction over all pairs at 0.05; inconclusive if more than a fifth of the cases were decided in one arm only"`
	Reason     *string           `json:"reason" doc:"Which arm errs, if the verdict is inconclusive"`
	Better     []string          `json:"better" nullable:"false" doc:"Ids of the cases where b is better"`
	Worse      []string          `json:"worse" nullable:"false" doc:"Ids of the cases where b is worse"`
	Cost       *EvalFigure       `json:"cost_ratio" doc:"b / a, geometric mean over the cases that both passed at least once; null below 5 of them"`
	Tokens     *EvalFigure       `json:"tokens_ratio" doc:"b / a, of all tokens"`
	Turns      *EvalFigure       `json:"turns_ratio" doc:"b / a; null without an agent"`
	Duration   *EvalFigure       `json:"duration_ratio" doc:"b / a"`
	Preference *PreferenceResult `json:"preference" doc:"Which outputs the judge prefers; null unless it was asked"`
}

// A PreferenceResult says which arm's outputs the judge prefers, asked twice in swapped order.
type PreferenceResult struct {
	Pairs        int         `json:"pairs" doc:"Pairs of outputs, without the controls"`
	Wins         int         `json:"wins" doc:"Cases that b wins"`
	Losses       int         `json:"losses" doc:"Cases that a wins"`
	Ties         int         `json:"ties" doc:"Cases that neither wins"`
	Inconsistent int         `json:"inconsistent" doc:"Pairs whose answer changed with the order; they count as ties"`
	WinShare     *float64    `json:"win_share" doc:"wins / (wins + losses); null without either"`
	Interval     *[2]float64 `json:"interval" doc:"Wilson interval of 95 % of win_share"`
	P            *float64    `json:"p" doc:"Of the exact two-sided sign test"`
	LongerShare  *float64    `json:"longer_share" doc:"Share of the won pairs whose winner was longer"`
	Reliable     bool        `json:"reliable" doc:"False if more than 30 % of the pairs are inconsistent, a control failed, or nearly all wins went to the longer output"`
}

// A ComparisonRecommendation is what follows from a comparison.
type ComparisonRecommendation struct {
	Kind        string  `json:"kind" enum:"keep,retire,cheaper,none" doc:"keep: without the skill is shown to be worse; retire: without it is not worse by more than margin, and not dearer; cheaper: arm has the lowest cost per success of those that are not worse than any other by more than margin"`
	Arm         *string `json:"arm" doc:"Name of the arm to use; null with none"`
	Reason      string  `json:"reason" doc:"In a sentence"`
	Margin      float64 `json:"margin" doc:"By how much an arm may be worse" example:"0.05"`
	CasesNeeded *int    `json:"cases_needed" doc:"How many cases would show it if the arms are equally good; set with none"`
}

// A RetirableSkill is one that a comparison recommends to do without.
type RetirableSkill struct {
	SkillID      *string  `json:"skill_id" format:"uuid" doc:"Null if no session had the skill"`
	EntryID      string   `json:"entry_id" format:"uuid" doc:"Of the registry"`
	Name         string   `json:"name" example:"meeting-minutes"`
	ComparisonID string   `json:"comparison_id" format:"uuid" doc:"The newest one of the current version with no skill"`
	CostUSDMonth *float64 `json:"cost_usd_month" doc:"What 30 days of listing and loading it cost, by the sessions of the window; null if their number or the price is unknown"`
	Reason       string   `json:"reason" doc:"In a sentence"`
}

// A ComparisonEstimate is what a comparison would probably take.
type ComparisonEstimate struct {
	Trials  int      `json:"trials" doc:"To be made, without those that can be reused"`
	Calls   int      `json:"calls" doc:"Trials with an agent or a judge, and questions about preferences"`
	CostUSD *float64 `json:"cost_usd" doc:"By what the last trials of the same agents and models cost; null if that is not known"`
}
