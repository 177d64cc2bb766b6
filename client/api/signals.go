package api

// A SignalsResult is the result of a batch, or of a session.
type SignalsResult struct {
	Status     string   `json:"status" enum:"accepted"`
	Accepted   *int     `json:"accepted,omitempty" doc:"New signals; with a batch"`
	Duplicates *int     `json:"duplicates,omitempty" doc:"Signals that were there already; with a batch"`
	Warnings   []string `json:"warnings,omitempty" doc:"What of the body was not used, and what to do about it"`
}

// Withholding marks suppressed figures (k-anonymity) and explains why.
type Withholding struct {
	Suppressed bool   `json:"suppressed,omitempty" doc:"Something is withheld: it would tell of too few contributors"`
	Reason     string `json:"suppressed_reason,omitempty" doc:"Why, and what would show it; with suppressed"`
}

// A SignalsSource says what an answer is based on.
type SignalsSource struct {
	Source      string `json:"source" enum:"contribution_signal"`
	CreatorID   string `json:"creator_id" format:"uuid" doc:"The user behind the key"`
	GeneratedAt Time   `json:"generated_at"`
	AsOf        *Time  `json:"as_of" doc:"The snapshot that the figures are of; null before the first"`
}

// SignalsTotals are the figures over all rows.
type SignalsTotals struct {
	Signals      *int64 `json:"signals" doc:"Over the rows that are shown"`
	Skills       int    `json:"skills"`
	Contributors *int   `json:"contributors" doc:"Null if unknown or withheld"`
	Withholding
}

// A SignalsRow has the figures of a skill, a type of signal and a period.
type SignalsRow struct {
	SkillName    string   `json:"skill_name"`
	Type         string   `json:"signal_type"`
	Bucket       string   `json:"bucket" example:"2026-W07"`
	Signals      *int64   `json:"signal_count" doc:"Null if withheld"`
	Contributors *int     `json:"contributor_count" doc:"Null if withheld"`
	Confidence   *float64 `json:"avg_confidence" doc:"Null if withheld, or if not every signal has one"`
	Withholding
}

// SignalsAggregates count signals by skill, type and period.
type SignalsAggregates struct {
	GeneratedAt Time          `json:"generated_at"`
	AsOf        *Time         `json:"as_of" doc:"The snapshot that the figures are of; null before the first"`
	Totals      SignalsTotals `json:"totals"`
	Aggregates  []SignalsRow  `json:"aggregates" nullable:"false"`
}

// A SkillSignals summarises the contributors' signals about a skill.
type SkillSignals struct {
	SkillName    string   `json:"skill_name"`
	Signals      *int64   `json:"signal_count" doc:"Null if withheld"`
	Contributors *int     `json:"contributor_count" doc:"Null if withheld"`
	TriggerRate  *float64 `json:"trigger_rate" doc:"Of the sessions that say"`
	MissRate     *float64 `json:"miss_rate" doc:"Of the sessions that say"`
	Actionable   bool     `json:"actionable" doc:"Ten signals at least, of enough contributors to be shown"`
	LastSignalAt Time     `json:"last_signal_at" doc:"The day, at midnight: the moment would be one person's"`
	Withholding
}

// A SignalsOverview summarises the contributors' signals about all skills.
type SignalsOverview struct {
	SignalsSource
	Signals          *int64         `json:"total_signals" doc:"Over the skills that are shown"`
	Contributors     *int           `json:"total_contributors" doc:"Null if withheld"`
	ActiveSkills     int            `json:"active_skills"`
	PendingProposals int            `json:"pending_proposals"`
	Skills           []SkillSignals `json:"skills" nullable:"false"`
	Withholding
}

// A SignalsCount is how often prompts of a kind missed a skill.
type SignalsCount struct {
	Class   string `json:"query_bucket" example:"troubleshooting"`
	Signals int64  `json:"count"`
}

// A SignalsWeek has the figures of an ISO week.
type SignalsWeek struct {
	Week         string `json:"week" example:"2026-W07"`
	Signals      *int64 `json:"signals" doc:"Null if withheld"`
	Contributors *int   `json:"contributors" doc:"Null if withheld"`
	Withholding
}

// SkillSignalsDetail is what contributors' signals say about one skill.
type SkillSignalsDetail struct {
	SignalsSource
	Skill       *SkillSignals     `json:"skill" doc:"Null if there are no signals"`
	Missed      []SignalsCount    `json:"missed_categories" nullable:"false" doc:"Those that may be shown"`
	Grades      map[string]*int64 `json:"grade_distribution" nullable:"false" doc:"A, B, C and F; null if withheld"`
	Invocations map[string]*int64 `json:"invocation_types" nullable:"false" doc:"explicit, implicit, contextual and missed; null if withheld"`
	Weekly      []SignalsWeek     `json:"weekly" nullable:"false" doc:"Oldest first"`
	Withholding
}
