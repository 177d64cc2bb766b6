package api

import (
	"fmt"
	"strings"
	"time"
)

// A Gate is the comparison of a pushed version with the current one, and its verdict.
type Gate struct {
	ID             string           `json:"id" format:"uuid"`
	EntryID        string           `json:"entry_id" format:"uuid"`
	Version        string           `json:"version" example:"1.3.0"`
	PullRequest    *GatePullRequest `json:"pull_request,omitempty" doc:"Whose head was tried instead of a version; nothing publishes it"`
	Against        *string          `json:"against" doc:"The version that was current; null for the first one of an entry"`
	Mode           string           `json:"mode" enum:"report,enforce"`
	Status         string           `json:"status" enum:"queued,running,decided,superseded,cancelled"`
	Verdict        *string          `json:"verdict" enum:"pass,block,inconclusive,skipped" doc:"Null until it is decided"`
	Reason         string           `json:"reason" doc:"Why, in a sentence"`
	Attempt        int              `json:"attempt" doc:"1, 2, ...: how often the same question was asked of the same files. Trials of all attempts count"`
	Previous       []string         `json:"previous" nullable:"false" doc:"Ids of the gates of earlier attempts, oldest first"`
	Suites         []GateSuite      `json:"suites" nullable:"false"`
	Floors         []GateFloor      `json:"floors" nullable:"false" doc:"The absolute demands of the policy"`
	FalseBlockRate float64          `json:"false_block_rate" doc:"At most this share of harmless versions is blocked"`
	Override       *GateOverride    `json:"override" doc:"Who made the version current all the same"`
	CostUSD        *float64         `json:"cost_usd" doc:"Of the models that took part; null if a price is unknown"`
	CreatedAt      Time             `json:"created_at"`
	DecidedAt      *Time            `json:"decided_at"`
}

// A GatePullRequest is one whose head commit is gated before the merge.
type GatePullRequest struct {
	Number int64  `json:"number"`
	Commit string `json:"commit"`
	URL    string `json:"url"`
}

// A GateSuite has the results of one suite's trials.
type GateSuite struct {
	SuiteID   string   `json:"suite_id" format:"uuid"`
	RunIDs    []string `json:"run_ids" nullable:"false" doc:"Of both versions, the fresh trials of step two included"`
	Cases     int      `json:"cases"`
	Better    []string `json:"better" nullable:"false" doc:"Ids of cases"`
	Worse     []string `json:"worse" nullable:"false" doc:"Ids of cases"`
	Unchanged int      `json:"unchanged"`
	Errors    int      `json:"errors" doc:"Cases without a verdict of one of the versions"`
	// Broken are cases with a fixed output that the current version passes and the new
	// one fails; they need no statistics.
	Broken    []string        `json:"broken" nullable:"false" doc:"Cases whose outcome cannot vary, that passed before and fail now"`
	Score     *GateScore      `json:"score" doc:"Null if no case was decided on both versions, and for gates from before it was kept"`
	SignTestP *float64        `json:"sign_test_p" doc:"Of step one; null if no case can vary"`
	Confirmed []GateConfirmed `json:"confirmed" nullable:"false" doc:"Step two: the cases that looked worse, tried again"`
	AdjustedP *float64        `json:"adjusted_p" doc:"Over both steps, all suites and all comparisons with no skill (Holm); blocks at false_block_rate, after an earlier block at 0.2"`
	NoSkillP  *float64        `json:"no_skill_p" doc:"That the version does no harm compared to no skill; null if that was not tried"`
	// NoSkillAdjustedP is NoSkillP corrected for multiple comparisons (Holm); the gate
	// decides by it.
	NoSkillAdjustedP *float64          `json:"no_skill_adjusted_p" doc:"The same in the family of adjusted_p"`
	Interval         *[2]float64       `json:"interval" doc:"95 % interval of the difference of the shares of passing cases (Tango)"`
	Results          []GateCase        `json:"results" nullable:"false" doc:"The cases that changed"`
	Effort           *GateEffort       `json:"effort" doc:"Of the new version against the current one; null without a current version"`
	NoSkillEffort    *GateEffort       `json:"no_skill_effort" doc:"Of the new version against no skill; null if that was not tried"`
	Changes          []GateSuiteChange `json:"changed_since_last_gate" nullable:"false" doc:"How the suite was changed since the last gate of a version, oldest first"`
}

// A GateScore compares the mean scores of the two versions. The score of a case is the share
// of its decided trials that passed.
type GateScore struct {
	New        float64    `json:"new"`
	Current    float64    `json:"current"`
	Difference float64    `json:"difference" doc:"New minus current"`
	Interval   [2]float64 `json:"interval" doc:"Tango's interval of 95 % of the difference, over cases"`
}

// Text formats the score, e.g. "82 %, was 64 % (+18 points, +3 to +33)".
func (s GateScore) Text() string {
	return fmt.Sprintf("%.0f %%, was %.0f %% (%+.0f points, %+.0f to %+.0f)",
		100*s.New, 100*s.Current, 100*s.Difference, 100*s.Interval[0], 100*s.Interval[1])
}

// A GateEffort has the ratios of what two arms took: geometric means over the cases that both
// passed at least once.
type GateEffort struct {
	Cost     *EvalFigure `json:"cost_ratio" doc:"Null below 5 cases that both passed at least once, or if a price is unknown"`
	Tokens   *EvalFigure `json:"tokens_ratio" doc:"Of all tokens; null if they were not counted"`
	Turns    *EvalFigure `json:"turns_ratio" doc:"Null without an agent"`
	Duration *EvalFigure `json:"duration_ratio" doc:"Null below 5 cases that both passed at least once"`
}

// Text formats the ratios that are known, e.g. "cost 0.40 (0.30 to 0.55), tokens 0.52 (0.41 to 0.66)".
// It is "" if no model took part: the time of a check says nothing.
func (e *GateEffort) Text() string {
	if e == nil || e.Cost == nil && e.Tokens == nil && e.Turns == nil {
		return ""
	}
	var all []string
	for _, r := range []struct {
		name string
		of   *EvalFigure
	}{{"cost", e.Cost}, {"tokens", e.Tokens}, {"turns", e.Turns}, {"time", e.Duration}} {
		if r.of != nil {
			all = append(all, fmt.Sprintf("%s %.2f (%.2f to %.2f)", r.name, r.of.Value, r.of.Interval[0], r.of.Interval[1]))
		}
	}
	return strings.Join(all, ", ")
}

// A GateSuiteChange is an edit of a suite between two gates of an entry. It's shown with the
// verdict, since weakening a suite is one way past a gate.
type GateSuiteChange struct {
	By       string   `json:"by" format:"uuid" doc:"Id of the person or service account"`
	Email    string   `json:"email" doc:"Their address; empty if they are gone"`
	At       Time     `json:"at"`
	Added    []string `json:"added" nullable:"false" doc:"Names of cases"`
	Removed  []string `json:"removed" nullable:"false" doc:"Names of cases"`
	Changed  []string `json:"changed" nullable:"false" doc:"Names of cases"`
	Settings []string `json:"settings" nullable:"false" doc:"Settings of the suite, e.g. resource_limits_json"`
}

// GateConfirmed is the result of Fisher's exact test on the fresh trials of a case.
type GateConfirmed struct {
	Case    string  `json:"case"`
	FisherP float64 `json:"fisher_p"`
}

// A GateCase has the decided trials of a case for both versions.
type GateCase struct {
	Case         string      `json:"case"`
	Name         string      `json:"name" doc:"Of the case, or what it asks, shortened"`
	New          GateTrials  `json:"new"`
	Current      GateTrials  `json:"current"`
	FreshNew     *GateTrials `json:"fresh_new" doc:"Of step two"`
	FreshCurrent *GateTrials `json:"fresh_current"`
}

// GateTrials counts decided trials; those with errors don't count.
type GateTrials struct {
	Passed int `json:"passed"`
	Tried  int `json:"tried"`
}

// A GateFloor is an absolute requirement of the policy, e.g. a minimum pass rate.
type GateFloor struct {
	Name   string   `json:"name" enum:"validation,pass_rate,trigger_recall,skill_md_tokens"`
	Want   string   `json:"want"`
	Got    string   `json:"got"`
	Value  *float64 `json:"value" doc:"The number that was compared; null where it is none"`
	Passed bool     `json:"passed"`
}

// A GateOverride is a person's decision to disregard a verdict.
type GateOverride struct {
	By     string `json:"by" format:"uuid"`
	Reason string `json:"reason"`
	At     Time   `json:"at"`
}

// Who returns the address of the person or service account that made the change.
func (c GateSuiteChange) Who() string {
	if c.Email == "" {
		return "A member who was removed"
	}
	return c.Email
}

// When returns the day of the change (UTC), e.g. "2026-01-31".
func (c GateSuiteChange) When() string { return time.Time(c.At).UTC().Format(time.DateOnly) }

// What describes the change and names removed cases, e.g. `removed "scanned
// tables", "rotated pages"; added 2 cases`.
func (c GateSuiteChange) What() string {
	var all []string
	if len(c.Removed) > 0 {
		names := make([]string, len(c.Removed))
		for i, name := range c.Removed {
			names[i] = fmt.Sprintf("%q", name)
		}
		all = append(all, "removed "+strings.Join(names, ", "))
	}
	count := func(did string, n int) {
		switch {
		case n == 1:
			all = append(all, did+" 1 case")
		case n > 1:
			all = append(all, fmt.Sprintf("%s %d cases", did, n))
		}
	}
	count("changed", len(c.Changed))
	count("added", len(c.Added))
	if len(c.Settings) > 0 {
		all = append(all, "set "+strings.Join(c.Settings, ", "))
	}
	if len(all) == 0 {
		return "saved it without a change"
	}
	return strings.Join(all, "; ")
}
