package api

// A ListedSkill is the health of a skill in a list: a Skill without the fields that need more
// queries per skill. Rates are null, not zero, where there is nothing to divide by.
type ListedSkill struct {
	SkillID            string             `json:"skill_id" format:"uuid"`
	Name               string             `json:"name" example:"pdf-tables"`
	Status             string             `json:"status" enum:"healthy,warning,critical,unknown"`
	UniqueSessions     int64              `json:"unique_sessions"`
	HasEvidence        bool               `json:"has_evidence"`
	TriggerRate        *float64           `json:"trigger_rate"`
	TriggerRateBasis   *string            `json:"trigger_rate_basis" enum:"offered,considered" doc:"Whether agents reported which skills were on offer"`
	OfferedSessions    int64              `json:"offered_sessions" doc:"Sessions in the window that were offered the skill"`
	AvgConfidence      *float64           `json:"avg_confidence"`
	ConfidenceCoverage *float64           `json:"confidence_coverage"`
	PassRate           *float64           `json:"pass_rate"`
	PassRateBasis      *string            `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	PassRatesByBasis   map[string]float64 `json:"pass_rates_by_basis" nullable:"false" doc:"Pass rate of the sessions whose grade has that basis: judge, person, outcome or pushed"`
	LastSeenAt         *Time              `json:"last_seen_at"`
	CostPerUse         *float64           `json:"cost_per_use" doc:"The median, in dollars: per_use_p50 of cost"`
	Cost               *Cost              `json:"cost" doc:"Of the model requests in the window; null without any"`
	Confirmed          bool               `json:"confirmed" doc:"Whether a real use of the name was reported"`
	Hidden             bool               `json:"hidden"`
	MergedInto         *string            `json:"merged_into" format:"uuid" doc:"The skill that has all that is reported of this one"`
}

// A Skill is the health of a skill, with the figures that its rates are computed from, so that a
// client can combine skills itself: rates do not add up, counts do.
type Skill struct {
	SkillID            string             `json:"skill_id" format:"uuid"`
	Name               string             `json:"name" example:"pdf-tables"`
	Status             string             `json:"status" enum:"healthy,warning,critical,unknown"`
	FirstSeenAt        *Time              `json:"first_seen_at"`
	LastSeenAt         *Time              `json:"last_seen_at"`
	UniqueSessions     int64              `json:"unique_sessions"`
	TriggerRate        *float64           `json:"trigger_rate"`
	TriggerRateBasis   *string            `json:"trigger_rate_basis" enum:"offered,considered" doc:"Whether agents reported which skills were on offer"`
	OfferedSessions    int64              `json:"offered_sessions" doc:"Sessions in the window that were offered the skill"`
	SeenSessions       int64              `json:"seen_sessions" doc:"Sessions in the window that were offered the skill, considered it or called it: the denominator of trigger_rate"`
	TriggeredSessions  int64              `json:"triggered_sessions" doc:"Sessions in the window in which it fired: the numerator of trigger_rate"`
	AvgConfidence      *float64           `json:"avg_confidence"`
	ConfidenceCoverage *float64           `json:"confidence_coverage"`
	PassRate           *float64           `json:"pass_rate"`
	PassRateBasis      *string            `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	PassRatesByBasis   map[string]float64 `json:"pass_rates_by_basis" nullable:"false" doc:"Pass rate of the sessions whose grade has that basis: judge, person, outcome or pushed"`
	PassRateInterval   *[2]float64        `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
	GradedSessions     int64              `json:"graded_sessions"`
	GradedByBasis      map[string]int64   `json:"graded_sessions_by_basis" nullable:"false" doc:"graded_sessions by the basis of their grade"`
	HasEvidence        bool               `json:"has_evidence"`
	Cost               *Cost              `json:"cost" doc:"Of the model requests in the window; null without any"`
	Confirmed          bool               `json:"confirmed" doc:"Whether a real use of the name was reported"`
	Hidden             bool               `json:"hidden"`
	MergedInto         *string            `json:"merged_into" format:"uuid" doc:"The skill that has all that is reported of this one"`
}

// A SkillDay has the figures of one day, in UTC.
type SkillDay struct {
	Date           string   `json:"date" format:"date"`
	Sessions       int64    `json:"sessions"`
	Checks         int64    `json:"checks"`
	Triggers       int64    `json:"triggers"`
	TriggerRate    *float64 `json:"trigger_rate"`
	AvgConfidence  *float64 `json:"avg_confidence"`
	GradedSessions int64    `json:"graded_sessions"`
	PassRate       *float64 `json:"pass_rate"`
}

// SkillDetail is a skill with its days. The skill's figures cover the configured window, which may
// be another period than the days.
type SkillDetail struct {
	Skill Skill      `json:"skill"`
	Days  []SkillDay `json:"daily_stats" nullable:"false" doc:"Every day, oldest first"`
}
