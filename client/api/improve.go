package api

// NewImproveRun describes an improve run to start.
type NewImproveRun struct {
	SourceID      string  `json:"source_id,omitempty" doc:"A cloud source: its newest snapshot. Exactly one of source_id and entry_id"`
	EntryID       string  `json:"entry_id,omitempty" doc:"An entry of the registry: its current version"`
	SuiteID       string  `json:"suite_id" minLength:"1" doc:"The suite whose cases decide"`
	Target        string  `json:"target,omitempty" enum:"description,body,both" default:"description" doc:"What to change"`
	MaxIterations int     `json:"max_iterations,omitempty" minimum:"1" maximum:"10" default:"3" doc:"How many candidates to try"`
	Holdout       float64 `json:"holdout,omitempty" minimum:"0.1" maximum:"0.9" default:"0.4" doc:"Share of the cases that are not written from: half of them choose, half of them prove"`

	MaxCostUSD *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that the run may cost"`
	MaxCalls   *int64   `json:"max_calls,omitempty" minimum:"1" maximum:"1000000" doc:"Most requests to models"`
	MaxMinutes *int     `json:"max_minutes,omitempty" minimum:"1" maximum:"10080" doc:"Longest time from its start"`
}

// An ImproveRun searches for a better SKILL.md.
type ImproveRun struct {
	ID            string             `json:"id" format:"uuid"`
	SuiteID       string             `json:"suite_id" format:"uuid"`
	Subject       PinnedSubject      `json:"subject"`
	Status        string             `json:"status" enum:"queued,running,succeeded,no_winner,failed_transient,failed_terminal,cancelled"`
	Target        string             `json:"target" enum:"description,body,both"`
	MaxIterations int                `json:"max_iterations"`
	Holdout       float64            `json:"holdout"`
	Seed          int64              `json:"seed"`
	MaxCostUSD    *float64           `json:"max_cost_usd" doc:"Most that the run may cost; null for no limit"`
	MaxCalls      *int64             `json:"max_calls"`
	MaxMinutes    *int               `json:"max_minutes"`
	Judge         EvalJudge          `json:"judge" doc:"Who judges and writes"`
	Progress      EvalProgress       `json:"progress" doc:"Trials of all candidates; total is a limit until the run is over"`
	Cases         ImproveCases       `json:"cases"`
	Splits        ImproveSplits      `json:"splits"`
	Cost          *EvalCost          `json:"cost" doc:"Of its eval runs and of the writer, so far; null for runs of earlier versions"`
	Current       ImproveCurrent     `json:"current" doc:"The version that the skill has"`
	Iterations    []ImproveIteration `json:"iterations" nullable:"false"`
	Winner        *ImproveWinner     `json:"winner" doc:"Null unless a candidate is better than the current version"`
	Proof         *ImproveProof      `json:"proof" doc:"The winner against the current version on cases that neither wrote nor chose it; null until it was tried"`
	StoppedBy     *string            `json:"stopped_by" enum:"max_calls,max_iterations,max_minutes,max_cost_usd" doc:"The limit that ended the search or the run; null if none did"`
	ProposalID    *string            `json:"proposal_id" format:"uuid" doc:"Of what the winner became"`
	Error         *string            `json:"error" doc:"Why the run failed, or why it cannot have a winner"`
	CreatedAt     Time               `json:"created_at"`
	StartedAt     *Time              `json:"started_at"`
	FinishedAt    *Time              `json:"finished_at"`
}

// Over reports whether the run has ended.
func (r ImproveRun) Over() bool { return r.Status != "queued" && r.Status != "running" }

// ImproveCases counts the suite's cases.
type ImproveCases struct {
	Train   int `json:"train" doc:"What candidates are written from"`
	Holdout int `json:"holdout" doc:"What only decides: those of the selection and of the proof"`
	LeftOut int `json:"left_out" doc:"Those that do not depend on what is changed, cannot be run, or ask the same again"`
}

// ImproveSplits counts the cases of the three parts of a suite.
type ImproveSplits struct {
	Train     int `json:"train" doc:"What candidates are written from"`
	Selection int `json:"selection" doc:"What chooses among them"`
	Proof     int `json:"proof" doc:"What the winner is tried on, once"`
}

// An ImproveProof compares the winner with the current version, on cases that neither wrote nor
// chose it.
type ImproveProof struct {
	Cases    int        `json:"cases" doc:"With a verdict of both"`
	Current  float64    `json:"current" doc:"Share of the trials that pass, the mean over the cases"`
	Winner   float64    `json:"winner"`
	Better   int        `json:"better" doc:"Cases of which more trials pass"`
	Worse    int        `json:"worse"`
	P        float64    `json:"p" doc:"Mid-p-value of the sign test"`
	Interval [2]float64 `json:"interval" doc:"Tango's interval of 95 % of the share of better cases minus that of worse ones"`
	Proved   bool       `json:"proved" doc:"p is at most 0.05, and the whole suite shows no regression"`
}

// An ImproveScore is that of a candidate on one part of the suite.
type ImproveScore struct {
	Passed   int         `json:"passed"`
	Cases    int         `json:"cases" doc:"Those with a verdict"`
	Rate     *float64    `json:"rate"`
	Interval *[2]float64 `json:"interval,omitempty" doc:"Wilson interval of 95 %, of the selection"`
}

// ImproveCurrent is the current version and its scores.
type ImproveCurrent struct {
	Description string        `json:"description"`
	Train       *ImproveScore `json:"train" doc:"Of all training cases; null until it is scored"`
	Holdout     *ImproveScore `json:"holdout" doc:"Of the selection; null until it is scored"`
	Errors      int           `json:"errors" doc:"Cases without a verdict"`
}

// An ImproveIteration is a candidate that was tried.
type ImproveIteration struct {
	N           int           `json:"n"`
	Parent      int           `json:"parent" doc:"The iteration that it was made from; 0 is the current version"`
	Partner     *int          `json:"partner" doc:"The other one that it merges; null for all others"`
	Description *string       `json:"description" doc:"Null if nothing usable was written"`
	Edits       []Edit        `json:"edits" nullable:"false" doc:"That made it from its parent"`
	Reason      string        `json:"reason" doc:"The writer's"`
	Train       *ImproveScore `json:"train" doc:"Of the cases that it was written from; null until they were tried"`
	Holdout     *ImproveScore `json:"holdout" doc:"Of the selection; null if it was not tried on it"`
	Errors      int           `json:"errors" doc:"Cases without a verdict"`
	Problem     *string       `json:"problem" doc:"Why it cannot win"`
}

// An ImproveWinner is the candidate that beat the current version.
type ImproveWinner struct {
	N                int         `json:"n"`
	Description      string      `json:"description"`
	PassRate         *float64    `json:"pass_rate" doc:"Of the cases of the proof; of the held-out queries in runs of earlier versions"`
	PassRateInterval *[2]float64 `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
}

// An ImproveEstimate is what an improve run would need, if it makes all of its iterations.
type ImproveEstimate struct {
	Trials       int      `json:"trials" doc:"If all iterations are made"`
	Calls        int64    `json:"calls" doc:"Of the judge's model; agents make more"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	USD          *float64 `json:"estimate_usd" doc:"Null if a price is unknown"`
	Measured     bool     `json:"measured" doc:"By the last runs of the suite; false: assumed from the length of the skill"`
}

// An Edit is a part of a change, with its reason and the cases that it should help.
type Edit struct {
	Op string `json:"op"` // Replace, InsertAfter or Delete
	// Anchor is a passage of the description or the body, word for word.
	Anchor string `json:"anchor"`
	// Text replaces the anchor or follows it. Delete ignores it.
	Text string `json:"text"`
	Why  string `json:"why"`
	// Cases are the ids of the cases that it is meant to mend.
	Cases []string `json:"cases"`
}

// An ImprovePolicy says whether a skill is improved at night without a person, and what that costs.
type ImprovePolicy struct {
	Mode       string  `json:"mode" enum:"off,propose,publish" doc:"publish: a proved proposal becomes a version, which the gate lets pass or holds"`
	MonthlyUSD float64 `json:"monthly_usd" doc:"What its runs may cost in a calendar month (UTC)"`
	SpentUSD   float64 `json:"spent_usd" doc:"This month; a run under way counts with its limit"`
	LastNight  *string `json:"last_night" format:"date" doc:"When the skill was last looked at"`
	Note       *string `json:"note" doc:"What that night did, or why it did nothing"`
	RunID      *string `json:"run_id" format:"uuid" doc:"The improve run that is under way"`
}

// NewImprovePolicy is the policy to set.
type NewImprovePolicy struct {
	Mode       string  `json:"mode" enum:"off,propose,publish"`
	MonthlyUSD float64 `json:"monthly_usd,omitempty" minimum:"0" maximum:"1000000" doc:"Required, and above 0, unless mode is off"`
}
