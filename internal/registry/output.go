package registry

import (
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// EntryOutput is an entry on the wire.
type EntryOutput struct {
	ID          string       `json:"id" format:"uuid"`
	Name        string       `json:"name" example:"pdf-tables"`
	EntryType   Type         `json:"entry_type" enum:"skill,agent,command,hook,bundle"`
	Description string       `json:"description"`
	Visibility  Visibility   `json:"visibility" enum:"public,org,unlisted"`
	SourceRepo  *string      `json:"source_repo"`
	SkillID     *string      `json:"skill_id" doc:"The skill whose performance this entry has"`
	CreatedAt   httpapi.Time `json:"created_at"`
	UpdatedAt   httpapi.Time `json:"updated_at"`
}

func newEntryOutput(e Entry) EntryOutput {
	return EntryOutput{
		ID: e.ID, Name: e.Name, EntryType: e.Type, Description: e.Description, Visibility: e.Visibility,
		SourceRepo: e.SourceRepo, SkillID: e.SkillID,
		CreatedAt: httpapi.Time(e.CreatedAt), UpdatedAt: httpapi.Time(e.UpdatedAt),
	}
}

type currentOutput struct {
	ID          string `json:"id" format:"uuid"`
	Version     string `json:"version" example:"1.2.0"`
	ContentHash string `json:"content_hash"`
}

type listedOutput struct {
	EntryOutput
	CurrentVersion    *currentOutput `json:"current_version"`
	PassRate          *float64       `json:"pass_rate"`
	EvalCount         int64          `json:"eval_count" doc:"Graded sessions of the current version"`
	InstallationCount int            `json:"installation_count"`
}

func newListedOutput(l Listed) listedOutput {
	return listedOutput{
		EntryOutput:       newEntryOutput(l.Entry),
		CurrentVersion:    &currentOutput{l.Current.ID, l.Current.Version, l.Current.ContentHash},
		PassRate:          l.Quality.PassRate,
		EvalCount:         l.Quality.GradedSessions,
		InstallationCount: l.InstallationCount,
	}
}

type versionOutput struct {
	ID                   string                   `json:"id" format:"uuid"`
	Version              string                   `json:"version" example:"1.2.0"`
	ContentHash          string                   `json:"content_hash" doc:"SHA-256 of the archive"`
	ChangeSummary        *string                  `json:"change_summary"`
	FileManifest         []skillpkg.ManifestEntry `json:"file_manifest" nullable:"false"`
	Source               Source                   `json:"source" enum:"cli,repohost,repohost-direct"`
	SourceRef            *string                  `json:"source_ref"`
	SourceRepo           *string                  `json:"source_repo"`
	IsCurrent            bool                     `json:"is_current"`
	RolledBack           bool                     `json:"rolled_back"`
	PushedAt             httpapi.Time             `json:"pushed_at"`
	PushedBy             string                   `json:"pushed_by" format:"uuid"`
	Size                 int64                    `json:"size"`
	AggregatePassRate    *float64                 `json:"aggregate_pass_rate"`
	AggregateSessions    int64                    `json:"aggregate_sessions"`
	AggregateTriggerRate *float64                 `json:"aggregate_trigger_rate"`
}

func newVersionOutput(e Entry, v Version) versionOutput {
	return versionOutput{
		ID: v.ID, Version: v.Version, ContentHash: v.ContentHash, ChangeSummary: v.ChangeSummary,
		FileManifest: append([]skillpkg.ManifestEntry{}, v.Manifest...), Source: v.Source, SourceRef: v.SourceRef,
		SourceRepo: v.SourceRepo, IsCurrent: v.ID == e.CurrentVersionID, RolledBack: v.RolledBack,
		PushedAt: httpapi.Time(v.PushedAt), PushedBy: v.PushedBy, Size: v.Size,
	}
}

func newVersionOutputs(e Entry, versions []Version, quality map[string]skills.Quality) []versionOutput {
	out := make([]versionOutput, len(versions))
	for i, v := range versions {
		q := quality[v.ID]
		out[i] = newVersionOutput(e, v)
		out[i].AggregatePassRate, out[i].AggregateSessions, out[i].AggregateTriggerRate = q.PassRate, q.Sessions, q.TriggerRate
	}
	return out
}

type rollbackRecord struct {
	From   string       `json:"from_version"`
	To     string       `json:"to_version"`
	Reason *string      `json:"reason"`
	By     string       `json:"rolled_back_by" format:"uuid"`
	At     httpapi.Time `json:"rolled_back_at"`
}

func newRollbackRecords(rollbacks []Rollback) []rollbackRecord {
	out := make([]rollbackRecord, len(rollbacks))
	for i, r := range rollbacks {
		out[i] = rollbackRecord{r.From, r.To, r.Reason, r.By, httpapi.Time(r.At)}
	}
	return out
}

type userOutput struct {
	ID    string `json:"id" format:"uuid"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// InstallationOutput is an installation on the wire.
type InstallationOutput struct {
	ID          string       `json:"id" format:"uuid"`
	EntryID     string       `json:"entry_id" format:"uuid"`
	Version     *string      `json:"version"`
	ContentHash *string      `json:"content_hash"`
	InstallPath *string      `json:"install_path"`
	DeviceID    *string      `json:"device_id"`
	SyncStatus  SyncStatus   `json:"sync_status" enum:"up_to_date,behind,modified,unknown"`
	InstalledAt httpapi.Time `json:"installed_at"`
	LastSeenAt  httpapi.Time `json:"last_seen_at"`
}

func newInstallationOutput(i InstallationState) InstallationOutput {
	return InstallationOutput{
		ID: i.ID, EntryID: i.EntryID, Version: i.Version, ContentHash: orNull(i.ContentHash),
		InstallPath: orNull(i.InstallPath), DeviceID: orNull(i.DeviceID), SyncStatus: i.Status(),
		InstalledAt: httpapi.Time(i.InstalledAt), LastSeenAt: httpapi.Time(i.LastSeenAt),
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
