package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// maxUpload is the largest archive and its metadata.
const maxUpload = 12 << 20

// Mount adds the registry's routes.
func (s *Service) Mount(a *httpapi.API) {
	form := []httpapi.Part{
		{Name: "metadata", Doc: "JSON: name, version, and optionally entry_type, description, change_summary, file_manifest, content_hash, visibility, source_repo"},
		{Name: "archive", Doc: "The tar.gz of the skill folder, at most 10 MiB", File: true},
	}
	httpapi.Add(a, s.create, httpapi.Route{Method: "POST", Path: "/api/v1/registry", Plan: access.Pro, Permission: access.RegistryPush, Status: http.StatusCreated, MaxBody: maxUpload, Form: form, Summary: "Create an entry with its first version"})
	httpapi.Add(a, s.listEntries, httpapi.Route{Method: "GET", Path: "/api/v1/registry", Permission: access.Read, Summary: "List the organisation's entries"})
	httpapi.Add(a, s.listPublic, httpapi.Route{Method: "GET", Path: "/api/v1/registry/public", Permission: access.Read, Summary: "List the public entries of all organisations"})
	httpapi.AddStreamed[EntryPath, getOutput](a, s.get, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}", Permission: access.Read, Summary: "Get an entry with all its versions"})
	httpapi.Add(a, s.delete, httpapi.Route{Method: "DELETE", Path: "/api/v1/registry/{id}", Permission: access.RegistryDelete, Status: http.StatusNoContent, Summary: "Delete an entry and all its versions"})
	httpapi.Add(a, s.push, httpapi.Route{Method: "POST", Path: "/api/v1/registry/{id}/versions", Plan: access.Pro, Permission: access.RegistryPush, Status: http.StatusCreated, Also: []int{http.StatusOK}, MaxBody: maxUpload, Form: form, Summary: "Push a version"})
	httpapi.AddStreamed[EntryPath, versionsOutput](a, s.versions, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}/versions", Permission: access.Read, Summary: "List an entry's versions, newest push first"})
	httpapi.Add(a, s.download, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/download", Permission: access.Read, Summary: "Download the archive of a version"})
	httpapi.Add(a, s.file, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/files/{path...}", Permission: access.Read, Summary: "Get one file of a version"})
	httpapi.Add(a, s.diff, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/diff", Permission: access.Read, Summary: "Compare a version with another"})
	httpapi.Add(a, s.rollback, httpapi.Route{Method: "POST", Path: "/api/v1/registry/{id}/rollback", Plan: access.Pro, Permission: access.RegistryRollback, Summary: "Make an earlier version current again"})
	httpapi.Add(a, s.install, httpapi.Route{Method: "POST", Path: "/api/v1/registry/{id}/install", Plan: access.Pro, Permission: access.RegistryInstall, Summary: "Record an installation"})
	httpapi.Add(a, s.installations, httpapi.Route{Method: "GET", Path: "/api/v1/registry/{id}/installations", Plan: access.Team, Permission: access.Read, Summary: "List who installed an entry"})
	httpapi.Add(a, s.installed, httpapi.Route{Method: "GET", Path: "/api/v1/registry/installed", Permission: access.Read, Summary: "List what the caller installed"})
	httpapi.Add(a, s.sync, httpapi.Route{Method: "POST", Path: "/api/v1/registry/sync", Permission: access.Read, HandChecked: true, Summary: "Ask which installations have updates"})
	httpapi.Add(a, s.syncCheck, httpapi.Route{Method: "GET", Path: "/api/v1/registry/sync/check", Permission: access.Read, Summary: "Ask which recorded installations have updates"})
}

// EntryPath names an entry in a path.
type EntryPath struct {
	ID string `path:"id" doc:"Id of the entry"`
}

type publishOutput struct {
	Entry   EntryOutput   `json:"entry"`
	Version versionOutput `json:"version"`
	made    bool
}

// HTTPStatus is 200 for a version that was there already.
func (o publishOutput) HTTPStatus() int {
	if o.made {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *Service) create(ctx context.Context, in Upload) (publishOutput, error) {
	p, err := in.publication(access.From(ctx))
	if err != nil {
		return publishOutput{}, err
	}
	e, v, err := s.Create(ctx, p)
	return publishOutput{newEntryOutput(e), newVersionOutput(e, v), true}, err
}

type pushInput struct {
	EntryPath
	Upload
}

func (s *Service) push(ctx context.Context, in pushInput) (publishOutput, error) {
	p, err := in.publication(access.From(ctx))
	if err != nil {
		return publishOutput{}, err
	}
	e, v, made, err := s.Push(ctx, in.ID, p)
	return publishOutput{newEntryOutput(e), newVersionOutput(e, v), made}, err
}

type listInput struct {
	Name    string `query:"name" doc:"Exactly this name"`
	Q       string `query:"q" maxLength:"200" doc:"Text to find in name or description"`
	Page    int    `query:"page" default:"1" minimum:"1" maximum:"1000000"`
	PerPage int    `query:"per_page" default:"1000" minimum:"1" maximum:"1000"`
}

func (in listInput) filter() Filter {
	return Filter{Name: in.Name, Search: in.Q, Limit: in.PerPage, Offset: (in.Page - 1) * in.PerPage}
}

type listOutput struct {
	Entries    []listedOutput     `json:"entries" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

// newListOutput is what an organisation may see of a list.
func newListOutput(in listInput, orgID string, listed []Listed, total int) listOutput {
	out := listOutput{
		Entries:    make([]listedOutput, len(listed)),
		Pagination: httpapi.Pagination{Page: in.Page, PerPage: in.PerPage, Total: total},
	}
	for i, l := range listed {
		out.Entries[i] = newListedOutput(l, orgID)
	}
	return out
}

func (s *Service) listEntries(ctx context.Context, in listInput) (listOutput, error) {
	orgID := access.From(ctx).OrgID
	listed, total, err := s.List(ctx, orgID, in.filter())
	return newListOutput(in, orgID, listed, total), err
}

func (s *Service) listPublic(ctx context.Context, in listInput) (listOutput, error) {
	listed, total, err := s.ListPublic(ctx, in.filter())
	return newListOutput(in, access.From(ctx).OrgID, listed, total), err
}

type getOutput struct {
	Entry             OwnedOutput      `json:"entry"`
	InstallationCount int              `json:"installation_count" doc:"People who installed it; 0 for other organisations"`
	Rollbacks         []rollbackRecord `json:"rollbacks" nullable:"false" doc:"Newest first; at most 1,000"`
	Versions          []versionOutput  `json:"versions" nullable:"false"`
}

func (s *Service) get(ctx context.Context, in EntryPath) (httpapi.Stream, error) {
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
	if !own {
		e = e.ForOthers()
	}
	head := struct {
		Entry             OwnedOutput      `json:"entry"`
		InstallationCount int              `json:"installation_count"`
		Rollbacks         []rollbackRecord `json:"rollbacks"`
	}{OwnedOutput{newEntryOutput(e), owner}, e.InstallationCount, newRollbackRecords(rollbacks, own)}
	return s.streamVersions(ctx, e, own, head)
}

func (s *Service) delete(ctx context.Context, in EntryPath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type versionsOutput struct {
	Versions []versionOutput `json:"versions" nullable:"false"`
}

func (s *Service) versions(ctx context.Context, in EntryPath) (httpapi.Stream, error) {
	orgID := access.From(ctx).OrgID
	e, err := s.Entry(ctx, orgID, in.ID)
	if err != nil {
		return nil, err
	}
	return s.streamVersions(ctx, e, e.OrgID == orgID, struct{}{})
}

// VersionPath names a version in a path.
type VersionPath struct {
	EntryPath
	Version string `path:"version"`
}

func (s *Service) download(ctx context.Context, in VersionPath) (httpapi.Stream, error) {
	return s.Download(ctx, access.From(ctx).OrgID, in)
}

// Download sends the archive of a version that the organisation may see.
func (s *Service) Download(ctx context.Context, orgID string, at VersionPath) (httpapi.Stream, error) {
	c, err := s.content(ctx, versionOf{orgID, at.ID, at.Version})
	if fault.Is(err, fault.NotFound) {
		_, _, err = s.Version(ctx, orgID, at.ID, at.Version) // says which of the two is missing
	}
	if err != nil {
		return nil, err
	}
	body, info, err := s.Blobs.Get(ctx, c.archiveKey)
	if fault.Is(err, fault.NotFound) {
		// Another replica may have deleted the entry a moment ago.
		if _, _, gone := s.Version(ctx, orgID, at.ID, at.Version); gone != nil {
			return nil, gone
		}
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The archive cannot be read now").Because(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		blob.ServeBody(w, r, body, info, blob.SignOptions{
			Filename: archiveName(c.name, at.Version), ContentType: "application/gzip",
		})
	}, nil
}

type fileInput struct {
	VersionPath
	Path        string `path:"path" doc:"Path of the file in the archive"`
	IfNoneMatch string `header:"If-None-Match" doc:"ETag of an earlier answer"`
}

func (s *Service) file(ctx context.Context, in fileInput) (httpapi.Stream, error) {
	return s.StreamFile(ctx, access.From(ctx).OrgID, in.VersionPath, in.Path, in.IfNoneMatch)
}

// StreamFile sends one file of a version that the organisation may see, unless
// the client has it by its ETag already.
func (s *Service) StreamFile(ctx context.Context, orgID string, at VersionPath, path, has string) (httpapi.Stream, error) {
	c, err := s.content(ctx, versionOf{orgID, at.ID, at.Version})
	if fault.Is(err, fault.NotFound) {
		_, _, err = s.Version(ctx, orgID, at.ID, at.Version) // says which of the two is missing
	}
	if err != nil {
		return nil, err
	}
	v := Version{ID: c.versionID, Version: at.Version, ContentHash: c.hash, archiveKey: c.archiveKey}
	f, err := s.find(ctx, v, path)
	if err != nil {
		return nil, err
	}
	if matches(has, f.Hash) {
		return plain("", f.Hash, nil), nil
	}
	content, err := s.read(ctx, v, f)
	return plain(mediaType(content), f.Hash, content), err
}

type diffInput struct {
	VersionPath
	From string `query:"from" doc:"Version to compare with; the one pushed before when empty"`
}

func (s *Service) diff(ctx context.Context, in diffInput) (httpapi.Stream, error) {
	return s.StreamDiff(ctx, access.From(ctx).OrgID, in.VersionPath, in.From)
}

// StreamDiff sends what changed in a version that the organisation may see.
func (s *Service) StreamDiff(ctx context.Context, orgID string, at VersionPath, from string) (httpapi.Stream, error) {
	_, v, err := s.Version(ctx, orgID, at.ID, at.Version)
	if err != nil {
		return nil, err
	}
	content, err := s.Diff(ctx, v, from)
	sum := sha256.Sum256(content)
	return plain("text/x-diff; charset=utf-8", hex.EncodeToString(sum[:]), content), err
}

// plain writes content that somebody pushed without letting a browser act on it.
func plain(mediaType, tag string, content []byte) httpapi.Stream {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		serveBytes(w, r, tag, content)
	}
}

type rollbackInput struct {
	EntryPath
	Body struct {
		TargetVersion string  `json:"target_version,omitempty" example:"1.0.0" doc:"The version pushed before the current one when omitted"`
		Reason        *string `json:"reason,omitempty" example:"fails on empty input"`
	}
}

type rollbackOutput struct {
	Entry          EntryOutput   `json:"entry"`
	Version        versionOutput `json:"version"`
	RolledBackFrom string        `json:"rolled_back_from"`
	Reason         *string       `json:"reason"`
}

func (s *Service) rollback(ctx context.Context, in rollbackInput) (rollbackOutput, error) {
	c := access.From(ctx)
	r, err := s.Rollback(ctx, in.ID, NewRollback{OrgID: c.OrgID, UserID: c.UserID, Target: in.Body.TargetVersion, Reason: in.Body.Reason})
	return rollbackOutput{newEntryOutput(r.Entry), newVersionOutput(r.Entry, r.Version), r.From, in.Body.Reason}, err
}
