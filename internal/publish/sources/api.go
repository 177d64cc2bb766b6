package sources

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// MaxUpload limits the body of an upload: the largest archive (10 MiB), and room for the
// other fields.
const MaxUpload = 12 << 20

// Mount adds the routes of sources. The detail of one is mounted by learn/suggestions,
// because it shows data of that package.
func (s *Service) Mount(a *httpapi.API) {
	const source = "/api/v1/cloud-sources/{id}"
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/cloud-sources",
		Summary: "List cloud sources, newest first",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/cloud-sources", Status: http.StatusCreated,
		Also:    []int{http.StatusBadGateway},
		Summary: "Create a cloud source",
	})
	httpapi.Add(a, s.handleUpload, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/cloud-sources/upload", Status: http.StatusCreated,
		MaxBody: MaxUpload,
		Form: []httpapi.Part{
			{Name: "label", Doc: "1 to 200 characters; required for a new source", Optional: true},
			{Name: "skill_id", Doc: "UUID of the skill that the source is measured as", Optional: true},
			{Name: "source_id", Doc: "Adds a snapshot to this source instead of making one", Optional: true},
			{
				Name: "file", File: true, Optional: true,
				Doc: "A zip, a tar.gz or a single SKILL.md, at most 10 MiB; " +
					"or else parts whose names are the relative paths of the files",
			},
		},
		Summary: "Upload a skill, to a new source or as a snapshot of one",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Write, Method: "PATCH", Path: source,
		Summary: "Change the label or the skill of a cloud source",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: source, Status: http.StatusNoContent,
		Summary: "Delete a cloud source and all its snapshots",
	})
	httpapi.Add(a, s.handleSync, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: source + "/repohost-sync",
		Also:    []int{http.StatusBadGateway},
		Summary: "Make a snapshot of what the repository holds now",
	})
	httpapi.Add(a, s.handleSARIF, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: source + "/validation.sarif",
		Produces: []httpapi.Media{{Type: "application/sarif+json"}},
		Summary:  "Get the findings of a snapshot as SARIF 2.1.0",
	})
	httpapi.Add(a, s.handleFile, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: source + "/snapshots/{snapshotId}/files/{path...}",
		Produces: []httpapi.Media{{Type: "text/plain"}, {Type: "application/octet-stream"}},
		Summary:  "Get one file of a snapshot",
	})
}

// SourcePath is the path parameter of the routes of one source.
type SourcePath struct {
	ID string `path:"id" doc:"Id of the cloud source, with or without src_"`
}

type listInput struct {
	Type    Type   `query:"type" enum:"upload,repohost"`
	SkillID string `query:"skill_id" format:"uuid"`
}

func (s *Service) handleList(ctx context.Context, in listInput) ([]api.ListedSource, error) {
	f := Filter{Type: in.Type}
	if in.SkillID != "" {
		f.SkillID = *canonicalID(&in.SkillID)
	}
	found, err := s.List(ctx, access.From(ctx).OrgID, f)
	out := make([]api.ListedSource, len(found))
	for i, src := range found {
		out[i] = newItemOutput(src)
	}
	return out, err
}

type createInput struct {
	Body api.NewSource
}

// handleCreate ignores the repository of an upload source.
func (s *Service) handleCreate(ctx context.Context, in createInput) (api.Source, error) {
	b := in.Body
	src, err := s.Create(ctx, access.From(ctx), NewSource{
		Label: b.Label, Type: Type(b.Type), SkillID: canonicalID(b.SkillID),
		Repo: &Repo{b.InstallationID, b.RepoFullName, b.DefaultBranch, b.SkillPath},
	})
	return newSourceOutput(src), err
}

// canonicalID returns a UUID in lower case, as it's stored. The schema has validated the
// format.
func canonicalID(id *string) *string {
	if id == nil {
		return nil
	}
	bare, _ := parseUUID(*id)
	return &bare
}

// handleUpload creates a source, or adds a snapshot to the one in the form.
func (s *Service) handleUpload(ctx context.Context, in uploadInput) (out api.UploadedSource, err error) {
	f, err := in.fields()
	if err != nil {
		return out, err
	}
	pkg, err := in.open(ctx, s.Limits)
	if err != nil {
		return out, err
	}
	defer pkg.Close()
	var r Result
	if f.sourceID == "" {
		r, err = s.CreateFrom(ctx, access.From(ctx), NewSource{Label: f.label, Type: Upload, SkillID: f.skillID}, pkg)
	} else {
		r, err = s.AddSnapshot(ctx, access.From(ctx), f.sourceID, pkg)
	}
	return api.UploadedSource{Source: newSourceOutput(r.Source), TakenSnapshot: newTakenOutput(r)}, err
}

type updateInput struct {
	SourcePath
	Body api.SourceChange
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (api.Source, error) {
	src, err := s.Update(ctx, access.From(ctx), in.ID, Change{in.Body.Label, in.Body.SkillID})
	return newSourceOutput(src), err
}

func (s *Service) handleDelete(ctx context.Context, in SourcePath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx), in.ID)
}

func (s *Service) handleSync(ctx context.Context, in SourcePath) (api.TakenSnapshot, error) {
	r, err := s.Sync(ctx, access.From(ctx), in.ID)
	return newTakenOutput(r), err
}

type sarifInput struct {
	SourcePath
	SnapshotID string `query:"snapshot_id" format:"uuid" doc:"The current one when omitted"`
}

// handleSARIF replies with a document that code scanning tools import.
func (s *Service) handleSARIF(ctx context.Context, in sarifInput) (httpapi.Stream, error) {
	document, err := s.SARIF(ctx, access.From(ctx).OrgID, in.ID, in.SnapshotID)
	return serve("application/sarif+json", document), err
}

type fileInput struct {
	SourcePath
	SnapshotID string `path:"snapshotId"`
	Path       string `path:"path" doc:"Path of the file in the skill"`
}

func (s *Service) handleFile(ctx context.Context, in fileInput) (httpapi.Stream, error) {
	snapshot, err := s.Snapshot(ctx, access.From(ctx).OrgID, in.ID, in.SnapshotID)
	if err != nil {
		return nil, err
	}
	content, err := s.FileOf(ctx, snapshot, in.Path)
	return serve(mediaType(content), content), err
}

// mediaType is never HTML: an uploaded file must not run as a page of our origin (stored
// XSS).
func mediaType(content []byte) string {
	if text.ValidBytes(content) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// serve sends content that browsers must not sniff as another type.
func serve(mediaType string, content []byte) httpapi.Stream {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		stored.Send(w, content)
	}
}
