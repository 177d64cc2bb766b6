package api

import "encoding/json"

// NewEvalSchedule describes a schedule to create.
type NewEvalSchedule struct {
	SuiteID  string     `json:"suite_id" format:"uuid" doc:"The suite to run"`
	EntryID  string     `json:"entry_id,omitempty" doc:"An entry of the registry. Exactly one of entry_id and source_id"`
	SourceID string     `json:"source_id,omitempty" doc:"A cloud source: at each time its newest snapshot"`
	Version  string     `json:"version,omitempty" maxLength:"128" default:"current" doc:"Of the entry; current is the one that is current at each time"`
	Agent    *EvalAgent `json:"agent,omitempty" doc:"Works on the cases with a prompt, query or task package; without one, a model answers"`
	Trials   int        `json:"trials,omitempty" minimum:"1" maximum:"30" default:"3" doc:"Of each case in each run"`
	Baseline string     `json:"baseline,omitempty" enum:"none,no_skill,previous" default:"none" doc:"What to compare with in each run"`

	Every string `json:"every,omitempty" maxLength:"20" example:"24h" doc:"How often, 1h to 30d. Not together with cron; 24h without either"`
	Cron  string `json:"cron,omitempty" maxLength:"200" example:"0 3 * * *" doc:"Minute, hour, day of month, month and day of week, in UTC"`

	MaxCostUSD      *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that one run may cost"`
	MaxCostUSDMonth *float64 `json:"max_cost_usd_month,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that all runs of a calendar month (UTC) may cost; then the schedule pauses until the next one"`
	Enabled         *bool    `json:"enabled,omitempty" doc:"False makes a paused schedule (default: true)"`
}

// An EvalScheduleChange is a partial update: absent fields stay unchanged. The subject never
// changes, since scores of two skills don't compare.
type EvalScheduleChange struct {
	SuiteID  *string    `json:"suite_id,omitempty" format:"uuid" doc:"The suite to run"`
	Agent    *EvalAgent `json:"agent,omitempty" doc:"Works on the cases; null: none"`
	Trials   *int       `json:"trials,omitempty" minimum:"1" maximum:"30" doc:"Of each case in each run"`
	Baseline *string    `json:"baseline,omitempty" enum:"none,no_skill,previous" doc:"What to compare with in each run"`
	Every    *string    `json:"every,omitempty" minLength:"1" maxLength:"20" doc:"How often, 1h to 30d, in place of cron"`
	Cron     *string    `json:"cron,omitempty" minLength:"1" maxLength:"200" doc:"In place of every"`

	MaxCostUSD      *float64 `json:"max_cost_usd,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that one run may cost; null: no limit"`
	MaxCostUSDMonth *float64 `json:"max_cost_usd_month,omitempty" exclusiveMinimum:"0" maximum:"100000" doc:"Most that all runs of a calendar month may cost; null: no limit"`
	Enabled         *bool    `json:"enabled,omitempty" doc:"False pauses the schedule, true resumes it"`

	// Cleared are the fields to set to null: agent, max_cost_usd and max_cost_usd_month may be.
	Cleared []string `json:"-"`
}

// UnmarshalJSON keeps which fields are null.
func (c *EvalScheduleChange) UnmarshalJSON(raw []byte) error {
	type plain EvalScheduleChange
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, (*plain)(c)); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		if string(value) == "null" {
			c.Cleared = append(c.Cleared, name)
		}
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c EvalScheduleChange) MarshalJSON() ([]byte, error) {
	type plain EvalScheduleChange
	raw, err := json.Marshal(plain(c))
	if err != nil || len(c.Cleared) == 0 {
		return raw, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for _, name := range c.Cleared {
		fields[name] = json.RawMessage("null")
	}
	return json.Marshal(fields)
}

// An EvalSchedule runs a suite on a fixed subject at fixed times.
type EvalSchedule struct {
	ID       string     `json:"id" format:"uuid"`
	SuiteID  string     `json:"suite_id" format:"uuid" doc:"Of a suite that may be deleted"`
	EntryID  *string    `json:"entry_id" doc:"Null for a cloud source"`
	SourceID *string    `json:"source_id" doc:"Null for an entry"`
	Version  string     `json:"version" doc:"Of the entry; current is the one that is current at each time"`
	Skill    string     `json:"skill" doc:"Name of the skill, as of the last run" example:"pdf-forms"`
	Agent    *EvalAgent `json:"agent"`
	Trials   int        `json:"trials" doc:"Of each case in each run"`
	Baseline string     `json:"baseline" enum:"none,no_skill,previous"`
	Every    *string    `json:"every" example:"24h" doc:"Null with cron"`
	Cron     *string    `json:"cron" doc:"In UTC; null with every"`

	MaxCostUSD      *float64 `json:"max_cost_usd" doc:"Most that one run may cost; null for no limit"`
	MaxCostUSDMonth *float64 `json:"max_cost_usd_month" doc:"Most that all runs of a calendar month (UTC) may cost; null for no limit"`
	MonthUSD        float64  `json:"month_usd" doc:"What the runs of this month cost, with the limits of those that are under way"`

	Enabled      bool               `json:"enabled" doc:"False: somebody paused it"`
	PausedReason *string            `json:"paused_reason" doc:"Why it does not run though it is enabled; it goes on by itself at next_at, once the reason is gone"`
	NextAt       *Time              `json:"next_at" doc:"When it is due; null while somebody has paused it"`
	LastRunID    *string            `json:"last_run_id" format:"uuid" doc:"Null before the first run"`
	Reference    *ScheduleReference `json:"reference" doc:"What later runs are compared with: the first runs of this skill and suite, 3 at least with 30 decided trials; null until there are as many"`
	CreatedBy    string             `json:"created_by" format:"uuid"`
	CreatedAt    Time               `json:"created_at"`
	UpdatedAt    Time               `json:"updated_at"`
}

// A ScheduleReference is the trials that later runs of a schedule are compared with.
type ScheduleReference struct {
	Runs   int     `json:"runs" doc:"That it is made of"`
	Trials int     `json:"trials" doc:"Decided"`
	Score  float64 `json:"score" doc:"Share of the trials that passed"`
}

// EvalScheduleDetail is a schedule with its newest runs.
type EvalScheduleDetail struct {
	EvalSchedule
	Runs []ScheduledRun `json:"runs" nullable:"false" doc:"The newest 100, newest first"`
}

// A ScheduledRun is a run of a schedule, with what differed from the one before.
type ScheduledRun struct {
	RunID     string           `json:"run_id" format:"uuid" doc:"May be deleted with its suite"`
	DueAt     *Time            `json:"due_at" doc:"Null for a run that somebody started"`
	Status    string           `json:"status" enum:"running,succeeded,failed,cancelled,budget_spent,deleted" doc:"running: under way or waiting; deleted: with its suite, before it was over"`
	Score     *float64         `json:"score" doc:"Share of the decided trials that passed; null without one"`
	Trials    int              `json:"trials" doc:"Decided"`
	Counts    bool             `json:"counts" doc:"It succeeded, and at most a fifth of its trials ended as error: others are no evidence"`
	Reference *float64         `json:"reference" doc:"Score that it was compared with; null without one, and for runs of the first reference"`
	CostUSD   *float64         `json:"cost_usd" doc:"Null if a price is unknown"`
	Changed   []ScheduleChange `json:"changed" nullable:"false" doc:"What differed from the run before"`
	StartedAt Time             `json:"started_at"`
	EndedAt   *Time            `json:"ended_at" doc:"Null until it is over"`
}

// A ScheduleChange is something that two runs of a schedule were not made with alike.
type ScheduleChange struct {
	What   string `json:"what" enum:"skill,suite,agent,model,image,judge" doc:"model: the one that answered"`
	Before string `json:"before" doc:"In the run before" example:"pdf-forms 1.2.0"`
	After  string `json:"after" doc:"In this run" example:"pdf-forms 1.3.0"`
}
