package content

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of content.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleSetting, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/settings/content",
		Summary: "Get whether the content of sessions is stored",
	})
	httpapi.Add(a, s.handleSetSetting, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "PUT", Path: "/api/v1/settings/content", WhenFull: true,
		Summary: "Turn the storage of content on or off",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "DELETE", Path: "/api/v1/content", Status: http.StatusNoContent,
		Summary: "Delete all stored content of the organisation",
	})
}

type settingOutput struct {
	Enabled bool `json:"enabled" doc:"False unless an owner switched it on"`
}

func (s *Service) handleSetting(ctx context.Context, _ struct{}) (settingOutput, error) {
	on, err := s.Enabled(ctx, access.From(ctx).OrgID)
	return settingOutput{on}, err
}

type setSettingInput struct {
	Body struct {
		Enabled bool `json:"enabled" required:"true"`
	}
}

func (s *Service) handleSetSetting(ctx context.Context, in setSettingInput) (settingOutput, error) {
	return settingOutput{in.Body.Enabled}, s.SetEnabled(ctx, access.From(ctx), in.Body.Enabled)
}

func (s *Service) handleDelete(ctx context.Context, _ struct{}) (httpapi.None, error) {
	return httpapi.None{}, s.DeleteAll(ctx, access.From(ctx))
}
