package sources

import (
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

func newItemOutput(s Source) api.ListedSource {
	return api.ListedSource{
		ID: Prefix + s.ID, Label: s.Label, SourceType: string(s.Type), SkillID: s.SkillID, CreatedAt: httpapi.Time(s.CreatedAt),
	}
}

func newSourceOutput(s Source) api.Source {
	out := api.Source{ListedSource: newItemOutput(s)}
	if r := s.Repo; r != nil {
		out.RepoFullName, out.InstallationID = r.FullName, r.InstallationID
		out.DefaultBranch, out.SkillPath = r.DefaultBranch, r.SkillPath
	}
	return out
}

// newSnapshotOutput needs the source to tell whether the snapshot is its current one.
func newSnapshotOutput(src Source, s Snapshot) api.Snapshot {
	return api.Snapshot{
		ID: s.ID, SourceID: Prefix + s.SourceID, ContentHash: s.ContentHash, CreatedAt: httpapi.Time(s.CreatedAt),
		FileCount: len(s.Files), TotalBytes: s.TotalBytes, Files: s.Files, SkillName: s.SkillName, Description: s.Description,
		CommitSHA: s.CommitSHA, Ref: s.Ref, IsCurrent: src.CurrentSnapshotID != nil && *src.CurrentSnapshotID == s.ID,
		Runnable: s.Runnable,
	}
}

func newReportOutputs(reports []Report) []api.ValidationReport {
	out := make([]api.ValidationReport, len(reports))
	for i, r := range reports {
		out[i] = api.ValidationReport{
			ID: r.ID, SnapshotID: r.SnapshotID, Engine: r.Engine, Status: r.Found.Status(), CreatedAt: httpapi.Time(r.CreatedAt),
			Counts: r.Found.Counts(), Findings: append([]lint.Finding{}, r.Found.Findings...),
		}
	}
	return out
}

func newTakenOutput(r Result) api.TakenSnapshot {
	return api.TakenSnapshot{Snapshot: newSnapshotOutput(r.Source, r.Snapshot), Reports: newReportOutputs(r.Reports)}
}

// NewDetailOutput converts a detail for the API, without suggestions, reviews and suites.
func NewDetailOutput(d Detail) api.SourceDetail {
	out := api.SourceDetail{
		Source: newSourceOutput(d.Source), Snapshots: make([]api.Snapshot, len(d.Snapshots)),
		Reports: newReportOutputs(d.Reports),
	}
	for i, s := range d.Snapshots {
		out.Snapshots[i] = newSnapshotOutput(d.Source, s)
	}
	if d.Current != nil {
		current := newSnapshotOutput(d.Source, *d.Current)
		out.CurrentSnapshot = &current
	}
	return out
}
