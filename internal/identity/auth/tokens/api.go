package tokens

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of catalog tokens. All of them are for admins: a token opens
// every private skill to whoever has it.
func (s *Service) Mount(a *httpapi.API) {
	const path = "/api/v1/catalog-tokens"
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path,
		Summary: "List the organisation's catalog tokens",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path, Status: http.StatusCreated,
		Also:    []int{http.StatusConflict},
		Summary: "Create a catalog token, which opens the organisation's catalogs and nothing else; it is shown once",
	})
	httpapi.Add(a, s.handleRotate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path + "/{id}/rotate", Status: http.StatusCreated,
		Also:    []int{http.StatusConflict},
		Summary: "Replace a catalog token: the new one is shown once, and the old one ends after an overlap",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Revoke a catalog token immediately",
	})
}

func newTokenOutput(t Token) api.CatalogToken {
	return api.CatalogToken{
		ID: t.ID, Name: t.Name, Prefix: t.Prefix, State: t.State(), CreatedBy: t.CreatedBy, CreatedAt: httpapi.Time(t.CreatedAt),
		LastUsedAt: httpapi.NullTime(t.LastUsedAt), ExpiresAt: httpapi.NullTime(t.ExpiresAt),
		ReplacedAt: httpapi.NullTime(t.ReplacedAt), Sets: append([]string{}, t.Sets...),
	}
}

type listOutput struct {
	Tokens     []api.CatalogToken `json:"catalog_tokens" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in struct{ httpapi.Page }) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, in.Rows())
	out := listOutput{Tokens: make([]api.CatalogToken, len(all)), Pagination: in.Of(total)}
	for i, t := range all {
		out.Tokens[i] = newTokenOutput(t)
	}
	return out, err
}

type createInput struct {
	Body struct {
		Name      string        `json:"name" minLength:"1" maxLength:"100" example:"laptops"`
		ExpiresAt *httpapi.Time `json:"expires_at,omitempty" doc:"Omitted: it does not expire"`
		Sets      []string      `json:"sets,omitempty" nullable:"false" maxItems:"20" doc:"Ids of the sets whose skills alone it opens"`
	}
}

// createOutput is the only answer with the token, besides that of a rotation.
type createOutput struct {
	Token api.CatalogToken `json:"catalog_token"`
	Raw   string           `json:"token" example:"ct_..." doc:"It is not shown again"`
}

// handleCreate makes a token and returns it, for the only time. A name that is taken
// is a Conflict: people tell tokens apart by it.
func (s *Service) handleCreate(ctx context.Context, in createInput) (createOutput, error) {
	t, raw, err := s.Create(ctx, access.From(ctx), in.Body.Name, (*time.Time)(in.Body.ExpiresAt), in.Body.Sets...)
	return createOutput{newTokenOutput(t), raw}, err
}

// rotateInput names the token to replace, and how long it still works. A fleet takes
// days to pick up a new token, hence the overlap; 0 ends the old one now.
type rotateInput struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		OverlapHours *int `json:"overlap_hours,omitempty" minimum:"0" maximum:"2160" doc:"How long the old token still works; omitted: 168, a week"`
	}
}

type rotateOutput struct {
	Token    api.CatalogToken `json:"catalog_token"`
	Raw      string           `json:"token" example:"ct_..." doc:"It is not shown again"`
	Replaced api.CatalogToken `json:"replaced" doc:"The old token, which works until it expires"`
}

func (s *Service) handleRotate(ctx context.Context, in rotateInput) (rotateOutput, error) {
	// A pointer tells 0 from omitted.
	overlap := DefaultOverlap
	if in.Body.OverlapHours != nil {
		overlap = time.Duration(*in.Body.OverlapHours) * time.Hour
	}
	fresh, raw, old, err := s.Rotate(ctx, access.From(ctx), in.ID, overlap)
	return rotateOutput{newTokenOutput(fresh), raw, newTokenOutput(old)}, err
}

type deleteInput struct {
	ID string `path:"id" format:"uuid"`
}

// handleDelete revokes a token. Unlike the old token of a rotation, a deleted one
// stops to work at once.
func (s *Service) handleDelete(ctx context.Context, in deleteInput) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}
