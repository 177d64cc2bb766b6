package client

import (
	"context"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
)

// RecordInstall records that the caller installed an entry. It replaces the record
// of the same path on the same device.
func (c *Client) RecordInstall(ctx context.Context, entryID string, n api.NewInstallation) (api.Installation, error) {
	var out struct {
		Installation api.Installation `json:"installation"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: entryPath(entryID) + "/install", body: encode(n), idempotent: true,
	}, &out)
	return out.Installation, err
}

// Installed lists the recorded installations of the caller.
func (c *Client) Installed(ctx context.Context) ([]api.InstalledEntry, error) {
	var out struct {
		Installations []api.InstalledEntry `json:"installations"`
	}
	err := c.get(ctx, "/api/v1/registry/installed", nil, &out)
	return out.Installations, err
}

// NoHash is the hash of a SyncItem that is not installed yet.
const NoHash = "none"

// A SyncItem is what the caller has installed of an entry.
type SyncItem struct {
	EntryID            string `json:"entry_id"`
	CurrentVersionHash string `json:"current_version_hash"`
	// DeviceID and InstallPath distinguish installations of one entry.
	DeviceID    string `json:"device_id,omitempty"`
	InstallPath string `json:"install_path,omitempty"`
}

// maxSync is the API's limit of items per request.
const maxSync = 1000

// Sync returns which of the items have updates, and refreshes the caller's
// installation records. Entries that were deleted, or that the caller may not see,
// are missing from the answer.
func (c *Client) Sync(ctx context.Context, items []SyncItem) ([]api.SyncEntry, error) {
	all := []api.SyncEntry{}
	for chunk := range slices.Chunk(items, maxSync) {
		in := struct {
			Installations []SyncItem `json:"installations"`
		}{chunk}
		var out struct {
			Entries []api.SyncEntry `json:"entries"`
		}
		_, err := c.do(ctx, call{
			method: http.MethodPost, path: "/api/v1/registry/sync", body: encode(in), idempotent: true,
		}, &out)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Entries...)
	}
	return all, nil
}

// SyncCheck is Sync for the recorded installations of the caller. It changes
// nothing.
func (c *Client) SyncCheck(ctx context.Context) ([]api.SyncEntry, error) {
	var out struct {
		Entries []api.SyncEntry `json:"entries"`
	}
	err := c.get(ctx, "/api/v1/registry/sync/check", nil, &out)
	return out.Entries, err
}
