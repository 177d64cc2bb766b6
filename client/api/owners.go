package api

// Owners are the people and teams that own an entry, and where that is set.
type Owners struct {
	Source     string      `json:"source" enum:"manual,codeowners,none" doc:"Those that were set count; else those of the file"`
	Users      []Owner     `json:"users" nullable:"false"`
	Teams      []Team      `json:"teams" nullable:"false"`
	Unknown    []string    `json:"unknown" nullable:"false" example:"@acme/docs" doc:"Owners of the file that are no member and no team"`
	Codeowners *OwnersFile `json:"codeowners" doc:"What the file says; null without one"`
}

// An Owner is a member who owns an entry or is in a team.
type Owner struct {
	UserID string `json:"user_id" format:"uuid"`
	Name   string `json:"name" example:"Ada"`
	Email  string `json:"email" example:"ada@example.org"`
}

// A Team is a group of members.
type Team struct {
	ID          string `json:"id" format:"uuid"`
	Name        string `json:"name" example:"Data Platform"`
	Slug        string `json:"slug" example:"data-platform" doc:"Of the name; @org/slug in CODEOWNERS files"`
	Description string `json:"description"`
	MemberCount int    `json:"member_count"`
	CreatedAt   Time   `json:"created_at"`
	UpdatedAt   Time   `json:"updated_at"`
}

// An OwnersFile is the line of the repository's CODEOWNERS file that applies to the entry.
type OwnersFile struct {
	Repository string   `json:"repository" example:"acme/skills"`
	Commit     string   `json:"commit"`
	Path       string   `json:"path" example:".github/CODEOWNERS"`
	Line       int      `json:"line" doc:"The line that applies; 0: none does"`
	Pattern    string   `json:"pattern" example:"/skills/"`
	Owners     []string `json:"owners" nullable:"false" doc:"As they are written"`
	ReadAt     Time     `json:"read_at"`
}

// TeamDetail is a team with its members.
type TeamDetail struct {
	Team    Team    `json:"team"`
	Members []Owner `json:"members" nullable:"false" doc:"By address"`
}
