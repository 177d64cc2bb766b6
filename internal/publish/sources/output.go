package sources

import (
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// ItemOutput is a source in lists.
type ItemOutput struct {
	ID        string       `json:"id" example:"src_0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"`
	Label     string       `json:"label"`
	Type      Type         `json:"sourceType" enum:"upload,repohost,pull" doc:"pull: the files of a pull request, which no list shows"`
	SkillID   *string      `json:"skillId"`
	CreatedAt httpapi.Time `json:"createdAt"`
}

func newItemOutput(s Source) ItemOutput {
	return ItemOutput{Prefix + s.ID, s.Label, s.Type, s.SkillID, httpapi.Time(s.CreatedAt)}
}

// SourceOutput is a source in API replies. The repository's fields are only set for the
// type Repohost.
type SourceOutput struct {
	ItemOutput
	RepoFullName   string `json:"repoFullName,omitempty" example:"acme/skills"`
	InstallationID int64  `json:"installationId,omitempty"`
	DefaultBranch  string `json:"defaultBranch,omitempty"`
	SkillPath      string `json:"skillPath,omitempty"`
}

func newSourceOutput(s Source) SourceOutput {
	out := SourceOutput{ItemOutput: newItemOutput(s)}
	if r := s.Repo; r != nil {
		out.RepoFullName, out.InstallationID = r.FullName, r.InstallationID
		out.DefaultBranch, out.SkillPath = r.DefaultBranch, r.SkillPath
	}
	return out
}

// snapshotOutput is camelCase, as the contract demands for sources.
type snapshotOutput struct {
	ID          string       `json:"id" format:"uuid"`
	SourceID    string       `json:"sourceId"`
	ContentHash string       `json:"contentHash" doc:"SHA-256 of the canonical archive: the same for the same files, however they were sent"`
	CreatedAt   httpapi.Time `json:"createdAt"`
	FileCount   int          `json:"fileCount"`
	TotalBytes  int64        `json:"totalBytes"`
	Files       []File       `json:"files" nullable:"false"`
	SkillName   string       `json:"skillName"`
	Description string       `json:"description"`
	CommitSHA   *string      `json:"commitSha,omitempty"`
	Ref         *string      `json:"ref,omitempty"`
	IsCurrent   bool         `json:"isCurrent"`
	Runnable    bool         `json:"runnable" doc:"False when its validation failed"`
}

// newSnapshotOutput needs the source to tell whether the snapshot is its current one.
func newSnapshotOutput(src Source, s Snapshot) snapshotOutput {
	return snapshotOutput{
		ID: s.ID, SourceID: Prefix + s.SourceID, ContentHash: s.ContentHash, CreatedAt: httpapi.Time(s.CreatedAt),
		FileCount: len(s.Files), TotalBytes: s.TotalBytes, Files: s.Files, SkillName: s.SkillName, Description: s.Description,
		CommitSHA: s.CommitSHA, Ref: s.Ref, IsCurrent: src.CurrentSnapshotID != nil && *src.CurrentSnapshotID == s.ID,
		Runnable: s.Runnable,
	}
}

// reportOutput is the lint report on a snapshot.
type reportOutput struct {
	ID         string         `json:"id" format:"uuid"`
	SnapshotID string         `json:"snapshotId" format:"uuid"`
	Engine     string         `json:"engine"`
	Status     string         `json:"status" enum:"pass,warn,fail"`
	CreatedAt  httpapi.Time   `json:"createdAt"`
	Counts     lint.Counts    `json:"counts"`
	Findings   []lint.Finding `json:"findings" nullable:"false"`
}

func newReportOutputs(reports []Report) []reportOutput {
	out := make([]reportOutput, len(reports))
	for i, r := range reports {
		out[i] = reportOutput{
			r.ID, r.SnapshotID, r.Engine, r.Found.Status(), httpapi.Time(r.CreatedAt), r.Found.Counts(),
			append([]lint.Finding{}, r.Found.Findings...),
		}
	}
	return out
}

// TakenOutput is a snapshot with its reports. The name is part of the OpenAPI document.
type TakenOutput struct {
	Snapshot snapshotOutput `json:"snapshot"`
	Reports  []reportOutput `json:"validationReports" nullable:"false"`
}

func newTakenOutput(r Result) TakenOutput {
	return TakenOutput{newSnapshotOutput(r.Source, r.Snapshot), newReportOutputs(r.Reports)}
}

// DetailOutput is a source with its newest snapshots.
type DetailOutput struct {
	SourceOutput
	Current   *snapshotOutput  `json:"currentSnapshot"`
	Snapshots []snapshotOutput `json:"snapshots" nullable:"false" doc:"The newest 20"`
	Reports   []reportOutput   `json:"validationReports" nullable:"false" doc:"Of the current snapshot"`
}

// NewDetailOutput converts a detail for the API.
func NewDetailOutput(d Detail) DetailOutput {
	out := DetailOutput{
		SourceOutput: newSourceOutput(d.Source), Snapshots: make([]snapshotOutput, len(d.Snapshots)),
		Reports: newReportOutputs(d.Reports),
	}
	for i, s := range d.Snapshots {
		out.Snapshots[i] = newSnapshotOutput(d.Source, s)
	}
	if d.Current != nil {
		current := newSnapshotOutput(d.Source, *d.Current)
		out.Current = &current
	}
	return out
}
