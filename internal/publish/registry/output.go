package registry

import (
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// ForOthers returns the entry as other organisations see it. It names what they see, not what
// they don't: a field that is new stays with the owner until somebody decides otherwise.
func (e Entry) ForOthers() Entry {
	return Entry{
		ID: e.ID, OrgID: e.OrgID, Name: e.Name, Type: e.Type, Description: e.Description, Visibility: e.Visibility,
		SourceRepo: e.SourceRepo, CurrentVersionID: e.CurrentVersionID, CurrentVersion: e.CurrentVersion,
		CurrentHash: e.CurrentHash, CreatedBy: e.CreatedBy, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
	}
}

// NewEntryOutput converts an entry for the API.
func NewEntryOutput(e Entry) api.Entry {
	return api.Entry{
		ID: e.ID, Name: e.Name, EntryType: string(e.Type), Description: e.Description, Visibility: string(e.Visibility),
		SourceRepo: e.SourceRepo, SkillID: e.SkillID,
		CreatedAt: httpapi.Time(e.CreatedAt), UpdatedAt: httpapi.Time(e.UpdatedAt),
	}
}

// newListedOutput shows quality and installations to the owning organisation only.
func newListedOutput(l Listed, orgID string) api.ListedEntry {
	if l.OrgID != orgID {
		l.Entry, l.Quality = l.ForOthers(), skills.Quality{}
	}
	out := api.ListedEntry{
		OwnedEntry:        api.OwnedEntry{Entry: NewEntryOutput(l.Entry), Organisation: l.OrgName},
		PassRate:          l.Quality.PassRate,
		EvalCount:         l.Quality.GradedSessions,
		InstallationCount: l.InstallationCount,
	}
	if l.Current.ID != "" {
		out.CurrentVersion = &api.CurrentVersion{ID: l.Current.ID, Version: l.Current.Version, ContentHash: l.Current.ContentHash}
	}
	return out
}

// NewVersionOutput converts a version for the organisation that owns its entry. The
// quality figures are left at zero.
func NewVersionOutput(e Entry, v Version) api.Version {
	return api.Version{
		ID: v.ID, Version: v.Version, ContentHash: v.ContentHash, ChangeSummary: v.ChangeSummary,
		FileManifest: append([]skillpkg.ManifestEntry{}, v.Manifest...), Source: string(v.Source), SourceRef: v.SourceRef,
		SourceRepo: v.SourceRepo, IsCurrent: v.ID == e.CurrentVersionID, RolledBack: v.RolledBack,
		State: string(v.State), WithdrawnReason: v.WithdrawnReason, GateID: v.GateID, PushedAt: httpapi.Time(v.PushedAt),
		PushedBy: &v.PushedBy, Size: v.Size,
	}
}

// newRollbackRecords hides reason and user of rollbacks from other organisations.
func newRollbackRecords(rollbacks []Rollback, own bool) []api.Rollback {
	out := make([]api.Rollback, len(rollbacks))
	for i, r := range rollbacks {
		out[i] = api.Rollback{
			FromVersion: r.From, ToVersion: r.To, PublishedVersion: r.Published, RolledBackAt: httpapi.Time(r.At),
			UndoneAt: httpapi.NullTime(r.UndoneAt),
		}
		if own {
			out[i].Reason, out[i].RolledBackBy = r.Reason, &r.By
		}
	}
	return out
}
