// Package ownerapi is who owns an entry as the API shows it, in the detail of an entry
// and at the routes of teams and owners.
package ownerapi

import "github.com/whetstone-dev/whetstone/internal/platform/httpapi"

// Owners are the people and teams that own an entry.
type Owners struct {
	Source  string   `json:"source" enum:"manual,codeowners,none" doc:"Those that were set count; else those of the file"`
	Users   []Person `json:"users" nullable:"false"`
	Teams   []Team   `json:"teams" nullable:"false"`
	Unknown []string `json:"unknown" nullable:"false" example:"@acme/docs" doc:"Owners of the file that are no member and no team"`
	File    *File    `json:"codeowners" doc:"What the file says; null without one"`
}

// A Person is a member.
type Person struct {
	UserID string `json:"user_id" format:"uuid"`
	Name   string `json:"name" example:"Ada"`
	Email  string `json:"email" example:"ada@example.org"`
}

// A Team is a group of members.
type Team struct {
	ID          string       `json:"id" format:"uuid"`
	Name        string       `json:"name" example:"Data Platform"`
	Slug        string       `json:"slug" example:"data-platform" doc:"Of the name; @org/slug in CODEOWNERS files"`
	Description string       `json:"description"`
	MemberCount int          `json:"member_count"`
	CreatedAt   httpapi.Time `json:"created_at"`
	UpdatedAt   httpapi.Time `json:"updated_at"`
}

// A File is what the CODEOWNERS file of the connected repository says about the entry.
type File struct {
	Repository string       `json:"repository" example:"acme/skills"`
	Commit     string       `json:"commit"`
	Path       string       `json:"path" example:".github/CODEOWNERS"`
	Line       int          `json:"line" doc:"The line that applies; 0: none does"`
	Pattern    string       `json:"pattern" example:"/skills/"`
	Owners     []string     `json:"owners" nullable:"false" doc:"As they are written"`
	ReadAt     httpapi.Time `json:"read_at"`
}
