package hostapi

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// ConnectionPath is the path parameter of the routes of one connection.
type ConnectionPath struct {
	ID string `path:"id" doc:"Id of the connection"`
}

// connectionOutput is a connection with its last finished attempt, null before the first.
type connectionOutput struct {
	ID               string                `json:"id" format:"uuid"`
	OrgID            string                `json:"org_id" format:"uuid"`
	EntryID          string                `json:"entry_id" format:"uuid"`
	EntryName        string                `json:"entry_name"`
	InstallationID   int64                 `json:"installation_id"`
	RepoOwner        string                `json:"repo_owner"`
	RepoName         string                `json:"repo_name"`
	RepoFullName     string                `json:"repo_full_name"`
	DefaultBranch    string                `json:"default_branch"`
	SkillPath        string                `json:"skill_path"`
	AutoPublish      bool                  `json:"auto_publish"`
	WriteBackEnabled bool                  `json:"write_back_enabled"`
	TagPattern       string                `json:"tag_pattern"`
	PublishUnchanged bool                  `json:"publish_unchanged"`
	OpenIssues       bool                  `json:"open_issues"`
	PullRequests     repohost.PullRequests `json:"pull_requests" enum:"off,same_repository,all"`
	Codeowners       bool                  `json:"codeowners" doc:"The CODEOWNERS file of the repository names the owners of the entry"`
	CreatedBy        string                `json:"created_by" format:"uuid"`
	ChosenBy         string                `json:"chosen_by" format:"uuid" doc:"Who last changed repository, branch, path or tag pattern; like created_by they count as publisher of its versions"`
	CreatedAt        httpapi.Time          `json:"created_at"`
	UpdatedAt        httpapi.Time          `json:"updated_at"`
	LastAttempt      *lastAttemptOutput    `json:"last_attempt"`
}

// lastAttemptOutput is an attempt as the list of connections shows it.
type lastAttemptOutput struct {
	Status          string                      `json:"status" enum:"published,unchanged,skipped,failed"`
	Trigger         publication.Cause           `json:"trigger" enum:"push,tag,sync,reconcile"`
	Version         *string                     `json:"version"`
	SourceRef       string                      `json:"source_ref"`
	Message         string                      `json:"message"`
	WriteBackStatus publication.WriteBackStatus `json:"write_back_status" enum:"disabled,pending,success,failed,unsupported"`
	WriteBackDetail string                      `json:"write_back_detail,omitempty" doc:"What came of statuses and check-runs"`
	CheckRunID      *string                     `json:"check_run_id,omitempty"`
	AttemptedAt     httpapi.Time                `json:"attempted_at"`
}

// newConnectionOutput takes the last finished attempt, nil if there is none yet.
func newConnectionOutput(c repohost.Connection, last *publication.Attempt) connectionOutput {
	owner, name := host.Repo{FullName: c.RepoFullName}.Split()
	out := connectionOutput{
		ID: c.ID, OrgID: c.OrgID, EntryID: c.EntryID, EntryName: c.EntryName, InstallationID: c.InstallationID,
		RepoOwner: owner, RepoName: name, RepoFullName: c.RepoFullName, DefaultBranch: c.DefaultBranch, SkillPath: c.SkillPath,
		AutoPublish: c.AutoPublish, WriteBackEnabled: c.WriteBackEnabled, TagPattern: c.TagPattern,
		PublishUnchanged: c.PublishUnchanged, OpenIssues: c.OpenIssues, PullRequests: c.PullRequests, Codeowners: c.Codeowners,
		CreatedBy: c.CreatedBy, ChosenBy: c.ChosenBy,
		CreatedAt: httpapi.Time(c.CreatedAt), UpdatedAt: httpapi.Time(c.UpdatedAt),
	}
	if last != nil {
		out.LastAttempt = &lastAttemptOutput{
			Status: last.Status.Shown(), Trigger: last.Cause, Version: last.Version, SourceRef: last.SourceRef(),
			Message:         last.Message,
			WriteBackStatus: last.WriteBack, WriteBackDetail: last.WriteBackDetail, CheckRunID: last.CheckRunID,
			AttemptedAt: httpapi.Time(last.AttemptedAt),
		}
	}
	return out
}

type connectionsOutput struct {
	Connections []connectionOutput `json:"connections" nullable:"false"`
}

func (a API) handleConnections(ctx context.Context, _ struct{}) (connectionsOutput, error) {
	all, last, err := a.Connections(ctx, access.From(ctx).OrgID)
	out := connectionsOutput{make([]connectionOutput, len(all))}
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
	Body struct {
		EntryID        string `json:"entry_id" doc:"Registry entry to publish to"`
		InstallationID int64  `json:"installation_id" minimum:"1"`
		RepoFullName   string `json:"repo_full_name" example:"acme/skills"`
		DefaultBranch  string `json:"default_branch,omitempty" default:"main"`
		SkillPath      string `json:"skill_path,omitempty" default:"." doc:"Folder of the skill in the repository"`
		// AutoPublish is a pointer because its default is true.
		AutoPublish      *bool  `json:"auto_publish,omitempty" doc:"Whether tags are published when they are pushed; true when omitted"`
		WriteBackEnabled bool   `json:"write_back_enabled,omitempty" default:"false"`
		TagPattern       string `json:"tag_pattern,omitempty" default:"v*" doc:"Glob of the tags that are published"`
		PublishUnchanged bool   `json:"publish_unchanged,omitempty" default:"false" doc:"Publish every push to the branch, also one that leaves the folder as it is"`
		OpenIssues       bool   `json:"open_issues,omitempty" default:"false" doc:"Open an issue when an alert rolls a version back"`

		Codeowners   bool                  `json:"codeowners,omitempty" default:"false" doc:"The CODEOWNERS file of the repository names the owners of the entry; needs admin or ownership of the entry"`
		PullRequests repohost.PullRequests `json:"pull_requests,omitempty" default:"same_repository" enum:"off,same_repository,all" doc:"Which pull requests are gated before they are merged; all includes those of forks"`
	}
}

// handleConnect turns an omitted auto_publish into its default, true.
func (a API) handleConnect(ctx context.Context, in connectInput) (connectionOutput, error) {
	b := in.Body
	c, err := a.Connect(ctx, access.From(ctx), repohost.Connection{
		EntryID: b.EntryID, InstallationID: b.InstallationID, RepoFullName: b.RepoFullName, DefaultBranch: b.DefaultBranch,
		SkillPath: b.SkillPath, AutoPublish: b.AutoPublish == nil || *b.AutoPublish, WriteBackEnabled: b.WriteBackEnabled,
		TagPattern: b.TagPattern, PublishUnchanged: b.PublishUnchanged, OpenIssues: b.OpenIssues,
		PullRequests: b.PullRequests, Codeowners: b.Codeowners,
	})
	if err != nil {
		return connectionOutput{}, err
	}
	return newConnectionOutput(c, nil), nil
}

// updateInput is a partial update: fields that are null or absent stay unchanged.
type updateInput struct {
	ConnectionPath
	Body struct {
		WriteBackEnabled *bool   `json:"write_back_enabled,omitempty"`
		DefaultBranch    *string `json:"default_branch,omitempty"`
		SkillPath        *string `json:"skill_path,omitempty"`
		AutoPublish      *bool   `json:"auto_publish,omitempty"`
		TagPattern       *string `json:"tag_pattern,omitempty"`
		PublishUnchanged *bool   `json:"publish_unchanged,omitempty"`
		OpenIssues       *bool   `json:"open_issues,omitempty"`

		Codeowners   *bool                  `json:"codeowners,omitempty" doc:"Needs admin or ownership of the entry; a change of repository, branch, path or tag pattern resets it to false"`
		PullRequests *repohost.PullRequests `json:"pull_requests,omitempty" enum:"off,same_repository,all"`
	}
}

func (a API) handleUpdate(ctx context.Context, in updateInput) (connectionOutput, error) {
	by := access.From(ctx)
	c, err := a.Update(ctx, by, in.ID, repohost.Change{
		DefaultBranch: in.Body.DefaultBranch, SkillPath: in.Body.SkillPath, AutoPublish: in.Body.AutoPublish,
		WriteBackEnabled: in.Body.WriteBackEnabled, TagPattern: in.Body.TagPattern,
		PublishUnchanged: in.Body.PublishUnchanged, OpenIssues: in.Body.OpenIssues, PullRequests: in.Body.PullRequests,
		Codeowners: in.Body.Codeowners,
	})
	if err != nil {
		return connectionOutput{}, err
	}
	last, err := publication.Last(ctx, a.DB, by.OrgID)
	return newConnectionOutput(c, attemptOf(last, c.ID)), err
}

func (a API) handleDisconnect(ctx context.Context, in ConnectionPath) (httpapi.None, error) {
	return httpapi.None{}, a.Disconnect(ctx, access.From(ctx), in.ID)
}

// syncOutput is the attempt that Sync chose to show, with the name of the commit status.
type syncOutput struct {
	ConnectionID    string                      `json:"connection_id" format:"uuid"`
	Status          string                      `json:"status" enum:"published,unchanged,skipped,failed"`
	Version         *string                     `json:"version"`
	SourceRef       *string                     `json:"source_ref" doc:"Commit or tag"`
	PublishedAt     *httpapi.Time               `json:"published_at"`
	Message         string                      `json:"message"`
	WriteBackStatus publication.WriteBackStatus `json:"write_back_status" enum:"disabled,pending,success,failed,unsupported"`
	CheckRunID      *string                     `json:"check_run_id" doc:"Null until there is one"`
	StatusContext   string                      `json:"status_context" example:"whetstone/publish/1a2b3c4d"`
	Trigger         publication.Cause           `json:"trigger" enum:"sync"`
}

// handleSync waits for the sync, within its timeout, and replies with the outcome of the
// attempt to show.
func (a API) handleSync(ctx context.Context, in ConnectionPath) (syncOutput, error) {
	c, last, err := a.Sync(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return syncOutput{}, err
	}
	out := syncOutput{
		ConnectionID: c.ID, Status: last.Status.Shown(), Version: last.Version, PublishedAt: httpapi.NullTime(last.PublishedAt),
		Message: last.Message, WriteBackStatus: last.WriteBack, CheckRunID: last.CheckRunID, StatusContext: c.StatusContext(),
		Trigger: last.Cause,
	}
	if ref := last.SourceRef(); ref != "" {
		out.SourceRef = &ref
	}
	return out, nil
}

// deliveryOutput shows a delivery without its body, which may contain private data.
type deliveryOutput struct {
	ID             string                  `json:"id" format:"uuid"`
	DeliveryID     string                  `json:"delivery_id" doc:"The code host's"`
	Provider       host.Provider           `json:"provider" enum:"git,github,gitea"`
	Event          string                  `json:"event"`
	Action         string                  `json:"action"`
	InstallationID int64                   `json:"installation_id" doc:"0 where the host has none"`
	RepoFullName   string                  `json:"repo_full_name"`
	Status         repohost.DeliveryStatus `json:"status" enum:"received,processing,done,failed,ignored"`
	Attempts       int                     `json:"attempts"`
	Detail         string                  `json:"detail"`
	ReceivedAt     httpapi.Time            `json:"received_at"`
	FinishedAt     *httpapi.Time           `json:"finished_at"`
}

func newDeliveryOutput(d repohost.Delivery) deliveryOutput {
	return deliveryOutput{
		ID: d.ID, DeliveryID: d.DeliveryID, Provider: d.Provider, Event: d.Event, Action: d.Action,
		InstallationID: d.InstallationID,
		RepoFullName:   d.RepoFullName, Status: d.Status, Attempts: d.Attempts, Detail: d.Detail,
		ReceivedAt: httpapi.Time(d.ReceivedAt), FinishedAt: httpapi.NullTime(d.FinishedAt),
	}
}

type deliveriesOutput struct {
	Deliveries []deliveryOutput   `json:"deliveries" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (a API) handleDeliveries(ctx context.Context, in struct{ httpapi.Page }) (deliveriesOutput, error) {
	all, total, err := a.Deliveries(ctx, access.From(ctx).OrgID, in.Rows())
	out := deliveriesOutput{Deliveries: make([]deliveryOutput, len(all)), Pagination: in.Of(total)}
	for i, d := range all {
		out.Deliveries[i] = newDeliveryOutput(d)
	}
	return out, err
}

// DeliveryPath is the path parameter of the routes of one delivery.
type DeliveryPath struct {
	ID string `path:"id" doc:"Id of the delivery, ours"`
}

// handleRedeliver replies before the delivery is processed (202).
func (a API) handleRedeliver(ctx context.Context, in DeliveryPath) (deliveryOutput, error) {
	d, err := a.Redeliver(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return deliveryOutput{}, err
	}
	return newDeliveryOutput(d), nil
}

// webhookInput has the headers by the names that GitHub uses; Gitea sends the same ones.
type webhookInput struct {
	Signature   string `header:"X-Hub-Signature-256" doc:"sha256= and the HMAC of the body in hex"`
	Event       string `header:"X-GitHub-Event"`
	DeliveryID  string `header:"X-GitHub-Delivery"`
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

// formBody is a delivery sent as a form, which code hosts can be configured to do.
type formBody struct {
	Payload string `json:"payload" doc:"The JSON of the delivery"`
}

// webhookOutput tells the sender only that the delivery was stored.
type webhookOutput struct {
	ID     string                  `json:"id" format:"uuid"`
	Status repohost.DeliveryStatus `json:"status" enum:"received,processing,done,failed,ignored"`
}

// HTTPStatus is 202 while there is something left to do, else 200.
func (o webhookOutput) HTTPStatus() int {
	if o.Status == repohost.DeliveryIgnored {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// handleWebhook passes the raw body on: the signature covers its bytes.
func (a API) handleWebhook(ctx context.Context, in webhookInput) (webhookOutput, error) {
	d, err := a.Receive(ctx, repohost.Incoming{
		Signature: in.Signature, Event: in.Event, DeliveryID: in.DeliveryID, ContentType: in.ContentType, Body: in.RawBody,
	})
	return webhookOutput{d.ID, d.Status}, err
}
