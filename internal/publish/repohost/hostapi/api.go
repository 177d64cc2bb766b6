// Package hostapi has the API of code hosts: settings, installations, connections,
// deliveries and the webhook. It's apart from repohost to keep the size of that package
// down.
package hostapi

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// maxDelivery is the size limit of a webhook's body; it's GitHub's.
const maxDelivery = 25 << 20

// API adds the endpoints to the service.
type API struct{ *repohost.Service }

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
		Public: true, Precheck: host.CheckSigned,
		Method: "POST", Path: "/api/v1/repohost/webhook", Status: http.StatusAccepted,
		Also: []int{http.StatusOK, http.StatusUnauthorized}, MaxBody: maxDelivery,
		Limit:    httpapi.PublicLimit(),
		Consumes: []httpapi.Media{{Type: "application/json"}, {Type: "application/x-www-form-urlencoded", Body: formBody{}}},
		Summary:  "Receive a signed delivery from the code host",
	})
}

// SettingsBody has an organisation's code host settings, in requests and replies.
type SettingsBody struct {
	WriteBackMode repohost.Mode `json:"write_back_mode" enum:"off,checks,checks_and_prs"`
}

func (a API) handleSettings(ctx context.Context, _ struct{}) (SettingsBody, error) {
	mode, err := a.Mode(ctx, access.From(ctx).OrgID)
	return SettingsBody{mode}, err
}

func (a API) handleSetSettings(ctx context.Context, in struct{ Body SettingsBody }) (SettingsBody, error) {
	return in.Body, a.SetMode(ctx, access.From(ctx).OrgID, in.Body.WriteBackMode)
}

// installationOutput shows that there is a token, and never the token itself.
type installationOutput struct {
	ID             string       `json:"id" format:"uuid"`
	InstallationID int64        `json:"installation_id"`
	AccountLogin   string       `json:"account_login"`
	AccountType    string       `json:"account_type" enum:"User,Organization"`
	Suspended      bool         `json:"suspended" doc:"Also true while the account is not the organisation's"`
	HasToken       bool         `json:"has_token,omitempty" doc:"The account's own token is used instead of the server's"`
	CreatedAt      httpapi.Time `json:"created_at"`
	UpdatedAt      httpapi.Time `json:"updated_at"`
}

// newInstallationOutput never shows the token, only whether there is one. An unclaimed
// installation looks suspended: either way nothing is read through it.
func newInstallationOutput(i repohost.Installation) installationOutput {
	return installationOutput{
		ID: i.ID, InstallationID: i.InstallationID, AccountLogin: i.AccountLogin, AccountType: i.AccountType,
		Suspended: i.Inactive(), HasToken: i.Token != nil, CreatedAt: httpapi.Time(i.CreatedAt),
		UpdatedAt: httpapi.Time(i.UpdatedAt),
	}
}

type installationsOutput struct {
	Installations []installationOutput `json:"installations" nullable:"false"`
}

func (a API) handleInstallations(ctx context.Context, _ struct{}) (installationsOutput, error) {
	all, err := a.Installations(ctx, access.From(ctx).OrgID)
	out := installationsOutput{make([]installationOutput, len(all))}
	for n, i := range all {
		out.Installations[n] = newInstallationOutput(i)
	}
	return out, err
}

// bindInput is idempotent: the same installation can be bound again to change it.
type bindInput struct {
	Body struct {
		InstallationID int64  `json:"installation_id" minimum:"1" maximum:"9007199254740991" doc:"Issued by the code host; any number of your own where the host has no apps"`
		AccountLogin   string `json:"account_login" minLength:"1" maxLength:"100"`
		AccountType    string `json:"account_type" enum:"User,Organization"`
		Suspended      bool   `json:"suspended,omitempty" default:"false"`
		// Nil keeps the stored token.
		Token *string `json:"token,omitempty" doc:"Access token of the account, for Gitea and Forgejo; it is used instead of the server's and never shown. Empty removes it"`
	}
}

func (a API) handleBind(ctx context.Context, in bindInput) (installationOutput, error) {
	i, err := a.Bind(ctx, repohost.Installation{
		OrgID: access.From(ctx).OrgID, InstallationID: in.Body.InstallationID, AccountLogin: in.Body.AccountLogin,
		AccountType: in.Body.AccountType, Suspended: in.Body.Suspended, Token: in.Body.Token,
	})
	if err != nil {
		return installationOutput{}, err
	}
	return newInstallationOutput(i), nil
}

type reposInput struct {
	InstallationID int64 `query:"installation_id" required:"true" minimum:"1"`
}

// repoOutput is a repository to choose from.
type repoOutput struct {
	ID                 int64         `json:"id"`
	FullName           string        `json:"full_name" example:"acme/skills"`
	Owner              string        `json:"owner"`
	Name               string        `json:"name"`
	Visibility         string        `json:"visibility"`
	DefaultBranch      string        `json:"default_branch"`
	HTMLURL            string        `json:"html_url"`
	PushedAt           *httpapi.Time `json:"pushed_at"`
	ConnectedElsewhere bool          `json:"connected_elsewhere" doc:"Another organisation has a connection to it"`
}

type reposOutput struct {
	Repos []repoOutput `json:"repos" nullable:"false"`
}

func (a API) handleRepos(ctx context.Context, in reposInput) (reposOutput, error) {
	all, err := a.Repositories(ctx, access.From(ctx).OrgID, in.InstallationID)
	out := reposOutput{make([]repoOutput, len(all))}
	for i, r := range all {
		out.Repos[i] = repoOutput{
			ID: r.ID, FullName: r.FullName, Owner: r.Owner, Name: r.Name, Visibility: r.Visibility,
			DefaultBranch: r.DefaultBranch,
			HTMLURL:       r.HTMLURL, PushedAt: httpapi.NullTime(r.PushedAt), ConnectedElsewhere: r.ConnectedElsewhere,
		}
	}
	return out, err
}
