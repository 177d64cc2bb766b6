package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// API is the service of people and keys with its routes.
type API struct {
	*Service

	keys *keyCache[Key] // by id; made by Mount
}

// Mount adds the routes of keys, device logins and the caller.
func (s API) Mount(a *httpapi.API) {
	s.keys = &keyCache[Key]{}
	// Starting a login writes a row, so its limit is low. Polls are cheap, and a building full of
	// people may share one address.
	starts := &httpapi.Limit{Requests: 60, Per: time.Minute, By: httpapi.ByAddress}
	polls := &httpapi.Limit{Requests: 1200, Per: time.Minute, By: httpapi.ByAddress}
	httpapi.Add(a, s.handleMe, httpapi.Route{
		Method: "GET", Path: "/api/v1/me",
		Summary: "Who this key belongs to, and what it may do",
	})
	httpapi.Add(a, s.handleListKeys, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: "/api/v1/keys",
		Summary: "List the organisation's API keys",
	})
	httpapi.Add(a, s.handleCreateKey, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: "/api/v1/keys", Status: http.StatusCreated,
		Summary: "Create an API key; the raw key is shown once",
	})
	httpapi.Add(a, s.handleRevokeKey, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: "/api/v1/keys/{id}", Status: http.StatusNoContent,
		Also:    []int{http.StatusConflict},
		Summary: "Revoke an API key, its sessions and the logins that it approved",
	})
	httpapi.Add(a, s.handleStartDevice, httpapi.Route{
		// WhenFull: people must be able to log in while the disk is full, in order to make room.
		Public: true, Method: "POST", Path: "/api/v1/device-code", WhenFull: true, Limit: starts,
		Summary: "Start a login without a browser",
	})
	httpapi.Add(a, s.handlePollDevice, httpapi.Route{
		Public: true, Method: "POST", Path: "/api/v1/device-code/poll", WhenFull: true, Limit: polls,
		Summary: "Ask whether a login was approved",
	})
	httpapi.Add(a, s.handlePollDeviceByQuery, httpapi.Route{
		Public: true, Method: "GET", Path: "/api/v1/device-code/poll", Limit: polls,
		Summary: "Ask whether a login was approved",
	})
}

// NewKeyOutput says what of the policy the key does not follow. With the zero Policy nothing is
// violated.
func NewKeyOutput(k Key, p keyrules.Policy) api.Key {
	out := api.Key{
		ID: k.ID, UserID: k.UserID, Name: k.Name, Prefix: k.Prefix,
		CreatedAt: httpapi.Time(k.CreatedAt), LastUsedAt: httpapi.NullTime(k.LastUsedAt),
		ExpiresAt: httpapi.NullTime(k.ExpiresAt), RevokedAt: httpapi.NullTime(k.RevokedAt),
		CreatedByKey: k.CreatedByKey, Login: k.Login, Relay: k.Relay, EntryID: k.EntryID,
		AllowedIPs: k.AllowedIPs.Strings(),
	}
	if k.Permissions != nil { // null stands for all, unlike an empty list
		out.Permissions = make([]string, len(k.Permissions))
		for i, allowed := range k.Permissions {
			out.Permissions[i] = string(allowed)
		}
	}
	out.Violates = k.Violations(p)
	return out
}

type meOutput struct {
	User struct {
		ID    string `json:"id" format:"uuid"`
		Email string `json:"email" example:"ada@example.org"`
		Name  string `json:"name" example:"ada"`
	} `json:"user"`
	Organisation struct {
		ID   string `json:"id" format:"uuid"`
		Name string `json:"name" example:"default"`
	} `json:"organisation"`
	Plan        access.Plan         `json:"plan" enum:"free,pro,team,enterprise"`
	Role        access.Role         `json:"role" enum:"viewer,member,admin,owner"`
	Permissions []access.Permission `json:"permissions" nullable:"false" example:"[\"read\",\"write\"]"`
	Key         api.Key             `json:"key"`
}

func (s API) handleMe(ctx context.Context, _ struct{}) (out meOutput, err error) {
	c := access.From(ctx)
	k, err := s.own(ctx, c)
	if err != nil {
		return out, err
	}
	out.User.ID, out.User.Email, out.User.Name = c.UserID, c.Email, c.Name
	out.Organisation.ID, out.Organisation.Name = c.OrgID, c.OrgName
	out.Plan, out.Role, out.Permissions = c.Plan, c.Role, c.Permissions
	out.Key = NewKeyOutput(k, keyrules.Policy{})
	return out, nil
}

// own is the key that the caller used. That it is valid was checked before; what is said
// of it may be as old as the check, i.e. up to keyCacheTTL.
func (s API) own(ctx context.Context, c access.Caller) (Key, error) {
	if k, ok := s.keys.Get(c.KeyID); ok {
		return k, nil
	}
	asked := time.Now()
	k, err := s.Key(ctx, c.OrgID, c.KeyID)
	if err == nil {
		s.keys.Put(c.KeyID, k, asked)
	}
	return k, err
}

type listKeysOutput struct {
	Keys       []api.Key          `json:"keys" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

type listKeysInput struct {
	httpapi.Page
	ServiceAccountID string `query:"service_account_id" format:"uuid" doc:"Only those of this service account"`
}

// handleListKeys lists everyone's keys: that needs the permission admin, and no raw key is ever in
// a list.
func (s API) handleListKeys(ctx context.Context, in listKeysInput) (listKeysOutput, error) {
	orgID := access.From(ctx).OrgID
	policy, err := keyrules.Load(ctx, s.DB, orgID)
	if err != nil {
		return listKeysOutput{}, err
	}
	keys, total, err := s.KeysOf(ctx, orgID, in.ServiceAccountID, in.Rows())
	out := listKeysOutput{Keys: make([]api.Key, len(keys)), Pagination: in.Of(total)}
	for i, k := range keys {
		out.Keys[i] = NewKeyOutput(k, policy)
	}
	return out, err
}

type createKeyInput struct {
	Body struct {
		Name        string              `json:"name" minLength:"1" maxLength:"100" example:"CI"`
		Permissions []access.Permission `json:"permissions,omitempty" example:"[\"read\",\"registry:push\"]" doc:"Narrows what the key may do"`
		ExpiresAt   *httpapi.Time       `json:"expires_at,omitempty" doc:"Not later than that of the key that makes it, and within the key policy; omitted: as late as these allow"`
		ExpiresIn   *int                `json:"expires_in_days,omitempty" minimum:"1" maximum:"3650" example:"90" doc:"The same, in days"`
		Relay       bool                `json:"relay,omitempty" doc:"For a server that passes signals on: it may name their contributors (user_cohort), and you vouch that each is a person"`
		AllowedIPs  []string            `json:"allowed_ips,omitempty" maxItems:"50" example:"[\"10.0.0.0/8\",\"2001:db8::/32\"]" doc:"Networks from which it works; omitted: those of the key that makes it, if you hold both"`
		AccountID   string              `json:"service_account_id,omitempty" format:"uuid" doc:"The service account that holds it; omitted: you"`
	}
}

type createKeyOutput struct {
	Key    api.Key `json:"key"`
	APIKey string  `json:"api_key" example:"st_live_..." doc:"The raw key; it is not shown again"`
}

func (s API) handleCreateKey(ctx context.Context, in createKeyInput) (out createKeyOutput, err error) {
	b := in.Body
	n := NewKey{Name: b.Name, Permissions: b.Permissions, ExpiresAt: (*time.Time)(b.ExpiresAt), Relay: b.Relay}
	if n.AllowedIPs, err = keyrules.ParseAllowList(b.AllowedIPs); err != nil {
		return out, err
	}
	if b.ExpiresIn != nil {
		if n.ExpiresAt != nil {
			return out, fault.Invalid("expires_in_days", "give expires_at or expires_in_days, not both")
		}
		// The clock is the server's, so that a wrong clock of the client doesn't matter.
		at := store.Now().AddDate(0, 0, *b.ExpiresIn)
		n.ExpiresAt = &at
	}
	var k Key
	if b.AccountID == "" {
		k, out.APIKey, err = s.CreateKeyFor(ctx, access.From(ctx), n)
	} else {
		k, out.APIKey, err = s.CreateServiceKey(ctx, access.From(ctx), b.AccountID, n)
	}
	out.Key = NewKeyOutput(k, keyrules.Policy{})
	return out, err
}

type revokeKeyInput struct {
	ID      string `path:"id" format:"uuid"`
	Cascade bool   `query:"cascade" doc:"Also revoke the keys that were made with it, and those made with these: for a key that was stolen"`
}

func (s API) handleRevokeKey(ctx context.Context, in revokeKeyInput) (httpapi.None, error) {
	return httpapi.None{}, s.RevokeKeyFor(ctx, access.From(ctx), in.ID, in.Cascade)
}

type startDeviceInput struct {
	Body struct {
		ClientID string `json:"client_id" minLength:"1" maxLength:"200" example:"whetstone-cli"`
		DeviceID string `json:"device_id,omitempty" maxLength:"200" example:"laptop-k3v9x2ab" doc:"Identifies the machine: the new key replaces that of its earlier login; without it, none is revoked"`
		Scope    string `json:"scope,omitempty" example:"push read"`
	}
}

type startDeviceOutput struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code" example:"BCDF-GHJK"`
	VerificationURL string `json:"verification_url"`
	ExpiresIn       int    `json:"expires_in" example:"900"`
	Interval        int    `json:"interval" example:"5"`
}

func (s API) handleStartDevice(ctx context.Context, in startDeviceInput) (startDeviceOutput, error) {
	d, err := s.StartDevice(ctx, in.Body.ClientID, in.Body.DeviceID)
	return startDeviceOutput{
		DeviceCode: d.DeviceCode, UserCode: d.UserCode, VerificationURL: s.PublicURL + "/device",
		ExpiresIn: int(d.ExpiresIn.Seconds()), Interval: int(d.Interval.Seconds()),
	}, err
}

type pollDeviceInput struct {
	Body struct {
		DeviceCode string `json:"device_code" minLength:"1" maxLength:"200"`
		ClientID   string `json:"client_id,omitempty"`
	}
}

type pollDeviceOutput struct {
	Status      DeviceStatus `json:"status" enum:"pending,approved,denied,expired"`
	APIKey      string       `json:"api_key,omitempty"`
	CloudUserID string       `json:"cloud_user_id,omitempty"`
	OrgID       string       `json:"org_id,omitempty"`
}

func (s API) handlePollDevice(ctx context.Context, in pollDeviceInput) (pollDeviceOutput, error) {
	r, err := s.PollDevice(ctx, in.Body.DeviceCode)
	return pollDeviceOutput{Status: r.Status, APIKey: r.RawKey, CloudUserID: r.Key.UserID, OrgID: r.Key.OrgID}, err
}

type pollDeviceQuery struct {
	DeviceCode string `query:"device_code" required:"true" maxLength:"200"`
}

func (s API) handlePollDeviceByQuery(ctx context.Context, in pollDeviceQuery) (pollDeviceOutput, error) {
	var body pollDeviceInput
	body.Body.DeviceCode = in.DeviceCode
	return s.handlePollDevice(ctx, body)
}
