package api

import "encoding/json"

// A Proposal is a proposed change of a skill.
type Proposal struct {
	ID                string          `json:"id" format:"uuid"`
	SkillID           string          `json:"skill_id" format:"uuid"`
	SkillName         string          `json:"skill_name"`
	Type              string          `json:"proposal_type" enum:"description,body"`
	Finding           string          `json:"finding" example:"missed_trigger" doc:"What it answers; once for each skill"`
	CurrentValue      *string         `json:"current_value"`
	ProposedValue     *string         `json:"proposed_value" doc:"Null where only the reason is known"`
	Reason            string          `json:"reason"`
	Confidence        *float64        `json:"confidence" doc:"From 0 to 1"`
	PassRateBefore    *float64        `json:"pass_rate_before"`
	ProjectedPassRate *float64        `json:"projected_pass_rate"`
	Evidence          json.RawMessage `json:"evidence" doc:"Counts, buckets and period"`
	Status            string          `json:"status" enum:"pending,approved,rejected,applied"`
	ProposedBy        string          `json:"proposed_by" example:"contributor_aggregate"`
	ReviewedBy        *string         `json:"reviewed_by"`
	ReviewedAt        *Time           `json:"reviewed_at"`
	AppliedAt         *Time           `json:"applied_at"`
	CreatedAt         Time            `json:"created_at"`

	Target      string           `json:"target" enum:"description,body,both" doc:"What it rewrites"`
	EntryID     *string          `json:"entry_id" format:"uuid" doc:"The skill's entry in the registry"`
	BaseVersion *string          `json:"base_version" doc:"The version that it was made for"`
	Diff        *string          `json:"diff" doc:"Unified, of SKILL.md"`
	Edits       []ProposalEdit   `json:"edits" nullable:"false"`
	Proved      bool             `json:"proved" doc:"Better than the current words, on cases that nobody wrote it from or chose it by"`
	Proof       *ProposalProof   `json:"proof"`
	Stale       bool             `json:"stale" doc:"The words that it was made for have changed since"`
	StaleReason *string          `json:"stale_reason"`
	RefreshedAt *Time            `json:"refreshed_at"`
	Outcome     *ProposalOutcome `json:"outcome" doc:"What became of it; null: it was not applied"`
}

// A ProposalOutcome is what became of a proposal that was applied.
type ProposalOutcome struct {
	Kind             string   `json:"kind" enum:"version,pull_request,patch"`
	State            string   `json:"state" enum:"queued,failed,candidate,blocked,published,rolled_back,withdrawn,open,merged,closed,given"`
	Message          *string  `json:"message" doc:"Why it is in this state"`
	Version          *string  `json:"version"`
	URL              *string  `json:"url" doc:"Of the pull request"`
	Branch           *string  `json:"branch"`
	ObservedPassRate *float64 `json:"observed_pass_rate" doc:"Of the version in production; to compare with projected_pass_rate"`
	UpdatedAt        Time     `json:"updated_at"`
}

// A ProposalEdit is a part of a proposed change.
type ProposalEdit struct {
	Op     string   `json:"op" example:"replace" doc:"replace, insert_after or delete"`
	Anchor string   `json:"anchor" doc:"The text that it changes; occurs once"`
	Text   string   `json:"text"`
	Why    string   `json:"why"`
	Cases  []string `json:"cases" nullable:"false"`
}

// A ProposalProof is the comparison of the proposed words with the current ones, on cases that
// neither wrote nor chose them.
type ProposalProof struct {
	Cases    int         `json:"cases"`
	Current  float64     `json:"current" doc:"Share of the trials that pass with the current words"`
	Winner   float64     `json:"winner" doc:"With the proposed ones"`
	Better   int         `json:"better" doc:"Cases that got better"`
	Worse    int         `json:"worse"`
	P        *float64    `json:"p" doc:"How likely a difference like this is between equals"`
	Interval *[2]float64 `json:"interval" doc:"95 % interval of the difference"`
}

// A ProposalChange is a partial update: fields that are null or absent stay unchanged. The value
// is written first, so that one request writes and approves.
type ProposalChange struct {
	Status        *string `json:"status,omitempty" enum:"pending,approved,rejected,applied"`
	ProposedValue *string `json:"proposed_value,omitempty" maxLength:"65536" doc:"The whole description, or the whole body"`
}
