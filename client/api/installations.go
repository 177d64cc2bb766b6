package api

// NewInstallation describes an installation to record.
type NewInstallation struct {
	InstallPath string `json:"install_path,omitempty" example:"~/.claude/skills/pdf"`
	DeviceID    string `json:"device_id,omitempty" example:"ada-laptop"`
	ContentHash string `json:"content_hash,omitempty" doc:"Hash of what was installed; the current version's when omitted"`
	Client      string `json:"client,omitempty" maxLength:"100" example:"clawhub" doc:"The program that installed it; what the User-Agent says when omitted. Rollbacks by alerts roll forward for clients that never go down to a lower version"`
}

// An InstalledEntry is an installation of the caller, with the latest version.
type InstalledEntry struct {
	Installation
	Name          string `json:"name"`
	LatestVersion string `json:"latest_version"`
}

// A SyncEntry is an entry's latest version, and whether it is an update for the caller.
type SyncEntry struct {
	EntryID           string  `json:"entry_id"`
	Name              string  `json:"name"`
	HasUpdate         bool    `json:"has_update"`
	CurrentVersion    *string `json:"current_version"`
	LatestVersion     string  `json:"latest_version"`
	LatestContentHash string  `json:"latest_content_hash"`
	DownloadURL       string  `json:"download_url,omitempty" doc:"Works without a key until expires_at"`
	ExpiresAt         *Time   `json:"expires_at,omitempty"`
}

// A MemberInstallation is an installation, and whose it is.
type MemberInstallation struct {
	User Installer `json:"user"`
	Installation
}

// An Installer is the member who installed an entry.
type Installer struct {
	ID    string `json:"id" format:"uuid"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// An Installation is an entry on a member's device, as of the last report.
type Installation struct {
	ID          string  `json:"id" format:"uuid"`
	EntryID     string  `json:"entry_id" format:"uuid"`
	Version     *string `json:"version"`
	ContentHash *string `json:"content_hash"`
	InstallPath *string `json:"install_path"`
	DeviceID    *string `json:"device_id"`
	Client      *string `json:"client" doc:"The program that installed it, without its version"`
	SyncStatus  string  `json:"sync_status" enum:"up_to_date,behind,modified,unknown"`
	InstalledAt Time    `json:"installed_at"`
	LastSeenAt  Time    `json:"last_seen_at"`
}

// A CatalogToken opens the catalogs of an organisation to agents.
type CatalogToken struct {
	ID         string `json:"id" format:"uuid"`
	Name       string `json:"name" example:"laptops"`
	Prefix     string `json:"prefix" example:"ct_3fKx" doc:"What the token begins with"`
	State      string `json:"state" enum:"active,replaced,expired" doc:"A replaced token works until it expires"`
	CreatedBy  string `json:"created_by" format:"uuid"`
	CreatedAt  Time   `json:"created_at"`
	LastUsedAt *Time  `json:"last_used_at" doc:"To the minute"`
	ExpiresAt  *Time  `json:"expires_at"`
	ReplacedAt *Time  `json:"replaced_at"`
	// Sets are none for a token that opens everything.
	Sets []string `json:"sets" nullable:"false" doc:"Ids of the sets whose skills alone it opens; none: it opens everything"`
}
