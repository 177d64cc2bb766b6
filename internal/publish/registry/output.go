package registry

import (
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// EntryOutput is an entry in API replies.
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

// ForOthers returns the entry as other organisations see it: without its skill and its
// number of installations.
func (e Entry) ForOthers() Entry {
	e.SkillID, e.InstallationCount = nil, 0
	return e
}

// NewEntryOutput converts an entry for the API.
func NewEntryOutput(e Entry) EntryOutput {
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

// OwnedOutput is an entry with the name of the organisation that owns it.
type OwnedOutput struct {
	EntryOutput
	Organisation string `json:"organisation" doc:"Name of the organisation that owns it" example:"acme"`
}

// listedOutput is an entry in lists, with the quality of its current version.
type listedOutput struct {
	OwnedOutput
	CurrentVersion    *currentOutput `json:"current_version" doc:"null while no version is current: the first is a candidate, or all are withdrawn"`
	PassRate          *float64       `json:"pass_rate" doc:"null for other organisations"`
	EvalCount         int64          `json:"eval_count" doc:"Graded sessions of the current version; 0 for other organisations"`
	InstallationCount int            `json:"installation_count" doc:"People who installed it; 0 for other organisations"`
}

// newListedOutput shows quality and installations to the owning organisation only.
func newListedOutput(l Listed, orgID string) listedOutput {
	if l.OrgID != orgID {
		l.Entry, l.Quality = l.ForOthers(), skills.Quality{}
	}
	out := listedOutput{
		OwnedOutput:       OwnedOutput{NewEntryOutput(l.Entry), l.OrgName},
		PassRate:          l.Quality.PassRate,
		EvalCount:         l.Quality.GradedSessions,
		InstallationCount: l.InstallationCount,
	}
	if l.Current.ID != "" {
		out.CurrentVersion = &currentOutput{l.Current.ID, l.Current.Version, l.Current.ContentHash}
	}
	return out
}

// VersionOutput is a version in API replies.
type VersionOutput struct {
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
	State                State                    `json:"state" enum:"candidate,published,withdrawn" doc:"A candidate waits for its gate; a withdrawn version must not become current"`
	WithdrawnReason      *string                  `json:"withdrawn_reason" doc:"Why it was withdrawn; null unless it is"`
	GateID               *string                  `json:"gate_id" format:"uuid" doc:"Its newest gate; null without one, and for other organisations"`
	PushedAt             httpapi.Time             `json:"pushed_at"`
	PushedBy             *string                  `json:"pushed_by" format:"uuid" doc:"null for other organisations, like the aggregates"`
	Size                 int64                    `json:"size"`
	AggregatePassRate    *float64                 `json:"aggregate_pass_rate"`
	PassRateBasis        *basis.Basis             `json:"aggregate_pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	AggregateSessions    int64                    `json:"aggregate_sessions" doc:"0 for other organisations"`
	AggregateTriggerRate *float64                 `json:"aggregate_trigger_rate"`
	VersionBasisCounts   basisOutput              `json:"version_basis_counts" doc:"Uses by the reason why they count for this version; 0 for other organisations"`
	Cost                 *pricing.Cost            `json:"cost" doc:"Of its model requests over all time; null without any, and for other organisations"`
}

// basisOutput is skills.Bases in API replies.
type basisOutput struct {
	Hash         int64 `json:"hash" doc:"The record named the content hash"`
	Plugin       int64 `json:"plugin" doc:"The agent named the version that it loaded"`
	Installation int64 `json:"installation" doc:"The person had it installed"`
	Time         int64 `json:"time" doc:"It was the current version at that time"`
}

// NewVersionOutput converts a version for the organisation that owns its entry. The
// quality figures are left at zero.
func NewVersionOutput(e Entry, v Version) VersionOutput {
	return VersionOutput{
		ID: v.ID, Version: v.Version, ContentHash: v.ContentHash, ChangeSummary: v.ChangeSummary,
		FileManifest: append([]skillpkg.ManifestEntry{}, v.Manifest...), Source: v.Source, SourceRef: v.SourceRef,
		SourceRepo: v.SourceRepo, IsCurrent: v.ID == e.CurrentVersionID, RolledBack: v.RolledBack,
		State: v.State, WithdrawnReason: v.WithdrawnReason, GateID: v.GateID, PushedAt: httpapi.Time(v.PushedAt),
		PushedBy: &v.PushedBy, Size: v.Size,
	}
}

// rollbackRecord is a rollback in an entry's history.
type rollbackRecord struct {
	From      string        `json:"from_version"`
	To        string        `json:"to_version"`
	Published *string       `json:"published_version" doc:"The version that was published with the content of to_version; null unless it was rolled forward"`
	Reason    *string       `json:"reason" doc:"null for other organisations, like rolled_back_by"`
	By        *string       `json:"rolled_back_by" format:"uuid"`
	At        httpapi.Time  `json:"rolled_back_at"`
	UndoneAt  *httpapi.Time `json:"undone_at" doc:"null while the rollback stands"`
}

// newRollbackRecords hides reason and user of rollbacks from other organisations.
func newRollbackRecords(rollbacks []Rollback, own bool) []rollbackRecord {
	out := make([]rollbackRecord, len(rollbacks))
	for i, r := range rollbacks {
		out[i] = rollbackRecord{
			From: r.From, To: r.To, Published: r.Published, At: httpapi.Time(r.At), UndoneAt: httpapi.NullTime(r.UndoneAt),
		}
		if own {
			out[i].Reason, out[i].By = r.Reason, &r.By
		}
	}
	return out
}
