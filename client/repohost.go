package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A RepoInstallation is the access to one account of the code host.
type RepoInstallation struct {
	ID             string    `json:"id"`
	InstallationID int64     `json:"installation_id"`
	AccountLogin   string    `json:"account_login"`
	AccountType    string    `json:"account_type"` // User or Organization
	Suspended      bool      `json:"suspended"`    // also while the account belongs to another organisation
	HasToken       bool      `json:"has_token"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// NewRepoInstallation describes an installation to bind.
type NewRepoInstallation struct {
	InstallationID int64  `json:"installation_id"`
	AccountLogin   string `json:"account_login"`
	AccountType    string `json:"account_type"`
	Suspended      bool   `json:"suspended"`
	// Token is the account's access token, for Gitea and Forgejo. An empty one keeps
	// the stored token.
	Token string `json:"token,omitempty"`
}

// A Repository is one that an installation can see.
type Repository struct {
	ID                 int64      `json:"id"`
	FullName           string     `json:"full_name"`
	Owner              string     `json:"owner"`
	Name               string     `json:"name"`
	Visibility         string     `json:"visibility"`
	DefaultBranch      string     `json:"default_branch"`
	HTMLURL            string     `json:"html_url"`
	PushedAt           *time.Time `json:"pushed_at"`
	ConnectedElsewhere bool       `json:"connected_elsewhere"`
}

// A Connection links a repository to a registry entry.
type Connection struct {
	ID               string          `json:"id"`
	OrgID            string          `json:"org_id"`
	EntryID          string          `json:"entry_id"`
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
	Codeowners       bool            `json:"codeowners"` // the repository's CODEOWNERS file names the owners of the entry
	CreatedBy        string          `json:"created_by"`
	ChosenBy         string          `json:"chosen_by"`         // who last changed repository, branch, path or tag pattern
	PullRequests     string          `json:"pull_requests"`     // which are gated: off, same_repository or all
	OpenIssues       bool            `json:"open_issues"`       // when an alert rolls a version back
	PublishUnchanged bool            `json:"publish_unchanged"` // also pushes that leave the folder as it is
	CreatedAt        time.Time       `json:"created_at"`
	UpdatedAt        time.Time       `json:"updated_at"`
	LastAttempt      *PublishAttempt `json:"last_attempt"`
}

// A PublishAttempt is the result of a push.
type PublishAttempt struct {
	Status          string    `json:"status"`  // published, unchanged, skipped or failed
	Trigger         string    `json:"trigger"` // push, tag, sync or reconcile
	Version         *string   `json:"version"`
	SourceRef       string    `json:"source_ref"`
	Message         string    `json:"message"`
	WriteBackStatus string    `json:"write_back_status"`
	WriteBackDetail string    `json:"write_back_detail,omitempty"` // what came of statuses and check-runs
	CheckRunID      string    `json:"check_run_id,omitempty"`
	AttemptedAt     time.Time `json:"attempted_at"`
}

// NewConnection describes a connection to create; empty fields get the server's
// defaults.
type NewConnection struct {
	EntryID          string `json:"entry_id"`
	InstallationID   int64  `json:"installation_id"`
	RepoFullName     string `json:"repo_full_name"`
	DefaultBranch    string `json:"default_branch,omitempty"`
	SkillPath        string `json:"skill_path,omitempty"`
	AutoPublish      *bool  `json:"auto_publish,omitempty"`
	WriteBackEnabled bool   `json:"write_back_enabled,omitempty"`
	TagPattern       string `json:"tag_pattern,omitempty"`
	// Codeowners needs admin or ownership of the entry.
	Codeowners bool `json:"codeowners,omitempty"`
	// PullRequests are those that are gated before they are merged: off, same_repository
	// (when empty) or all, which includes those of forks.
	PullRequests     string `json:"pull_requests,omitempty"`
	OpenIssues       bool   `json:"open_issues,omitempty"`
	PublishUnchanged bool   `json:"publish_unchanged,omitempty"`
}

// ConnectionSync is the result of a sync of a connection.
type ConnectionSync struct {
	ConnectionID    string     `json:"connection_id"`
	Status          string     `json:"status"`
	Version         *string    `json:"version"`
	SourceRef       *string    `json:"source_ref"`
	PublishedAt     *time.Time `json:"published_at"`
	Message         string     `json:"message"`
	WriteBackStatus string     `json:"write_back_status"`
	CheckRunID      *string    `json:"check_run_id"`
	StatusContext   string     `json:"status_context"`
	Trigger         string     `json:"trigger"`
}

const repohostPath = "/api/v1/repohost"

// BindInstallation records an installation for the organisation, or updates it.
func (c *Client) BindInstallation(ctx context.Context, n NewRepoInstallation) (out RepoInstallation, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: repohostPath + "/installations", body: encode(n), idempotent: true,
	}, &out)
	return out, err
}

// Installations lists the organisation's installations.
func (c *Client) Installations(ctx context.Context) ([]RepoInstallation, error) {
	var out struct {
		Installations []RepoInstallation `json:"installations"`
	}
	err := c.get(ctx, repohostPath+"/installations", nil, &out)
	return out.Installations, err
}

// Repositories lists the repositories that an installation can see.
func (c *Client) Repositories(ctx context.Context, installationID int64) ([]Repository, error) {
	var out struct {
		Repos []Repository `json:"repos"`
	}
	query := url.Values{"installation_id": {strconv.FormatInt(installationID, 10)}}
	err := c.get(ctx, repohostPath+"/repos", query, &out)
	return out.Repos, err
}

// Connect links a repository to an entry.
func (c *Client) Connect(ctx context.Context, n NewConnection) (out Connection, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: repohostPath + "/connections", body: encode(n)}, &out)
	return out, err
}

// Connections lists the organisation's connections.
func (c *Client) Connections(ctx context.Context) ([]Connection, error) {
	var out struct {
		Connections []Connection `json:"connections"`
	}
	err := c.get(ctx, repohostPath+"/connections", nil, &out)
	return out.Connections, err
}

// Disconnect deletes a connection; published versions remain.
func (c *Client) Disconnect(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: connectionPath(id), idempotent: true}, nil)
	return err
}

// SyncConnection compares the repository with the registry and publishes what is
// missing.
func (c *Client) SyncConnection(ctx context.Context, id string) (out ConnectionSync, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: connectionPath(id) + "/sync", idempotent: true, timeout: transferTimeout,
	}, &out)
	return out, err
}

func connectionPath(id string) string { return repohostPath + "/connections/" + url.PathEscape(id) }

// A Delivery is a signed webhook of the code host. The server deduplicates by its
// id.
type Delivery struct {
	ID        string
	Event     string
	Signature string
	Body      []byte // JSON
}

// SendDelivery sends a delivery to the server. It needs no API key.
func (c *Client) SendDelivery(ctx context.Context, d Delivery) error {
	header := http.Header{}
	header.Set("X-GitHub-Event", d.Event)
	header.Set("X-GitHub-Delivery", d.ID)
	header.Set("X-Hub-Signature-256", d.Signature)
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: repohostPath + "/webhook", header: header,
		body: jsonBody(d.Body), idempotent: true,
	}, nil)
	return err
}
