package members

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of members and invitations.
func (s *Service) Mount(a *httpapi.API) {
	const members, invitations = "/api/v1/members", "/api/v1/invitations"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleMembers, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: members,
		Summary: "List the members of the organisation",
	})
	httpapi.Add(a, s.handleSetRole, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: members + "/{user_id}", Also: conflict,
		Summary: "Change the role of a member",
	})
	httpapi.Add(a, s.handleTransfer, httpapi.Route{
		Permission: access.Admin, Role: access.Owner, Method: "POST", Path: members + "/{user_id}/transfer", Also: conflict,
		Summary: "Make a member owner, and yourself an admin",
	})
	httpapi.Add(a, s.handleRemove, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: members + "/{user_id}", Status: http.StatusNoContent, Also: conflict,
		Summary: "Remove a member: keys, sessions and invitations end, what they created stays",
	})
	httpapi.Add(a, s.handleLeave, httpapi.Route{
		// People: a narrowed or machine key must not be able to take its holder out of the
		// organisation.
		Permission: access.Read, People: true, Method: "POST", Path: "/api/v1/me/leave",
		Status: http.StatusNoContent, Also: conflict,
		Summary: "Leave the organisation: your keys, sessions and invitations end",
	})
	httpapi.Add(a, s.handleInvitations, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: invitations,
		Summary: "List the organisation's invitations",
	})
	httpapi.Add(a, s.handleInvite, httpapi.Route{
		Permission: access.Admin, People: true, Method: "POST", Path: invitations, Status: http.StatusCreated, Also: conflict,
		Summary: "Invite a person; the link is shown once and works once, and is sent to the address if there is a mail server",
	})
	httpapi.Add(a, s.handleRevoke, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: invitations + "/{id}", Status: http.StatusNoContent, Also: conflict,
		Summary: "Revoke an invitation immediately",
	})
	httpapi.Add(a, s.handleAccept, httpapi.Route{
		// Public, since the person has no account yet. The token is 256 random bits, so the rate
		// limit only saves queries.
		Public: true, Method: "POST", Path: invitations + "/accept", Status: http.StatusCreated,
		Also:    append(conflict, http.StatusNotFound),
		Limit:   &httpapi.Limit{Requests: 120, Per: time.Minute, By: httpapi.ByAddress},
		Summary: "Accept an invitation without a browser; the first key is shown once",
	})
}

func newMemberOutput(m auth.Member) api.Member {
	out := api.Member{
		UserID: m.ID, Name: m.Name, Email: m.Email, Role: string(m.Role), Kind: "person", CreatedAt: httpapi.Time(m.CreatedAt),
		LastSeenAt: httpapi.NullTime(m.LastSeenAt), RemovedAt: httpapi.NullTime(m.RemovedAt),
	}
	if m.Machine() {
		out.Kind = "machine"
	}
	return out
}

type membersInput struct {
	httpapi.Page
	State string `query:"state" enum:"active,removed" default:"active" doc:"Those who were removed instead, whose names are on what they made"`
}

type membersOutput struct {
	Members    []api.Member       `json:"members" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleMembers(ctx context.Context, in membersInput) (membersOutput, error) {
	page := auth.MemberPage{Removed: in.State == "removed", Page: in.Rows()}
	all, total, err := s.Auth.Members(ctx, access.From(ctx).OrgID, page)
	out := membersOutput{Members: make([]api.Member, len(all)), Pagination: in.Of(total)}
	for i, m := range all {
		out.Members[i] = newMemberOutput(m)
	}
	return out, err
}

type memberID struct {
	UserID string `path:"user_id" format:"uuid"`
}

type setRoleInput struct {
	UserID string `path:"user_id" format:"uuid"`
	Body   struct {
		Role access.Role `json:"role" enum:"viewer,member,admin,owner"`
	}
}

type memberAnswer struct {
	Member api.Member `json:"member"`
}

func (s *Service) handleSetRole(ctx context.Context, in setRoleInput) (out memberAnswer, err error) {
	c := access.From(ctx)
	if _, err := s.Auth.SetRole(ctx, c, in.UserID, in.Body.Role); err != nil {
		return out, err
	}
	// Read again, with the last use, which SetRole doesn't know.
	m, err := s.Auth.Member(ctx, c.OrgID, in.UserID)
	return memberAnswer{newMemberOutput(m)}, err
}

type transferOutput struct {
	Owner  api.Member `json:"owner"`
	Former api.Member `json:"former_owner" doc:"You, now an admin"`
}

func (s *Service) handleTransfer(ctx context.Context, in memberID) (transferOutput, error) {
	owner, former, err := s.Auth.Transfer(ctx, access.From(ctx), in.UserID)
	return transferOutput{newMemberOutput(auth.Member{User: owner}), newMemberOutput(auth.Member{User: former})}, err
}

type removeInput struct {
	UserID  string `path:"user_id" format:"uuid"`
	Cascade bool   `query:"cascade" doc:"Also revoke the keys that were created with theirs: of machines, and of people they invited"`
}

func (s *Service) handleRemove(ctx context.Context, in removeInput) (httpapi.None, error) {
	_, err := s.Auth.Remove(ctx, access.From(ctx), auth.Removal{UserID: in.UserID, Made: in.Cascade})
	return httpapi.None{}, err
}

type leaveInput struct {
	Body struct {
		Email string `json:"email" maxLength:"254" example:"ada@example.org" doc:"Your own address, as a confirmation"`
	}
}

func (s *Service) handleLeave(ctx context.Context, in leaveInput) (httpapi.None, error) {
	return httpapi.None{}, s.Auth.Leave(ctx, access.From(ctx), in.Body.Email)
}

func newInvitationOutput(i Invitation) api.Invitation {
	out := api.Invitation{
		ID: i.ID, Role: string(i.Role), Email: i.Email, State: i.State(), CreatedBy: i.CreatedBy,
		CreatedAt: httpapi.Time(i.CreatedAt),
		ExpiresAt: httpapi.Time(i.ExpiresAt), AcceptedAt: httpapi.NullTime(i.AcceptedAt), AcceptedBy: i.AcceptedBy,
	}
	if m := i.Mail; m != nil {
		out.Mail = &api.InvitationMail{
			Status: string(m.Status), Attempts: m.Attempts, Detail: m.Detail, AttemptedAt: httpapi.NullTime(m.AttemptedAt),
		}
	}
	return out
}

type invitationsOutput struct {
	Invitations []api.Invitation   `json:"invitations" nullable:"false"`
	Pagination  httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleInvitations(ctx context.Context, in struct{ httpapi.Page }) (invitationsOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, in.Rows())
	out := invitationsOutput{Invitations: make([]api.Invitation, len(all)), Pagination: in.Of(total)}
	for i, found := range all {
		out.Invitations[i] = newInvitationOutput(found)
	}
	return out, err
}

type inviteInput struct {
	Body struct {
		Role      access.Role   `json:"role" enum:"viewer,member,admin,owner"`
		Email     string        `json:"email,omitempty" maxLength:"254" example:"bob@example.org" doc:"Binds the invitation to this address; omitted: whoever accepts says it"`
		ExpiresAt *httpapi.Time `json:"expires_at,omitempty" doc:"At most 30 days ahead, and not later than the key that makes it; omitted: in 7 days"`
		ExpiresIn *int          `json:"expires_in,omitempty" minimum:"1" maximum:"2592000" doc:"The same, in seconds"`
	}
}

type inviteOutput struct {
	Invitation api.Invitation `json:"invitation"`
	URL        string         `json:"url" example:"https://whetstone.example.org/invite/inv_..." doc:"It is not shown again"`
	Token      string         `json:"token" example:"inv_..." doc:"The end of url"`
}

func (s *Service) handleInvite(ctx context.Context, in inviteInput) (out inviteOutput, err error) {
	end := (*time.Time)(in.Body.ExpiresAt)
	if in.Body.ExpiresIn != nil {
		if end != nil {
			return out, fault.Invalid("expires_in", "give expires_at or expires_in, not both")
		}
		at := time.Now().Add(time.Duration(*in.Body.ExpiresIn) * time.Second)
		end = &at
	}
	i, token, err := s.Invite(ctx, access.From(ctx), NewInvitation{Role: in.Body.Role, Email: in.Body.Email, ExpiresAt: end})
	return inviteOutput{newInvitationOutput(i), s.Link(token), token}, err
}

type revokeInput struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleRevoke(ctx context.Context, in revokeInput) (httpapi.None, error) {
	return httpapi.None{}, s.Revoke(ctx, access.From(ctx).OrgID, in.ID)
}

type acceptInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"200" example:"inv_..."`
		Name  string `json:"name,omitempty" maxLength:"100" example:"Bob" doc:"Omitted: the part of the address before the @"`
		Email string `json:"email,omitempty" maxLength:"254" example:"bob@example.org" doc:"Required if the invitation names no address"`
	}
}

type acceptOutput struct {
	Organisation string     `json:"organisation"`
	Member       api.Member `json:"member"`
	APIKey       string     `json:"api_key" example:"st_live_..." doc:"It is not shown again"`
}

func (s *Service) handleAccept(ctx context.Context, in acceptInput) (acceptOutput, error) {
	j, err := s.Accept(ctx, Acceptance{Token: in.Body.Token, Name: in.Body.Name, Email: in.Body.Email, KeyName: "first key"})
	return acceptOutput{j.OrgName, newMemberOutput(auth.Member{User: j.User}), j.RawKey}, err
}
