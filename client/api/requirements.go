package api

// A RequiredSkill is the version that a requirement means now.
type RequiredSkill struct {
	EntryID      string `json:"entry_id" format:"uuid"`
	Name         string `json:"name" example:"pdf-tables"`
	Organisation string `json:"organisation" example:"acme"`
	Version      string `json:"version" example:"1.2.0"`
	ContentHash  string `json:"content_hash"`
}

// A Requirement is what metadata.requires of a SKILL.md names.
type Requirement struct {
	Name         string  `json:"name" example:"pdf-tables"`
	Organisation *string `json:"organisation" doc:"As written; null: that of the skill"`
	Range        *string `json:"range" example:">= 1.2" doc:"null: any version"`
	State        string  `json:"state" enum:"met,missing,unmet,withdrawn" doc:"missing: there is none that you may see; unmet: the range does not allow the current version; withdrawn: it allows only withdrawn ones"`
	Problem      *string `json:"problem" doc:"In words; null if it is met"`
	// Skill is nil if the requirement is missing.
	Skill *RequiredSkill `json:"skill" doc:"The current version; null if it is missing"`
}

// A NeededSkill is a skill that is installed along.
type NeededSkill struct {
	RequiredSkill
	RequiredBy []string      `json:"required_by" nullable:"false" doc:"Names of the skills that require it"`
	Requires   []Requirement `json:"requires" nullable:"false"`
}

// A DependentSkill is a skill whose current version requires another one.
type DependentSkill struct {
	RequiredSkill
	Range *string `json:"range" doc:"null: any version"`
	State string  `json:"state" enum:"met,unmet" doc:"Whether the version of this answer meets it"`
}

// Requirements are what a version requires, and what requires it.
type Requirements struct {
	RequiredSkill
	Requires   []Requirement    `json:"requires" nullable:"false" doc:"In the order of its SKILL.md"`
	Skills     []NeededSkill    `json:"skills" nullable:"false" doc:"All skills that are installed along, nearest first; at most 100"`
	RequiredBy []DependentSkill `json:"required_by" nullable:"false" doc:"Skills whose current version requires the entry, by name; at most 200"`
	Warnings   []string         `json:"warnings" nullable:"false" doc:"What is missing, too old or circular, in words"`
	Truncated  bool             `json:"truncated" doc:"There are more than fit into the lists"`
}

// An InstallPlan is what is installed along with skills.
type InstallPlan struct {
	Skills    []NeededSkill     `json:"skills" nullable:"false" doc:"All skills that are needed and not among those asked about, nearest first; at most 100"`
	Required  []RequirementEdge `json:"required" nullable:"false" doc:"Which of those asked about require another one of them"`
	Warnings  []string          `json:"warnings" nullable:"false"`
	Truncated bool              `json:"truncated"`
}

// A RequirementEdge is a skill that another one requires.
type RequirementEdge struct {
	EntryID    string `json:"entry_id" format:"uuid"`
	RequiredBy string `json:"required_by" doc:"Name of the skill"`
}

// A PlannedSkill is a version that is installed or shall be.
type PlannedSkill struct {
	EntryID string `json:"entry_id"`
	Version string `json:"version" doc:"The one that is installed"`
}
