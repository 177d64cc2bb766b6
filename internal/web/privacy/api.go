package privacy

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of exports and deletion.
func (s *Service) Mount(a *httpapi.API) {
	const organisation, export = "/api/v1/organization", "/api/v1/organization/export"
	// An archive may take minutes of the server's time and gigabytes of its disk.
	few := &httpapi.Limit{Requests: 10, Per: time.Hour, By: httpapi.ByOrg}
	httpapi.Add(a, s.handleStart, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "POST", Path: export, Status: http.StatusAccepted, Limit: few,
		Summary: "Create an archive of everything the organisation has, or return the one in progress",
	})
	httpapi.Add(a, s.handleExport, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "GET", Path: export, Also: []int{http.StatusNotFound},
		Summary: "The state of the newest archive, and a link to download it",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "DELETE", Path: organisation, Status: http.StatusNoContent,
		Summary: "Delete the organisation and everything in it, permanently",
	})
	httpapi.Add(a, s.handlePerson, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/me/export",
		Limit:    PersonLimit(),
		Produces: []httpapi.Media{{Type: "application/json", Body: personFile{}}},
		Summary:  "Export everything that is stored about you",
	})
}

// PersonLimit is how often a person may read all that is stored about them.
func PersonLimit() *httpapi.Limit {
	return &httpapi.Limit{Requests: 10, Per: time.Hour, By: httpapi.ByKey}
}

// exportOutput is the state of an archive. Rows and blobs count while it is being
// made, and are final then.
type exportOutput struct {
	ID                string        `json:"id" format:"uuid"`
	State             State         `json:"state" enum:"queued,running,done,failed,expired"`
	Rows              int64         `json:"rows" doc:"That are in the archive so far"`
	Blobs             int64         `json:"blobs" doc:"Files that are in the archive so far"`
	Size              *int64        `json:"size" doc:"Of the archive in bytes; null until it is done"`
	SHA256            *string       `json:"sha256" doc:"Of the archive; null until it is done"`
	CreatedAt         httpapi.Time  `json:"created_at"`
	FinishedAt        *httpapi.Time `json:"finished_at"`
	ExpiresAt         *httpapi.Time `json:"expires_at" doc:"When the archive is deleted, 24 hours after it was made"`
	DownloadURL       *string       `json:"download_url" doc:"Works without a key until download_expires_at; null unless it is done"`
	DownloadExpiresAt *httpapi.Time `json:"download_expires_at"`
	Error             *string       `json:"error" doc:"Why it failed; null unless it did"`
}

type exportAnswer struct {
	Export exportOutput `json:"export"`
}

// output converts an export, with a link if it is done. The link is made for each
// answer, and lives for a short time.
func (s *Service) output(ctx context.Context, e Export) (exportAnswer, error) {
	out := exportOutput{
		ID: e.ID, State: e.State, Rows: e.Rows, Blobs: e.Blobs, CreatedAt: httpapi.Time(e.CreatedAt),
		FinishedAt: httpapi.NullTime(e.FinishedAt), ExpiresAt: httpapi.NullTime(e.ExpiresAt), Error: e.Error,
	}
	if e.SHA256 != "" {
		out.Size, out.SHA256 = &e.Size, &e.SHA256
	}
	if e.State != Done {
		return exportAnswer{out}, nil
	}
	url, until, err := s.Link(ctx, e)
	out.DownloadURL, out.DownloadExpiresAt = &url, httpapi.NullTime(&until)
	return exportAnswer{out}, err
}

// handleStart begins an archive. An archive that is under way is returned instead of
// starting another one.
func (s *Service) handleStart(ctx context.Context, _ struct{}) (exportAnswer, error) {
	e, err := s.Start(ctx, access.From(ctx))
	if err != nil {
		return exportAnswer{}, err
	}
	return s.output(ctx, e)
}

func (s *Service) handleExport(ctx context.Context, _ struct{}) (exportAnswer, error) {
	e, err := s.Newest(ctx, access.From(ctx))
	if err != nil {
		return exportAnswer{}, err
	}
	return s.output(ctx, e)
}

type deleteInput struct {
	Body struct {
		Confirm string `json:"confirm" maxLength:"100" example:"acme" doc:"The name of the organisation"`
	}
}

func (s *Service) handleDelete(ctx context.Context, in deleteInput) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx), in.Body.Confirm)
}

// handlePerson returns all that is stored about the caller. The check comes before
// the stream, so that a refusal has a status of its own.
func (s *Service) handlePerson(ctx context.Context, _ struct{}) (httpapi.Stream, error) {
	c := access.From(ctx)
	if err := CheckOwn(c); err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		s.ServePerson(w, r.WithContext(access.With(r.Context(), c)))
	}, nil
}

// ServePerson answers with the file of the caller. The caller is in the context, as
// for pages and routes alike.
func (s *Service) ServePerson(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Disposition", `attachment; filename="whetstone-my-data.json"`)
	if err := s.WritePerson(r.Context(), access.From(r.Context()), w); err != nil {
		s.Log.WarnContext(r.Context(), "the data of a person broke off", "error", err)
		panic(http.ErrAbortHandler) // the client sees that it is not whole
	}
}
