package client

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// An Installation is an entry on a user's device, as of the last report.
type Installation struct {
	ID          string    `json:"id"`
	EntryID     string    `json:"entry_id"`
	Version     *string   `json:"version"`
	ContentHash *string   `json:"content_hash"`
	InstallPath *string   `json:"install_path"`
	DeviceID    *string   `json:"device_id"`
	Client      *string   `json:"client"`      // the program that installed it
	SyncStatus  string    `json:"sync_status"` // up_to_date, behind, modified or unknown
	InstalledAt time.Time `json:"installed_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
}

// NewInstallation describes an installation to record.
type NewInstallation struct {
	InstallPath string `json:"install_path,omitempty"`
	DeviceID    string `json:"device_id,omitempty"`
	ContentHash string `json:"content_hash,omitempty"` // the current version's when empty
	Client      string `json:"client,omitempty"`       // the program; what the User-Agent says when empty
}

// RecordInstall records that the caller installed an entry. It replaces the record
// of the same path on the same device.
func (c *Client) RecordInstall(ctx context.Context, entryID string, n NewInstallation) (Installation, error) {
	var out struct {
		Installation Installation `json:"installation"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: entryPath(entryID) + "/install", body: encode(n), idempotent: true,
	}, &out)
	return out.Installation, err
}

// An InstalledEntry is an installation of the caller, with the latest version.
type InstalledEntry struct {
	Installation
	Name          string `json:"name"`
	LatestVersion string `json:"latest_version"`
}

// Installed lists the recorded installations of the caller.
func (c *Client) Installed(ctx context.Context) ([]InstalledEntry, error) {
	var out struct {
		Installations []InstalledEntry `json:"installations"`
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

// A SyncEntry is an entry's latest version, and whether it is an update for the
// caller.
type SyncEntry struct {
	EntryID           string     `json:"entry_id"`
	Name              string     `json:"name"`
	HasUpdate         bool       `json:"has_update"`
	CurrentVersion    *string    `json:"current_version"` // nil if no version has the hash
	LatestVersion     string     `json:"latest_version"`
	LatestContentHash string     `json:"latest_content_hash"`
	DownloadURL       string     `json:"download_url"` // with an update only
	ExpiresAt         *time.Time `json:"expires_at"`
}

// maxSync is the API's limit of items per request.
const maxSync = 1000

// Sync returns which of the items have updates, and refreshes the caller's
// installation records. Entries that were deleted, or that the caller may not see,
// are missing from the answer.
func (c *Client) Sync(ctx context.Context, items []SyncItem) ([]SyncEntry, error) {
	all := []SyncEntry{}
	for chunk := range slices.Chunk(items, maxSync) {
		in := struct {
			Installations []SyncItem `json:"installations"`
		}{chunk}
		var out struct {
			Entries []SyncEntry `json:"entries"`
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
func (c *Client) SyncCheck(ctx context.Context) ([]SyncEntry, error) {
	var out struct {
		Entries []SyncEntry `json:"entries"`
	}
	err := c.get(ctx, "/api/v1/registry/sync/check", nil, &out)
	return out.Entries, err
}
