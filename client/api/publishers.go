package api

// A TrustedPublisher is a workflow on a code host that may publish versions of an entry.
type TrustedPublisher struct {
	ID                string  `json:"id" format:"uuid"`
	EntryID           string  `json:"entry_id" format:"uuid"`
	EntryName         string  `json:"entry_name" example:"pdf-tools"`
	Provider          string  `json:"provider" enum:"github,gitlab,gitea"`
	Issuer            string  `json:"issuer" example:"https://token.actions.githubusercontent.com"`
	Repository        string  `json:"repository" example:"acme/skills"`
	Ref               *string `json:"ref" example:"refs/heads/main" doc:"Null: every branch and tag"`
	Workflow          *string `json:"workflow" example:"release.yml" doc:"Null: every workflow"`
	Environment       *string `json:"environment" example:"production" doc:"Null: every environment, and none"`
	RepositoryID      *string `json:"repository_id" example:"4711" doc:"The code host's; null until the first run pins it"`
	RepositoryOwnerID *string `json:"repository_owner_id" example:"815" doc:"The code host's; null until the first run pins it"`
	CreatedBy         string  `json:"created_by" format:"uuid"`
	CreatedAt         Time    `json:"created_at"`
	LastUsedAt        *Time   `json:"last_used_at"`
}

// A GrantedEntry is the entry that a workflow run may publish.
type GrantedEntry struct {
	ID             string  `json:"id" format:"uuid"`
	Name           string  `json:"name" example:"pdf-tools"`
	Organisation   string  `json:"organisation" example:"default"`
	EntryType      string  `json:"entry_type" example:"skill"`
	Visibility     string  `json:"visibility" example:"org"`
	CurrentVersion *string `json:"current_version" example:"1.2.3" doc:"Null while the first one is a candidate"`
	ContentHash    *string `json:"content_hash" doc:"SHA-256 of the current version's archive"`
	Repository     string  `json:"repository" example:"acme/skills" doc:"Of the workflow run"`
}
