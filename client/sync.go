package client

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// An Installation is an entry on somebody's machine, as last heard of.
type Installation struct {
	ID          string    `json:"id"`
	EntryID     string    `json:"entry_id"`
	Version     *string   `json:"version"`
	ContentHash *string   `json:"content_hash"`
	InstallPath *string   `json:"install_path"`
	DeviceID    *string   `json:"device_id"`
	SyncStatus  string    `json:"sync_status"` // up_to_date, behind, modified or unknown
	InstalledAt time.Time `json:"installed_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
}

// NewInstallation says what was installed where.
type NewInstallation struct {
	InstallPath string `json:"install_path,omitempty"`
	DeviceID    string `json:"device_id,omitempty"`
	ContentHash string `json:"content_hash,omitempty"` // the current version's when empty
}

// RecordInstall tells the server that the caller installed an entry. The same
// path on the same device again replaces the record.
func (c *Client) RecordInstall(ctx context.Context, entryID string, n NewInstallation) (Installation, error) {
	var out struct {
		Installation Installation `json:"installation"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: entryPath(entryID) + "/install", body: encode(n), repeatable: true,
	}, &out)
	return out.Installation, err
}

// An InstalledEntry is an installation of the caller, with what it could be.
type InstalledEntry struct {
	Installation
	Name          string `json:"name"`
	LatestVersion string `json:"latest_version"`
}

// Installed lists what the caller has on record.
func (c *Client) Installed(ctx context.Context) ([]InstalledEntry, error) {
	var out struct {
		Installations []InstalledEntry `json:"installations"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/registry/installed", repeatable: true}, &out)
	return out.Installations, err
}

// NoHash is what a SyncItem has when nothing is installed yet.
const NoHash = "none"

// A SyncItem is what the caller has of an entry.
type SyncItem struct {
	EntryID            string `json:"entry_id"`
	CurrentVersionHash string `json:"current_version_hash"`
	// DeviceID and InstallPath tell installations of one entry apart.
	DeviceID    string `json:"device_id,omitempty"`
	InstallPath string `json:"install_path,omitempty"`
}

// A SyncEntry says whether there is an update for the caller.
type SyncEntry struct {
	EntryID           string     `json:"entry_id"`
	Name              string     `json:"name"`
	HasUpdate         bool       `json:"has_update"`
	CurrentVersion    *string    `json:"current_version"` // nil: the hash is that of no version
	LatestVersion     string     `json:"latest_version"`
	LatestContentHash string     `json:"latest_content_hash"`
	DownloadURL       string     `json:"download_url"` // with an update only
	ExpiresAt         *time.Time `json:"expires_at"`
}

// maxSync is how many items one request may have.
const maxSync = 1000

// Sync asks which of the items have updates, and refreshes the caller's
// installation records. Entries that are gone, or that the caller may not
// see, are left out of the answer.
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
			method: http.MethodPost, path: "/api/v1/registry/sync", body: encode(in), repeatable: true,
		}, &out)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Entries...)
	}
	return all, nil
}

// SyncCheck is Sync for what the caller has on record, and changes nothing.
func (c *Client) SyncCheck(ctx context.Context) ([]SyncEntry, error) {
	var out struct {
		Entries []SyncEntry `json:"entries"`
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/registry/sync/check", repeatable: true}, &out)
	return out.Entries, err
}
