package registry

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
)

// maxUpload limits the body of a push: the archive (10 MiB) and its metadata.
const maxUpload = 12 << 20

// Mount adds the registry's routes.
func (s *Service) Mount(a *httpapi.API) {
	form := []httpapi.Part{
		{Name: "metadata", Doc: "JSON: name, version, and optionally entry_type, description, change_summary, " +
			"file_manifest, content_hash, visibility, source_repo"},
		{Name: "archive", Doc: "The tar.gz of the skill folder, at most 10 MiB", File: true},
	}
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "POST", Path: "/api/v1/registry", Status: http.StatusCreated,
		Also: []int{http.StatusAccepted}, MaxBody: maxUpload, Form: form,
		Summary: "Create an entry with its first version",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry",
		Summary: "List the organisation's entries",
	})
	httpapi.Add(a, s.handleListPublic, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/public",
		Summary: "List the public entries of all organisations",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}",
		Produces: []httpapi.Media{{Type: "application/json", Body: api.EntryDetail{}}},
		Summary:  "Get an entry with all its versions",
	})
	httpapi.Add(a, s.handlePatch, httpapi.Route{
		Permission: access.RegistryPush, Method: "PATCH", Path: "/api/v1/registry/{id}",
		Summary: "Change who may see an entry",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.RegistryDelete, Method: "DELETE", Path: "/api/v1/registry/{id}", Status: http.StatusNoContent,
		Summary: "Delete an entry and all its versions",
	})
	httpapi.Add(a, s.handlePush, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "POST", Path: "/api/v1/registry/{id}/versions",
		EntryKeys: true, Status: http.StatusCreated, Also: []int{http.StatusOK, http.StatusAccepted}, MaxBody: maxUpload,
		Form:    form,
		Summary: "Push a version",
	})
	httpapi.Add(a, s.handleVersions, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions",
		Produces: []httpapi.Media{{Type: "application/json", Body: versionsOutput{}}},
		Summary:  "List an entry's versions, newest push first",
	})
	httpapi.Add(a, s.handleDownload, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/download",
		Also: []int{
			http.StatusPartialContent, http.StatusNotModified, http.StatusGone, http.StatusRequestedRangeNotSatisfiable,
		},
		Produces: []httpapi.Media{{Type: "application/gzip"}},
		Summary:  "Download the archive of a version",
	})
	httpapi.Add(a, s.handleFile, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/files/{path...}",
		Also:     []int{http.StatusNotModified, http.StatusGone},
		Produces: []httpapi.Media{{Type: "text/plain"}, {Type: "application/octet-stream"}},
		Summary:  "Get one file of a version",
	})
	httpapi.Add(a, s.handleDiff, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/diff",
		Also:     []int{http.StatusNotModified, http.StatusGone},
		Produces: []httpapi.Media{{Type: "text/x-diff"}},
		Summary:  "Compare a version with another",
	})
}

// EntryPath is the path parameter of the routes of one entry.
type EntryPath struct {
	ID string `path:"id" doc:"Id of the entry"`
}

// publishOutput is the reply to create and push. Gate is set only for a candidate.
type publishOutput struct {
	Entry   api.Entry   `json:"entry"`
	Version api.Version `json:"version"`
	Gate    *api.Gate   `json:"gate,omitempty" doc:"With status 202: the version is a candidate until this gate lets it pass"`
	requirements.Published
	// made is false if the version existed already; it only decides the status.
	made bool
}

// newPublishOutput converts the result of Create and Push. Passing err through lets the
// endpoints call it without a check of their own.
func (s *Service) newPublishOutput(ctx context.Context, e Entry, v Version, made bool, err error) (publishOutput, error) {
	if err != nil {
		return publishOutput{}, err
	}
	// A new version without requirements, which most are, needs no query.
	known := made && len(v.requires)+len(v.problems) == 0
	skill := requirements.Skill{EntryID: e.ID, Name: e.Name, OrgID: e.OrgID, VersionID: v.ID}
	p, err := requirements.AtPublish(ctx, s.DB, skill, v.problems, known)
	return publishOutput{NewEntryOutput(e), NewVersionOutput(e, v), v.gate, p, made}, err
}

// HTTPStatus is 201 for a published version, 202 for a candidate that waits for its gate,
// and 200 for a version that existed already.
func (o publishOutput) HTTPStatus() int {
	switch {
	case !o.made:
		return http.StatusOK
	case o.Version.State == string(Candidate):
		return http.StatusAccepted
	}
	return http.StatusCreated
}

func (s *Service) handleCreate(ctx context.Context, in Upload) (publishOutput, error) {
	p, err := in.publication(access.From(ctx))
	if err != nil {
		return publishOutput{}, err
	}
	e, v, err := s.Create(ctx, p)
	return s.newPublishOutput(ctx, e, v, true, err)
}

type pushInput struct {
	EntryPath
	Upload
}

func (s *Service) handlePush(ctx context.Context, in pushInput) (publishOutput, error) {
	p, err := in.publication(access.From(ctx))
	if err != nil {
		return publishOutput{}, err
	}
	e, v, made, err := s.Push(ctx, in.ID, p)
	return s.newPublishOutput(ctx, e, v, made, err)
}

// ListInput selects entries of a list.
type ListInput struct {
	Name    string `query:"name" doc:"Exactly this name"`
	Q       string `query:"q" maxLength:"200" doc:"Text to find in name or description"`
	Page    int    `query:"page" default:"1" minimum:"1" maximum:"1000000"`
	PerPage int    `query:"per_page" default:"1000" minimum:"1" maximum:"1000"`
}

// filter converts a page, counted from 1, to an offset.
func (in ListInput) filter() Filter {
	return Filter{Name: in.Name, Search: in.Q, Page: store.Page{Limit: in.PerPage, Offset: (in.Page - 1) * in.PerPage}}
}

type listOutput struct {
	Entries    []api.ListedEntry  `json:"entries" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

// newListOutput hides from other organisations' entries what only their owner may see.
func newListOutput(in ListInput, orgID string, listed []Listed, total int) listOutput {
	out := listOutput{
		Entries:    make([]api.ListedEntry, len(listed)),
		Pagination: httpapi.Pagination{Page: in.Page, PerPage: in.PerPage, Total: total},
	}
	for i, l := range listed {
		out.Entries[i] = newListedOutput(l, orgID)
	}
	return out
}

// handleList shows the own organisation's entries, including those that have no published
// version yet.
func (s *Service) handleList(ctx context.Context, in ListInput) (listOutput, error) {
	orgID := access.From(ctx).OrgID
	f := in.filter()
	f.Pending = true
	listed, total, err := s.List(ctx, orgID, f)
	return newListOutput(in, orgID, listed, total), err
}

type listPublicInput struct {
	ListInput
	Organisation string `query:"organisation" maxLength:"200" doc:"Only entries of this one; with name, an unlisted entry is found, too"`
}

// handleListPublic is what other organisations see, so Pending stays false.
func (s *Service) handleListPublic(ctx context.Context, in listPublicInput) (listOutput, error) {
	f := in.filter()
	f.Organisation = in.Organisation
	listed, total, err := s.ListPublic(ctx, f)
	return newListOutput(in.ListInput, access.From(ctx).OrgID, listed, total), err
}

// handleGet streams its reply: an entry may have thousands of versions.
func (s *Service) handleGet(ctx context.Context, in EntryPath) (httpapi.Stream, error) {
	orgID := access.From(ctx).OrgID
	e, err := s.Entry(ctx, orgID, in.ID)
	if err != nil {
		return nil, err
	}
	rollbacks, err := s.Rollbacks(ctx, e)
	if err != nil {
		return nil, err
	}
	owner, err := orgName(ctx, s.DB, e)
	if err != nil {
		return nil, err
	}
	own := e.OrgID == orgID
	var owners *api.Owners
	switch {
	case !own:
		e = e.ForOthers()
	case s.Owners != nil:
		shown, err := s.Owners(ctx, e)
		if err != nil {
			return nil, err
		}
		owners = &shown
	}
	head := struct {
		Entry             api.OwnedEntry `json:"entry"`
		InstallationCount int            `json:"installation_count"`
		Owners            *api.Owners    `json:"owners"`
		Rollbacks         []api.Rollback `json:"rollbacks"`
	}{
		api.OwnedEntry{Entry: NewEntryOutput(e), Organisation: owner},
		e.InstallationCount, owners,
		newRollbackRecords(rollbacks, own),
	}
	return s.streamVersions(ctx, e, own, head)
}

type patchInput struct {
	EntryPath
	Body struct {
		Visibility Visibility `json:"visibility" enum:"public,org,unlisted"`
	}
}

type patchOutput struct {
	Entry api.Entry `json:"entry"`
}

func (s *Service) handlePatch(ctx context.Context, in patchInput) (patchOutput, error) {
	e, err := s.SetVisibility(ctx, access.From(ctx), in.ID, in.Body.Visibility)
	return patchOutput{NewEntryOutput(e)}, err
}

func (s *Service) handleDelete(ctx context.Context, in EntryPath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

// versionsOutput documents the reply; handleVersions streams the same field.
type versionsOutput struct {
	Versions []api.Version `json:"versions" nullable:"false"`
}

func (s *Service) handleVersions(ctx context.Context, in EntryPath) (httpapi.Stream, error) {
	orgID := access.From(ctx).OrgID
	e, err := s.Entry(ctx, orgID, in.ID)
	if err != nil {
		return nil, err
	}
	return s.streamVersions(ctx, e, e.OrgID == orgID, struct{}{})
}

// VersionPath is the path of the routes of one version.
type VersionPath struct {
	EntryPath
	Version string `path:"version"`
}

// WithdrawnQuery opts in to the content of a withdrawn version, e.g. to inspect why it
// was withdrawn.
type WithdrawnQuery struct {
	Withdrawn bool `query:"withdrawn" doc:"Also if the version is withdrawn, which is 410 otherwise; for the entry's own organisation"`
}

type downloadInput struct {
	VersionPath
	WithdrawnQuery
}

func (s *Service) handleDownload(ctx context.Context, in downloadInput) (httpapi.Stream, error) {
	return s.Download(ctx, access.From(ctx).OrgID, in.VersionPath, in.Withdrawn)
}

type fileInput struct {
	VersionPath
	WithdrawnQuery
	Path        string `path:"path" doc:"Path of the file in the archive"`
	IfNoneMatch string `header:"If-None-Match" doc:"ETag of an earlier answer"`
}

func (s *Service) handleFile(ctx context.Context, in fileInput) (httpapi.Stream, error) {
	return s.StreamFile(ctx, access.From(ctx).OrgID, in.VersionPath, in.Path, in.IfNoneMatch, in.Withdrawn)
}

type diffInput struct {
	VersionPath
	WithdrawnQuery
	From string `query:"from" doc:"Version to compare with; the one pushed before when empty"`
}

func (s *Service) handleDiff(ctx context.Context, in diffInput) (httpapi.Stream, error) {
	return s.StreamDiff(ctx, access.From(ctx).OrgID, in.VersionPath, in.From, in.Withdrawn)
}
