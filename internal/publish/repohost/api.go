package repohost

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// maxDelivery is the size limit of a webhook's body; it's GitHub's.
const maxDelivery = 25 << 20

// API adds the endpoints to the service.
type API struct{ *Service }

// Mount adds the routes. The webhook is public: its signature authenticates it.
func (a API) Mount(to *httpapi.API) {
	httpapi.Add(to, a.handleSettings, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "GET", Path: "/api/v1/repohost/settings",
		Summary: "Get the code-host settings",
	})
	httpapi.Add(to, a.handleSetSettings, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "POST", Path: "/api/v1/repohost/settings",
		Summary: "Change the code-host settings",
	})
	httpapi.Add(to, a.handleInstallations, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "GET", Path: "/api/v1/repohost/installations",
		Summary: "List bound installations",
	})
	httpapi.Add(to, a.handleBind, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "POST", Path: "/api/v1/repohost/installations", Status: http.StatusCreated,
		Also:    []int{http.StatusConflict, http.StatusBadGateway},
		Summary: "Bind an installation",
	})
	httpapi.Add(to, a.handleRepos, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "GET", Path: "/api/v1/repohost/repos",
		Also:    []int{http.StatusConflict, http.StatusBadGateway},
		Summary: "List the repositories of an installation",
	})
	httpapi.Add(to, a.handleConnections, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "GET", Path: "/api/v1/repohost/connections",
		Summary: "List connections",
	})
	httpapi.Add(to, a.handleConnect, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "POST", Path: "/api/v1/repohost/connections", Status: http.StatusCreated,
		Also:    []int{http.StatusBadGateway},
		Summary: "Connect a repository to an entry",
	})
	httpapi.Add(to, a.handleUpdate, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "PATCH", Path: "/api/v1/repohost/connections/{id}",
		Summary: "Change a connection",
	})
	httpapi.Add(to, a.handleDisconnect, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "DELETE", Path: "/api/v1/repohost/connections/{id}", Status: http.StatusNoContent,
		Summary: "Remove a connection; its versions stay",
	})
	httpapi.Add(to, a.handleSync, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "POST", Path: "/api/v1/repohost/connections/{id}/sync", Also: []int{http.StatusBadGateway},
		Summary: "Read the repository again and publish",
	})
	httpapi.Add(to, a.handleDeliveries, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "GET", Path: "/api/v1/repohost/deliveries",
		Summary: "List what the code host sent, newest first",
	})
	httpapi.Add(to, a.handleRedeliver, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro,
		Method: "POST", Path: "/api/v1/repohost/deliveries/{id}/redeliver", Status: http.StatusAccepted,
		Summary: "Process a delivery again",
	})
	httpapi.Add(to, a.handleWebhook, httpapi.Route{
		Public: true, Precheck: a.verifier().CheckSigned,
		Method: "POST", Path: "/api/v1/repohost/webhook", Status: http.StatusAccepted,
		Also: []int{http.StatusOK, http.StatusUnauthorized}, MaxBody: maxDelivery,
		Limit:    httpapi.PublicLimit(),
		Consumes: []httpapi.Media{{Type: "application/json"}, {Type: "application/x-www-form-urlencoded", Body: formBody{}}},
		Summary:  "Receive a signed delivery from the code host",
	})
}

func (a API) handleSettings(ctx context.Context, _ struct{}) (api.RepohostSettings, error) {
	mode, err := a.Mode(ctx, access.From(ctx).OrgID)
	return api.RepohostSettings{WriteBackMode: string(mode)}, err
}

func (a API) handleSetSettings(ctx context.Context, in struct{ Body api.RepohostSettings }) (api.RepohostSettings, error) {
	return in.Body, a.SetMode(ctx, access.From(ctx).OrgID, Mode(in.Body.WriteBackMode))
}

// newInstallationOutput never shows the token, only whether there is one. An unclaimed
// installation looks suspended: either way nothing is read through it.
func newInstallationOutput(i Installation) api.RepoInstallation {
	return api.RepoInstallation{
		ID: i.ID, InstallationID: i.InstallationID, AccountLogin: i.AccountLogin, AccountType: i.AccountType,
		Suspended: i.Inactive(), HasToken: i.Token != nil, CreatedAt: httpapi.Time(i.CreatedAt),
		UpdatedAt: httpapi.Time(i.UpdatedAt),
	}
}

type installationsOutput struct {
	Installations []api.RepoInstallation `json:"installations" nullable:"false"`
}

func (a API) handleInstallations(ctx context.Context, _ struct{}) (installationsOutput, error) {
	all, err := a.Installations(ctx, access.From(ctx).OrgID)
	out := installationsOutput{make([]api.RepoInstallation, len(all))}
	for n, i := range all {
		out.Installations[n] = newInstallationOutput(i)
	}
	return out, err
}

// bindInput is idempotent: the same installation can be bound again to change it.
type bindInput struct {
	Body api.NewRepoInstallation
}

func (a API) handleBind(ctx context.Context, in bindInput) (api.RepoInstallation, error) {
	i, err := a.Bind(ctx, Installation{
		OrgID: access.From(ctx).OrgID, InstallationID: in.Body.InstallationID, AccountLogin: in.Body.AccountLogin,
		AccountType: in.Body.AccountType, Suspended: in.Body.Suspended, Token: in.Body.Token,
	})
	if err != nil {
		return api.RepoInstallation{}, err
	}
	return newInstallationOutput(i), nil
}

type reposInput struct {
	InstallationID int64 `query:"installation_id" required:"true" minimum:"1"`
}

type reposOutput struct {
	Repos []api.Repository `json:"repos" nullable:"false"`
}

func (a API) handleRepos(ctx context.Context, in reposInput) (reposOutput, error) {
	all, err := a.Repositories(ctx, access.From(ctx).OrgID, in.InstallationID)
	out := reposOutput{make([]api.Repository, len(all))}
	for i, r := range all {
		out.Repos[i] = api.Repository{
			ID: r.ID, FullName: r.FullName, Owner: r.Owner, Name: r.Name, Visibility: r.Visibility,
			DefaultBranch: r.DefaultBranch,
			HTMLURL:       r.HTMLURL, PushedAt: httpapi.NullTime(r.PushedAt), ConnectedElsewhere: r.ConnectedElsewhere,
		}
	}
	return out, err
}
