package client

import (
	"context"
	"fmt"
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
	Suspended      bool      `json:"suspended"`    // also while the account is not the organisation's
	HasToken       bool      `json:"has_token"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// NewRepoInstallation describes an installation to be bound.
type NewRepoInstallation struct {
	InstallationID int64  `json:"installation_id"`
	AccountLogin   string `json:"account_login"`
	AccountType    string `json:"account_type"`
	Suspended      bool   `json:"suspended"`
	// Token is the account's own, for Gitea and Forgejo. An empty one leaves
	// what was given before.
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
	CreatedBy        string          `json:"created_by"`
	CreatedAt        time.Time       `json:"created_at"`
	UpdatedAt        time.Time       `json:"updated_at"`
	LastAttempt      *PublishAttempt `json:"last_attempt"`
}

// A PublishAttempt tells what came of a push.
type PublishAttempt struct {
	Status          string    `json:"status"`  // published, unchanged, skipped or failed
	Trigger         string    `json:"trigger"` // push, tag, sync or reconcile
	Version         *string   `json:"version"`
	SourceRef       string    `json:"source_ref"`
	Message         string    `json:"message"`
	WriteBackStatus string    `json:"write_back_status"`
	AttemptedAt     time.Time `json:"attempted_at"`
}

// NewConnection describes a connection to be made; empty fields get the
// server's defaults.
type NewConnection struct {
	EntryID          string `json:"entry_id"`
	InstallationID   int64  `json:"installation_id"`
	RepoFullName     string `json:"repo_full_name"`
	DefaultBranch    string `json:"default_branch,omitempty"`
	SkillPath        string `json:"skill_path,omitempty"`
	AutoPublish      *bool  `json:"auto_publish,omitempty"`
	WriteBackEnabled bool   `json:"write_back_enabled,omitempty"`
	TagPattern       string `json:"tag_pattern,omitempty"`
}

// ConnectionSync tells what came of reading a repository again.
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
}

const repohostPath = "/api/v1/repohost"

// BindInstallation records an installation for the organisation, or changes
// what is known of it.
func (c *Client) BindInstallation(ctx context.Context, n NewRepoInstallation) (out RepoInstallation, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: repohostPath + "/installations", body: encode(n), repeatable: true}, &out)
	return out, err
}

// Installations lists the organisation's installations.
func (c *Client) Installations(ctx context.Context) ([]RepoInstallation, error) {
	var out struct {
		Installations []RepoInstallation `json:"installations"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: repohostPath + "/installations", repeatable: true}, &out)
	return out.Installations, err
}

// Repositories lists what an installation can see.
func (c *Client) Repositories(ctx context.Context, installationID int64) ([]Repository, error) {
	var out struct {
		Repos []Repository `json:"repos"`
	}
	query := url.Values{"installation_id": {strconv.FormatInt(installationID, 10)}}
	_, err := c.do(ctx, call{method: http.MethodGet, path: repohostPath + "/repos", query: query, repeatable: true}, &out)
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
	_, err := c.do(ctx, call{method: http.MethodGet, path: repohostPath + "/connections", repeatable: true}, &out)
	return out.Connections, err
}

// Disconnect removes a connection; what it published stays.
func (c *Client) Disconnect(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: connectionPath(id), repeatable: true}, nil)
	return err
}

// SyncConnection reads the repository again and publishes what is missing.
func (c *Client) SyncConnection(ctx context.Context, id string) (out ConnectionSync, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: connectionPath(id) + "/sync", repeatable: true, timeout: transferTimeout}, &out)
	return out, err
}

func connectionPath(id string) string { return repohostPath + "/connections/" + url.PathEscape(id) }

// A Delivery is a signed message that something was pushed. Its id makes it
// count once, however often it is sent.
type Delivery struct {
	ID        string
	Event     string
	Signature string
	Body      []byte // JSON
}

// SendDelivery hands a delivery to the server. It needs no API key.
func (c *Client) SendDelivery(ctx context.Context, d Delivery) error {
	const path = repohostPath + "/webhook"
	err := retry(ctx, true, func() error {
		req, err := c.request(ctx, call{method: http.MethodPost, path: path, body: jsonBody(d.Body)})
		if err != nil {
			return err
		}
		req.Header.Set("X-GitHub-Event", d.Event)
		req.Header.Set("X-GitHub-Delivery", d.ID)
		req.Header.Set("X-Hub-Signature-256", d.Signature)
		resp, err := c.api.Do(req)
		if err != nil {
			return unwrapURL(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode >= http.StatusMultipleChoices {
			return newError(resp)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", http.MethodPost, path, err)
	}
	return nil
}
