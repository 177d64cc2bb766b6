package api

// RepohostSettings has an organisation's code host settings, in requests and replies.
type RepohostSettings struct {
	WriteBackMode string `json:"write_back_mode" enum:"off,checks,checks_and_prs"`
}

// A RepoInstallation is the access to one account of the code host. It shows that there is a
// token, and never the token itself.
type RepoInstallation struct {
	ID             string `json:"id" format:"uuid"`
	InstallationID int64  `json:"installation_id"`
	AccountLogin   string `json:"account_login"`
	AccountType    string `json:"account_type" enum:"User,Organization"`
	Suspended      bool   `json:"suspended" doc:"Also true while the account is not the organisation's"`
	HasToken       bool   `json:"has_token,omitempty" doc:"The account's own token is used instead of the server's"`
	CreatedAt      Time   `json:"created_at"`
	UpdatedAt      Time   `json:"updated_at"`
}

// NewRepoInstallation describes an installation to bind, or how to change a bound one.
type NewRepoInstallation struct {
	InstallationID int64  `json:"installation_id" minimum:"1" maximum:"9007199254740991" doc:"Issued by the code host; any number of your own where the host has no apps"`
	AccountLogin   string `json:"account_login" minLength:"1" maxLength:"255"`
	AccountType    string `json:"account_type" enum:"User,Organization"`
	Suspended      bool   `json:"suspended,omitempty" default:"false"`
	// Nil keeps the stored token.
	Token *string `json:"token,omitempty" doc:"Access token of the account, for GitLab, Gitea and Forgejo; it is used instead of the server's and never shown. Empty removes it"`
}

// A Repository is one that an installation can see.
type Repository struct {
	ID                 int64  `json:"id"`
	FullName           string `json:"full_name" example:"acme/skills"`
	Owner              string `json:"owner"`
	Name               string `json:"name"`
	Visibility         string `json:"visibility"`
	DefaultBranch      string `json:"default_branch"`
	HTMLURL            string `json:"html_url"`
	PushedAt           *Time  `json:"pushed_at"`
	ConnectedElsewhere bool   `json:"connected_elsewhere" doc:"Another organisation has a connection to it"`
}

// A Connection links a repository to a registry entry, with its last finished attempt, null
// before the first.
type Connection struct {
	ID               string          `json:"id" format:"uuid"`
	OrgID            string          `json:"org_id" format:"uuid"`
	EntryID          string          `json:"entry_id" format:"uuid"`
	EntryName        string          `json:"entry_name"`
	InstallationID   int64           `json:"installation_id"`
	RepoOwner        string          `json:"repo_owner"`
	RepoName         string          `json:"repo_name"`
	RepoFullName     string          `json:"repo_full_name"`
	DefaultBranch    string          `json:"default_branch"`
	SkillPath        string          `json:"skill_path"`
	AutoPublish      bool            `json:"auto_publish"`
	WriteBackEnabled bool            `json:"write_back_enabled"`
	TagPattern       string          `json:"tag_pattern"`
	PublishUnchanged bool            `json:"publish_unchanged"`
	OpenIssues       bool            `json:"open_issues"`
	PullRequests     string          `json:"pull_requests" enum:"off,same_repository,all"`
	Codeowners       bool            `json:"codeowners" doc:"The CODEOWNERS file of the repository names the owners of the entry"`
	CreatedBy        string          `json:"created_by" format:"uuid"`
	ChosenBy         string          `json:"chosen_by" format:"uuid" doc:"Who last changed repository, branch, path or tag pattern; like created_by they count as publisher of its versions"`
	CreatedAt        Time            `json:"created_at"`
	UpdatedAt        Time            `json:"updated_at"`
	LastAttempt      *PublishAttempt `json:"last_attempt"`
}

// A PublishAttempt is the result of a push, as the list of connections shows it.
type PublishAttempt struct {
	Status          string  `json:"status" enum:"published,unchanged,skipped,failed"`
	Trigger         string  `json:"trigger" enum:"push,tag,sync,reconcile"`
	Version         *string `json:"version"`
	SourceRef       string  `json:"source_ref"`
	Message         string  `json:"message"`
	WriteBackStatus string  `json:"write_back_status" enum:"disabled,pending,success,failed,unsupported"`
	WriteBackDetail string  `json:"write_back_detail,omitempty" doc:"What came of statuses and check-runs"`
	CheckRunID      *string `json:"check_run_id,omitempty"`
	AttemptedAt     Time    `json:"attempted_at"`
}

// NewConnection describes a connection to create; omitted fields get the server's defaults.
type NewConnection struct {
	EntryID        string `json:"entry_id" doc:"Registry entry to publish to"`
	InstallationID int64  `json:"installation_id" minimum:"1"`
	RepoFullName   string `json:"repo_full_name" example:"acme/skills"`
	DefaultBranch  string `json:"default_branch,omitempty" default:"main"`
	SkillPath      string `json:"skill_path,omitempty" default:"." doc:"Folder of the skill in the repository"`
	// AutoPublish is a pointer because its default is true.
	AutoPublish      *bool  `json:"auto_publish,omitempty" doc:"Whether tags are published when they are pushed; true when omitted"`
	WriteBackEnabled bool   `json:"write_back_enabled,omitempty" default:"false"`
	TagPattern       string `json:"tag_pattern,omitempty" default:"v*" doc:"Glob of the tags that are published"`
	PublishUnchanged bool   `json:"publish_unchanged,omitempty" default:"false" doc:"Publish every push to the branch, also one that leaves the folder as it is"`
	OpenIssues       bool   `json:"open_issues,omitempty" default:"false" doc:"Open an issue when an alert rolls a version back"`

	Codeowners   bool   `json:"codeowners,omitempty" default:"false" doc:"The CODEOWNERS file of the repository names the owners of the entry; needs admin or ownership of the entry"`
	PullRequests string `json:"pull_requests,omitempty" default:"same_repository" enum:"off,same_repository,all" doc:"Which pull requests are gated before they are merged; all includes those of forks"`
}

// A ConnectionChange is a partial update: fields that are null or absent stay unchanged.
type ConnectionChange struct {
	WriteBackEnabled *bool   `json:"write_back_enabled,omitempty"`
	DefaultBranch    *string `json:"default_branch,omitempty"`
	SkillPath        *string `json:"skill_path,omitempty"`
	AutoPublish      *bool   `json:"auto_publish,omitempty"`
	TagPattern       *string `json:"tag_pattern,omitempty"`
	PublishUnchanged *bool   `json:"publish_unchanged,omitempty"`
	OpenIssues       *bool   `json:"open_issues,omitempty"`

	Codeowners   *bool   `json:"codeowners,omitempty" doc:"Needs admin or ownership of the entry; a change of repository, branch, path or tag pattern resets it to false"`
	PullRequests *string `json:"pull_requests,omitempty" enum:"off,same_repository,all"`
}

// ConnectionSync is the result of a sync of a connection: the attempt to show, with the name of
// the commit status.
type ConnectionSync struct {
	ConnectionID    string  `json:"connection_id" format:"uuid"`
	Status          string  `json:"status" enum:"published,unchanged,skipped,failed"`
	Version         *string `json:"version"`
	SourceRef       *string `json:"source_ref" doc:"Commit or tag"`
	PublishedAt     *Time   `json:"published_at"`
	Message         string  `json:"message"`
	WriteBackStatus string  `json:"write_back_status" enum:"disabled,pending,success,failed,unsupported"`
	CheckRunID      *string `json:"check_run_id" doc:"Null until there is one"`
	StatusContext   string  `json:"status_context" example:"whetstone/publish/1a2b3c4d"`
	Trigger         string  `json:"trigger" enum:"sync"`
}

// A RepoDelivery is what the code host sent, without its body, which may contain private data.
type RepoDelivery struct {
	ID             string `json:"id" format:"uuid"`
	DeliveryID     string `json:"delivery_id" doc:"The code host's"`
	Provider       string `json:"provider" enum:"git,github,gitea,gitlab"`
	Event          string `json:"event"`
	Action         string `json:"action"`
	InstallationID int64  `json:"installation_id" doc:"0 where the host has none"`
	RepoFullName   string `json:"repo_full_name"`
	Status         string `json:"status" enum:"received,processing,done,failed,ignored"`
	Attempts       int    `json:"attempts"`
	Detail         string `json:"detail"`
	ReceivedAt     Time   `json:"received_at"`
	FinishedAt     *Time  `json:"finished_at"`
}
