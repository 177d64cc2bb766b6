package api

// A Session is a session of an agent, in a list.
type Session struct {
	SessionID  string         `json:"session_id" doc:"As the agent calls it"`
	Agent      string         `json:"agent" example:"claude-code" doc:"Empty if unknown"`
	StartedAt  Time           `json:"started_at"`
	EndedAt    *Time          `json:"ended_at" doc:"Null while it may go on: nothing reported the end, and the last event is less than an hour ago"`
	Turns      *int64         `json:"turns" doc:"Prompts of the person; null if no report says anything about them"`
	ToolCalls  *int64         `json:"tool_calls" doc:"Null if no report says anything about them"`
	ToolErrors *int64         `json:"tool_errors" doc:"Likewise"`
	Skills     []SessionSkill `json:"skills" nullable:"false" doc:"Activated ones first"`
	Grade      *SessionGrade  `json:"grade"`
	CostUSD    *float64       `json:"cost_usd" doc:"Null if no cost is known"`
	HasContent bool           `json:"has_content" doc:"Whether the words of prompts and responses are kept"`
}

// A SessionSkill is a skill of a session. Version is null if none is known.
type SessionSkill struct {
	Name      string  `json:"name" example:"pdf-tables"`
	Activated bool    `json:"activated"`
	Offered   bool    `json:"offered"`
	Version   *string `json:"version" example:"1.2.0" doc:"Version in the registry that was activated last"`
}

// A SessionGrade is the grade of a session in a list. The single grades are in the
// detail only.
type SessionGrade struct {
	PassRate float64 `json:"pass_rate" doc:"Mean over the skills that were graded"`
	Basis    string  `json:"basis" enum:"judge,person,outcome,pushed,mixed"`
}

// SessionDetail is a session with a page of its events.
type SessionDetail struct {
	Session
	Events    []SessionEvent `json:"events" nullable:"false" doc:"Oldest first; the first page, or the one after cursor"`
	Truncated bool           `json:"truncated" doc:"There were more events than are kept, and the figures are of those that are"`
	Grades    []Grade        `json:"grades" nullable:"false"`
}

// A SessionEvent is an event of the timeline.
type SessionEvent struct {
	At         Time     `json:"at"`
	Kind       string   `json:"kind" enum:"prompt,activation,tool,response,grade,error"`
	Name       string   `json:"name" example:"Bash" doc:"Of the tool, skill or model; empty if there is none"`
	DurationMS *int64   `json:"duration_ms"`
	OK         *bool    `json:"ok"`
	Tokens     *int64   `json:"tokens" doc:"All tokens of the request, cached ones included"`
	CostUSD    *float64 `json:"cost_usd"`
	Text       *string  `json:"text" doc:"What was said; null unless the organisation keeps content"`
}

// A Grade is a verdict on a session and a skill.
type Grade struct {
	ID        string     `json:"id"`
	SessionID string     `json:"session_id"`
	Skill     string     `json:"skill" example:"pdf-tables"`
	PassRate  float64    `json:"pass_rate"`
	Basis     string     `json:"basis" enum:"judge,person,outcome,pushed"`
	Judge     *string    `json:"judge" doc:"The model, of a judge's grade"`
	Evidence  []Evidence `json:"evidence" nullable:"false"`
	Reason    *string    `json:"reason"`
	GradedBy  *string    `json:"graded_by" doc:"The id of the person, of a person's grade"`
	GradedAt  Time       `json:"graded_at"`
}

// Evidence is one expectation of a grade, and whether it was met. Quotation is null without
// permission, so that the rest of a grade can be shown.
type Evidence struct {
	Expectation string  `json:"expectation" doc:"Or the name of an outcome, e.g. tool_errors"`
	Passed      bool    `json:"passed"`
	Quotation   *string `json:"quotation" doc:"From the session; null for those who may not read what was said"`
}

// A Grader is how the sessions of skills are graded.
type Grader struct {
	Enabled      bool     `json:"enabled"`
	Expectations []string `json:"expectations" nullable:"false" doc:"What a session of the skill must show; without any a draft from the skill itself is used"`
	SamplePerDay *int     `json:"sample_per_day" doc:"Sessions of a skill that the judge reads in a day; null: all"`
	MaxCostUSD   *float64 `json:"max_cost_usd_per_day" doc:"What the judge may cost in a day; null: no limit"`
	Threshold    float64  `json:"threshold" doc:"Share of the expectations from which on a session passed"`
	Inherited    bool     `json:"inherited" doc:"The skill has no grader of its own, and this is the organisation's"`
	Unusable     int      `json:"unusable" doc:"Sessions that are in no pass rate: the judge read them and gave no usable verdict"`
}

// A FailureGroup is sessions of a skill that failed for the same reason.
type FailureGroup struct {
	Key        string   `json:"key" doc:"Identifies the reason"`
	Label      string   `json:"label" example:"Page numbers are missing" doc:"A few words of the judge; without them the reason"`
	LabelledBy *string  `json:"labelled_by" enum:"judge" doc:"Who wrote the label; null: it is the reason"`
	Reason     string   `json:"reason" example:"It names the page of each table." doc:"Of one of the sessions"`
	Count      int64    `json:"count" doc:"Sessions"`
	Sessions   []string `json:"sessions" nullable:"false" doc:"The newest ones, at most 5"`
	LastAt     Time     `json:"last_at"`
}

// A Calibration is how often the judge agrees with people on the sessions of a skill. Two
// fields are the same for clients of an earlier version.
type Calibration struct {
	Pairs             int         `json:"pairs" doc:"Sessions that both the judge and people have graded"`
	Agreement         *float64    `json:"agreement" doc:"Share of the pairs with the same verdict; null without any"`
	Interval          *[2]float64 `json:"interval" doc:"Wilson interval of 95 % of agreement"`
	AgreementInterval *[2]float64 `json:"agreement_interval" doc:"The same as interval"`
	AgreementOnFails  *float64    `json:"agreement_on_fails" doc:"Of the pairs that people failed, the share that the judge failed, too; null without any"`
	Kappa             *float64    `json:"kappa" doc:"Cohen's kappa: agreement beyond chance, 1 at most; null without any pair, or if all verdicts are the same"`
	KappaInterval     *[2]float64 `json:"kappa_interval" doc:"Of 95 %: that of agreement, with the same agreement by chance"`
}
