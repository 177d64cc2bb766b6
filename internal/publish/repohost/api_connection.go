package repohost

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// connectionPath is the path parameter of the routes of one connection.
type connectionPath struct {
	ID string `path:"id" doc:"Id of the connection"`
}

// newConnectionOutput takes the last finished attempt, nil if there is none yet.
func newConnectionOutput(c Connection, last *publication.Attempt) api.Connection {
	owner, name := host.Repo{FullName: c.RepoFullName}.Split()
	out := api.Connection{
		ID: c.ID, OrgID: c.OrgID, EntryID: c.EntryID, EntryName: c.EntryName, InstallationID: c.InstallationID,
		RepoOwner: owner, RepoName: name, RepoFullName: c.RepoFullName, DefaultBranch: c.DefaultBranch, SkillPath: c.SkillPath,
		AutoPublish: c.AutoPublish, WriteBackEnabled: c.WriteBackEnabled, TagPattern: c.TagPattern,
		PublishUnchanged: c.PublishUnchanged, OpenIssues: c.OpenIssues, PullRequests: string(c.PullRequests),
		Codeowners: c.Codeowners,
		CreatedBy:  c.CreatedBy, ChosenBy: c.ChosenBy,
		CreatedAt: httpapi.Time(c.CreatedAt), UpdatedAt: httpapi.Time(c.UpdatedAt),
	}
	if last != nil {
		out.LastAttempt = &api.PublishAttempt{
			Status: last.Status.Shown(), Trigger: string(last.Cause), Version: last.Version, SourceRef: last.SourceRef(),
			Message:         last.Message,
			WriteBackStatus: string(last.WriteBack), WriteBackDetail: last.WriteBackDetail, CheckRunID: last.CheckRunID,
			AttemptedAt: httpapi.Time(last.AttemptedAt),
		}
	}
	return out
}

type connectionsOutput struct {
	Connections []api.Connection `json:"connections" nullable:"false"`
}

func (a API) handleConnections(ctx context.Context, _ struct{}) (connectionsOutput, error) {
	all, last, err := a.Connections(ctx, access.From(ctx).OrgID)
	out := connectionsOutput{make([]api.Connection, len(all))}
	for i, c := range all {
		out.Connections[i] = newConnectionOutput(c, attemptOf(last, c.ID))
	}
	return out, err
}

// attemptOf returns a pointer for the optional field of the reply.
func attemptOf(last map[string]publication.Attempt, id string) *publication.Attempt {
	if a, ok := last[id]; ok {
		return &a
	}
	return nil
}

type connectInput struct {
	Body api.NewConnection
}

// handleConnect turns an omitted auto_publish into its default, true.
func (a API) handleConnect(ctx context.Context, in connectInput) (api.Connection, error) {
	b := in.Body
	c, err := a.Connect(ctx, access.From(ctx), Connection{
		EntryID: b.EntryID, InstallationID: b.InstallationID, RepoFullName: b.RepoFullName, DefaultBranch: b.DefaultBranch,
		SkillPath: b.SkillPath, AutoPublish: b.AutoPublish == nil || *b.AutoPublish, WriteBackEnabled: b.WriteBackEnabled,
		TagPattern: b.TagPattern, PublishUnchanged: b.PublishUnchanged, OpenIssues: b.OpenIssues,
		PullRequests: PullRequests(b.PullRequests), Codeowners: b.Codeowners,
	})
	if err != nil {
		return api.Connection{}, err
	}
	return newConnectionOutput(c, nil), nil
}

// updateInput is a partial update: fields that are null or absent stay unchanged.
type updateInput struct {
	connectionPath
	Body api.ConnectionChange
}

func (a API) handleUpdate(ctx context.Context, in updateInput) (api.Connection, error) {
	by := access.From(ctx)
	c, err := a.Update(ctx, by, in.ID, Change{
		DefaultBranch: in.Body.DefaultBranch, SkillPath: in.Body.SkillPath, AutoPublish: in.Body.AutoPublish,
		WriteBackEnabled: in.Body.WriteBackEnabled, TagPattern: in.Body.TagPattern,
		PublishUnchanged: in.Body.PublishUnchanged, OpenIssues: in.Body.OpenIssues,
		PullRequests: (*PullRequests)(in.Body.PullRequests), Codeowners: in.Body.Codeowners,
	})
	if err != nil {
		return api.Connection{}, err
	}
	last, err := publication.Last(ctx, a.DB, by.OrgID)
	return newConnectionOutput(c, attemptOf(last, c.ID)), err
}

func (a API) handleDisconnect(ctx context.Context, in connectionPath) (httpapi.None, error) {
	return httpapi.None{}, a.Disconnect(ctx, access.From(ctx), in.ID)
}

// handleSync waits for the sync, within its timeout, and replies with the outcome of the
// attempt to show.
func (a API) handleSync(ctx context.Context, in connectionPath) (api.ConnectionSync, error) {
	c, last, err := a.Sync(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return api.ConnectionSync{}, err
	}
	out := api.ConnectionSync{
		ConnectionID: c.ID, Status: last.Status.Shown(), Version: last.Version, PublishedAt: httpapi.NullTime(last.PublishedAt),
		Message: last.Message, WriteBackStatus: string(last.WriteBack), CheckRunID: last.CheckRunID,
		StatusContext: c.StatusContext(), Trigger: string(last.Cause),
	}
	if ref := last.SourceRef(); ref != "" {
		out.SourceRef = &ref
	}
	return out, nil
}

func newDeliveryOutput(d Delivery) api.RepoDelivery {
	return api.RepoDelivery{
		ID: d.ID, DeliveryID: d.DeliveryID, Provider: string(d.Provider), Event: d.Event, Action: d.Action,
		InstallationID: d.InstallationID,
		RepoFullName:   d.RepoFullName, Status: string(d.Status), Attempts: d.Attempts, Detail: d.Detail,
		ReceivedAt: httpapi.Time(d.ReceivedAt), FinishedAt: httpapi.NullTime(d.FinishedAt),
	}
}

type deliveriesOutput struct {
	Deliveries []api.RepoDelivery `json:"deliveries" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (a API) handleDeliveries(ctx context.Context, in struct{ httpapi.Page }) (deliveriesOutput, error) {
	all, total, err := a.Deliveries(ctx, access.From(ctx).OrgID, in.Rows())
	out := deliveriesOutput{Deliveries: make([]api.RepoDelivery, len(all)), Pagination: in.Of(total)}
	for i, d := range all {
		out.Deliveries[i] = newDeliveryOutput(d)
	}
	return out, err
}

// deliveryPath is the path parameter of the routes of one delivery.
type deliveryPath struct {
	ID string `path:"id" doc:"Id of the delivery, ours"`
}

// handleRedeliver replies before the delivery is processed (202).
func (a API) handleRedeliver(ctx context.Context, in deliveryPath) (api.RepoDelivery, error) {
	d, err := a.Redeliver(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return api.RepoDelivery{}, err
	}
	return newDeliveryOutput(d), nil
}

// webhookInput has the headers by the names that GitHub uses, which Gitea sends, too, and
// those of GitLab.
type webhookInput struct {
	Signature   string `header:"X-Hub-Signature-256" doc:"sha256= and the HMAC of the body in hex"`
	Event       string `header:"X-GitHub-Event"`
	DeliveryID  string `header:"X-GitHub-Delivery"`
	ContentType string `header:"Content-Type" hidden:"true"`

	GitLabToken    string `header:"X-Gitlab-Token" doc:"GitLab: the secret of the webhook"`
	GitLabEvent    string `header:"X-Gitlab-Event" doc:"GitLab: name of the event, as it sends it"`
	GitLabUUID     string `header:"X-Gitlab-Event-UUID" doc:"GitLab: id of the delivery where it sends no Idempotency-Key"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"GitLab: id of the delivery; one that was received is not processed again"`
	WebhookID      string `header:"webhook-id" doc:"GitLab: id of a signed delivery, which equals Idempotency-Key"`
	WebhookTime    string `header:"webhook-timestamp" doc:"GitLab: seconds since 1970, at most 5 minutes from now"`
	WebhookSigned  string `header:"webhook-signature" doc:"GitLab: v1, and the HMAC of id, timestamp and body in base64"`

	RawBody []byte
}

// header has all that code hosts send.
func (in *webhookInput) header() http.Header {
	header := http.Header{}
	for name, value := range map[string]string{
		host.SignatureHeader: in.Signature, host.EventHeader: in.Event, host.DeliveryHeader: in.DeliveryID,
		"Content-Type": in.ContentType, host.GitLabTokenHeader: in.GitLabToken, host.GitLabEventHeader: in.GitLabEvent,
		host.GitLabUUIDHeader: in.GitLabUUID, host.IdempotencyHeader: in.IdempotencyKey, host.WebhookIDHeader: in.WebhookID,
		host.WebhookTimeHeader: in.WebhookTime, host.WebhookSignedHeader: in.WebhookSigned,
	} {
		header.Set(name, value)
	}
	return header
}

// formBody is a delivery sent as a form, which code hosts can be configured to do.
type formBody struct {
	Payload string `json:"payload" doc:"The JSON of the delivery"`
}

// webhookOutput tells the sender only that the delivery was stored.
type webhookOutput struct {
	ID     string         `json:"id" format:"uuid"`
	Status DeliveryStatus `json:"status" enum:"received,processing,done,failed,ignored"`
}

// HTTPStatus is 202 while there is something left to do, else 200.
func (o webhookOutput) HTTPStatus() int {
	if o.Status == DeliveryIgnored {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// handleWebhook passes the raw body on: the signature covers its bytes.
func (a API) handleWebhook(ctx context.Context, in webhookInput) (webhookOutput, error) {
	d, err := a.Receive(ctx, Incoming{Header: in.header(), Body: in.RawBody})
	return webhookOutput{d.ID, d.Status}, err
}
