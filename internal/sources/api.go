package sources

import (
	"bytes"
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
)

// maxUpload is the largest archive and what surrounds it in a form.
const maxUpload = 12 << 20

// Mount adds the routes of cloud sources.
func (s *Service) Mount(a *httpapi.API) {
	form := []httpapi.Part{
		{Name: "label", Doc: "1 to 200 characters; required for a new source", Optional: true},
		{Name: "skill_id", Doc: "UUID of the skill that the source is measured as", Optional: true},
		{Name: "source_id", Doc: "Adds a snapshot to this source instead of making one", Optional: true},
		{Name: "file", Doc: "A zip, a tar.gz or a single SKILL.md, at most 10 MiB; or else parts whose names are the relative paths of the files", File: true, Optional: true},
	}
	httpapi.Add(a, s.list, httpapi.Route{Method: "GET", Path: "/api/v1/cloud-sources", Permission: access.Read, Summary: "List cloud sources, newest first"})
	httpapi.Add(a, s.create, httpapi.Route{Method: "POST", Path: "/api/v1/cloud-sources", Permission: access.Write, Status: http.StatusCreated, Also: []int{http.StatusBadGateway}, Summary: "Create a cloud source"})
	httpapi.Add(a, s.upload, httpapi.Route{Method: "POST", Path: "/api/v1/cloud-sources/upload", Permission: access.Write, Status: http.StatusCreated, MaxBody: maxUpload, Form: form, Summary: "Upload a skill, to a new source or as a snapshot of one"})
	httpapi.Add(a, s.update, httpapi.Route{Method: "PATCH", Path: "/api/v1/cloud-sources/{id}", Permission: access.Write, Summary: "Change the label or the skill of a cloud source"})
	httpapi.Add(a, s.delete, httpapi.Route{Method: "DELETE", Path: "/api/v1/cloud-sources/{id}", Permission: access.Write, Status: http.StatusNoContent, Summary: "Delete a cloud source and all its snapshots"})
	httpapi.Add(a, s.sync, httpapi.Route{Method: "POST", Path: "/api/v1/cloud-sources/{id}/repohost-sync", Permission: access.Write, Also: []int{http.StatusBadGateway}, Summary: "Make a snapshot of what the repository holds now"})
	httpapi.Add(a, s.sarif, httpapi.Route{Method: "GET", Path: "/api/v1/cloud-sources/{id}/validation.sarif", Permission: access.Read, Summary: "Get the findings of a snapshot as SARIF 2.1.0"})
	httpapi.Add(a, s.file, httpapi.Route{Method: "GET", Path: "/api/v1/cloud-sources/{id}/snapshots/{snapshotId}/files/{path...}", Permission: access.Read, Summary: "Get one file of a snapshot"})
}

// SourcePath names a source in a path.
type SourcePath struct {
	ID string `path:"id" doc:"Id of the cloud source, with or without src_"`
}

type listInput struct {
	Type    Type   `query:"type" enum:"upload,repohost"`
	SkillID string `query:"skill_id" format:"uuid"`
}

func (s *Service) list(ctx context.Context, in listInput) ([]ItemOutput, error) {
	f := Filter{Type: in.Type}
	if in.SkillID != "" {
		f.SkillID = *lower(&in.SkillID)
	}
	found, err := s.List(ctx, access.From(ctx).OrgID, f)
	out := make([]ItemOutput, len(found))
	for i, src := range found {
		out[i] = newItemOutput(src)
	}
	return out, err
}

type createInput struct {
	Body struct {
		Type           Type    `json:"type" enum:"upload,repohost"`
		Label          string  `json:"label" doc:"1 to 200 characters"`
		SkillID        *string `json:"skill_id,omitempty" format:"uuid" doc:"The skill that the source is measured as"`
		InstallationID int64   `json:"installation_id,omitempty" doc:"Required for repohost, as is repo_full_name"`
		RepoFullName   string  `json:"repo_full_name,omitempty" example:"acme/skills"`
		DefaultBranch  string  `json:"default_branch,omitempty" doc:"main when omitted"`
		SkillPath      string  `json:"skill_path,omitempty" doc:"Folder of the skill in the repository; . when omitted"`
	}
}

func (s *Service) create(ctx context.Context, in createInput) (SourceOutput, error) {
	b := in.Body
	src, err := s.Create(ctx, access.From(ctx), NewSource{
		Label: b.Label, Type: b.Type, SkillID: lower(b.SkillID),
		Repo: &Repo{b.InstallationID, b.RepoFullName, b.DefaultBranch, b.SkillPath},
	})
	return newSourceOutput(src), err
}

// lower is a UUID as it is stored; the schema has checked its form.
func lower(id *string) *string {
	if id == nil {
		return nil
	}
	bare, _ := parseUUID(*id)
	return &bare
}

type uploadOutput struct {
	SourceOutput
	TakenOutput
}

func (s *Service) upload(ctx context.Context, in uploadInput) (out uploadOutput, err error) {
	p, err := in.fields()
	if err != nil {
		return out, err
	}
	pkg, err := in.open(ctx, s.Limits)
	if err != nil {
		return out, err
	}
	defer pkg.Close()
	var t Taken
	if p.sourceID == "" {
		t, err = s.CreateFrom(ctx, access.From(ctx), NewSource{Label: p.label, Type: Upload, SkillID: p.skillID}, pkg)
	} else {
		t, err = s.Add(ctx, access.From(ctx), p.sourceID, pkg)
	}
	return uploadOutput{newSourceOutput(t.Source), newTakenOutput(t)}, err
}

type updateInput struct {
	SourcePath
	Body struct {
		Label   *string `json:"label,omitempty" doc:"1 to 200 characters"`
		SkillID *string `json:"skill_id,omitempty" doc:"The skill that the source is measured as; empty unlinks it"`
	}
}

func (s *Service) update(ctx context.Context, in updateInput) (SourceOutput, error) {
	src, err := s.Update(ctx, access.From(ctx).OrgID, in.ID, Change{in.Body.Label, in.Body.SkillID})
	return newSourceOutput(src), err
}

func (s *Service) delete(ctx context.Context, in SourcePath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

func (s *Service) sync(ctx context.Context, in SourcePath) (TakenOutput, error) {
	t, err := s.Sync(ctx, access.From(ctx), in.ID)
	return newTakenOutput(t), err
}

type sarifInput struct {
	SourcePath
	SnapshotID string `query:"snapshot_id" format:"uuid" doc:"The current one when omitted"`
}

func (s *Service) sarif(ctx context.Context, in sarifInput) (httpapi.Stream, error) {
	document, err := s.SARIF(ctx, access.From(ctx).OrgID, in.ID, in.SnapshotID)
	return serve("application/sarif+json", document), err
}

type fileInput struct {
	SourcePath
	SnapshotID string `path:"snapshotId"`
	Path       string `path:"path" doc:"Path of the file in the skill"`
}

func (s *Service) file(ctx context.Context, in fileInput) (httpapi.Stream, error) {
	snapshot, err := s.Snapshot(ctx, access.From(ctx).OrgID, in.ID, in.SnapshotID)
	if err != nil {
		return nil, err
	}
	content, err := s.FileOf(ctx, snapshot, in.Path)
	return serve(mediaType(content), content), err
}

// mediaType is never HTML: a file that somebody uploaded must not run in our
// origin.
func mediaType(content []byte) string {
	if utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func serve(mediaType string, content []byte) httpapi.Stream {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		stored.Send(w, content)
	}
}
