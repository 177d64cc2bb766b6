package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

const repohostPath = "/api/v1/repohost"

// RepohostSettings returns the code-host settings of the organisation.
func (c *Client) RepohostSettings(ctx context.Context) (out api.RepohostSettings, err error) {
	return out, c.get(ctx, repohostPath+"/settings", nil, &out)
}

// SetRepohostSettings changes them.
func (c *Client) SetRepohostSettings(ctx context.Context, s api.RepohostSettings) (out api.RepohostSettings, err error) {
	return out, c.Call(ctx, http.MethodPost, repohostPath+"/settings", s, &out)
}

// BindInstallation records an installation for the organisation, or updates it.
func (c *Client) BindInstallation(ctx context.Context, n api.NewRepoInstallation) (out api.RepoInstallation, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: repohostPath + "/installations", body: encode(n), idempotent: true,
	}, &out)
	return out, err
}

// Installations lists the organisation's installations.
func (c *Client) Installations(ctx context.Context) ([]api.RepoInstallation, error) {
	var out struct {
		Installations []api.RepoInstallation `json:"installations"`
	}
	err := c.get(ctx, repohostPath+"/installations", nil, &out)
	return out.Installations, err
}

// Repositories lists the repositories that an installation can see.
func (c *Client) Repositories(ctx context.Context, installationID int64) ([]api.Repository, error) {
	var out struct {
		Repos []api.Repository `json:"repos"`
	}
	query := url.Values{"installation_id": {strconv.FormatInt(installationID, 10)}}
	err := c.get(ctx, repohostPath+"/repos", query, &out)
	return out.Repos, err
}

// Connect links a repository to an entry.
func (c *Client) Connect(ctx context.Context, n api.NewConnection) (out api.Connection, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: repohostPath + "/connections", body: encode(n)}, &out)
	return out, err
}

// Connections lists the organisation's connections.
func (c *Client) Connections(ctx context.Context) ([]api.Connection, error) {
	var out struct {
		Connections []api.Connection `json:"connections"`
	}
	err := c.get(ctx, repohostPath+"/connections", nil, &out)
	return out.Connections, err
}

// UpdateConnection changes a connection.
func (c *Client) UpdateConnection(ctx context.Context, id string, change api.ConnectionChange) (out api.Connection, err error) {
	_, err = c.do(ctx, call{method: http.MethodPatch, path: connectionPath(id), body: encode(change), idempotent: true}, &out)
	return out, err
}

// Disconnect deletes a connection; published versions remain.
func (c *Client) Disconnect(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: connectionPath(id), idempotent: true}, nil)
	return err
}

// SyncConnection compares the repository with the registry and publishes what is
// missing.
func (c *Client) SyncConnection(ctx context.Context, id string) (out api.ConnectionSync, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: connectionPath(id) + "/sync", idempotent: true, timeout: transferTimeout,
	}, &out)
	return out, err
}

func connectionPath(id string) string { return repohostPath + "/connections/" + url.PathEscape(id) }

// RepoDeliveries lists what the code host sent, newest first.
func (c *Client) RepoDeliveries(ctx context.Context) ([]api.RepoDelivery, error) {
	return List[api.RepoDelivery](ctx, c, repohostPath+"/deliveries", "deliveries", nil)
}

// Redeliver has the server process a delivery again, by its id there.
func (c *Client) Redeliver(ctx context.Context, id string) (out api.RepoDelivery, err error) {
	return out, c.Call(ctx, http.MethodPost, repohostPath+"/deliveries/"+url.PathEscape(id)+"/redeliver", nil, &out)
}

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
