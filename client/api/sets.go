package api

// NewSet describes a set to create, or what one becomes.
type NewSet struct {
	Name         string           `json:"name" minLength:"1" maxLength:"64" example:"docs-team" doc:"Lower-case letters, digits and dashes; unique in the organisation"`
	Description  string           `json:"description,omitempty" maxLength:"500" doc:"What it is for, in a sentence"`
	Entries      []WantedSetEntry `json:"entries,omitempty" nullable:"false" maxItems:"200" doc:"The skills that it has"`
	Teams        []string         `json:"teams,omitempty" nullable:"false" maxItems:"100" doc:"Ids of the teams whose members should have it"`
	Repositories []string         `json:"repositories,omitempty" nullable:"false" maxItems:"100" example:"[\"acme/docs\",\"acme/site-*\"]" doc:"Repositories whose checkouts should have it, as owner/repo or a glob; the host doesn't count"`
	Required     bool             `json:"required,omitempty" doc:"Whether its teams must have it, or may"`
	Owners       *SetOwners       `json:"owners,omitempty" doc:"Who may change it besides admins; omitted: who made it, or whoever owns it already"`
}

// A WantedSetEntry is a skill to put into a set.
type WantedSetEntry struct {
	EntryID string  `json:"entry_id,omitempty" doc:"Exactly one of entry_id and name"`
	Name    string  `json:"name,omitempty" maxLength:"100" example:"pdf-forms"`
	Range   *string `json:"range,omitempty" maxLength:"100" example:">= 1.2 < 2" doc:"Versions to take the newest published one of; omitted or null: the current version"`
}

// SetOwners are the people and teams who may change a set.
type SetOwners struct {
	Users []string `json:"users,omitempty" nullable:"false" maxItems:"50" doc:"Ids of members"`
	Teams []string `json:"teams,omitempty" nullable:"false" maxItems:"50" doc:"Ids of teams"`
}

// A Set is a list of skills that teams and projects should have.
type Set struct {
	ID           string        `json:"id" format:"uuid"`
	Name         string        `json:"name" example:"docs-team"`
	Description  *string       `json:"description"`
	Entries      []SetEntry    `json:"entries" nullable:"false" doc:"In the order of the request"`
	Teams        []string      `json:"teams" nullable:"false" doc:"Ids of the teams whose members should have it"`
	Repositories []string      `json:"repositories" nullable:"false" doc:"Repositories whose checkouts should have it"`
	Required     bool          `json:"required" doc:"Whether its teams must have it, or may"`
	Owners       SetOwnersList `json:"owners" doc:"Who may change it besides admins"`
	Catalogue    SetCatalogue  `json:"catalogue" doc:"What listing just these skills costs in each agent"`
	CreatedAt    Time          `json:"created_at"`
	UpdatedAt    Time          `json:"updated_at"`
}

// SetOwnersList is SetOwners as answers have it.
type SetOwnersList struct {
	Users []string `json:"users" nullable:"false" doc:"Ids of members"`
	Teams []string `json:"teams" nullable:"false" doc:"Ids of teams"`
}

// A SetEntry is a skill of a set, with the version that the set gives.
type SetEntry struct {
	EntryID     string  `json:"entry_id" format:"uuid"`
	Name        string  `json:"name"`
	Range       *string `json:"range" example:">= 1.2 < 2" doc:"Null: the current version"`
	Version     *string `json:"version" example:"1.4.0" doc:"That the set gives; null if unsatisfied"`
	ContentHash *string `json:"content_hash" doc:"Of that version's archive"`
	Unsatisfied bool    `json:"unsatisfied,omitempty" doc:"Nothing is published in the range, so the set leaves it out"`
}

// SetCatalogue is what agents list of a set.
type SetCatalogue struct {
	ClaudeCode SetListing `json:"claude_code" doc:"In Claude Code"`
	Codex      SetListing `json:"codex" doc:"In Codex"`
}

// A SetListing is what one agent lists of a set.
type SetListing struct {
	Tokens    int64 `json:"tokens" example:"420" doc:"Of the listing in each session; four bytes a token"`
	Truncated int   `json:"truncated" example:"0" doc:"Descriptions that are listed only in part"`
}

// SetCoverage says who has a set.
type SetCoverage struct {
	Coverage   []SetMachine `json:"coverage" nullable:"false" doc:"Members of the set's teams with their devices"`
	Complete   int          `json:"complete" example:"41" doc:"Machines that have everything of the set, all of them counted"`
	Of         int          `json:"of" example:"48" doc:"Machines, all of them counted; a member without an installation counts as one"`
	NextCursor *string      `json:"next_cursor" doc:"Where the next answer begins; null at the end"`
}

// A SetMachine is a machine of someone who should have a set.
type SetMachine struct {
	Person  SetPerson `json:"person" doc:"Who has it"`
	Device  *string   `json:"device" example:"laptop-7f3a" doc:"Null if the client names none, and for a member without an installation"`
	Missing []string  `json:"missing" nullable:"false" doc:"Names of skills that are not installed"`
	Behind  []string  `json:"behind" nullable:"false" doc:"Names of skills at another version than the set's, edited ones included"`
	Extra   int       `json:"extra" example:"2" doc:"How many skills are installed that the set does not have"`
}

// A SetPerson is a member who should have a set.
type SetPerson struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name" example:"Ana Kovač"`
}
