package teams

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Mount adds the routes of teams and of the owners of an entry. Everyone may read who
// owns what; teams are managed by admins, and owners of an entry may also set its owners.
func (s *Service) Mount(a *httpapi.API) {
	const path, owners = "/api/v1/teams", "/api/v1/registry/{id}/owners"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: path,
		Summary: "List the organisation's teams",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path, Status: http.StatusCreated, Also: conflict,
		Summary: "Create a team",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: path + "/{id}",
		Summary: "Get a team with its members",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: path + "/{id}", Also: conflict,
		Summary: "Change the name or the description of a team",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Delete a team; what it owned is no longer owned by it",
	})
	httpapi.Add(a, s.handleSetMembers, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: path + "/{id}/members",
		Summary: "Replace the members of a team",
	})
	httpapi.Add(a, s.handleAddMember, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: path + "/{id}/members/{user_id}", Also: conflict,
		Summary: "Add a member to a team",
	})
	httpapi.Add(a, s.handleRemoveMember, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}/members/{user_id}", Status: http.StatusNoContent,
		Summary: "Take a member out of a team",
	})
	httpapi.Add(a, s.handleOwners, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: owners,
		Summary: "Who owns an entry",
	})
	httpapi.Add(a, s.handleSetOwners, httpapi.Route{
		Permission: access.Admin, Owns: s.MayAsOwner, Method: "PUT", Path: owners,
		Summary: "Set the owners of an entry; none at all leaves it to the CODEOWNERS file of its repository",
	})
}

// newTeamOutput converts a team for the API.
func newTeamOutput(t Team) api.Team {
	return api.Team{
		ID: t.ID, Name: t.Name, Slug: t.Slug, Description: t.Description, MemberCount: t.Size,
		CreatedAt: httpapi.Time(t.CreatedAt), UpdatedAt: httpapi.Time(t.UpdatedAt),
	}
}

// newPeopleOutput never returns nil: the API promises an array.
func newPeopleOutput(people []Person) []api.Owner {
	all := make([]api.Owner, len(people))
	for i, p := range people {
		all[i] = api.Owner{UserID: p.ID, Name: p.Name, Email: p.Email}
	}
	return all
}

// listOutput is a page of teams, without their members.
type listOutput struct {
	Teams      []api.Team         `json:"teams" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in struct{ httpapi.Page }) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, in.Rows())
	out := listOutput{Teams: make([]api.Team, len(all)), Pagination: in.Of(total)}
	for i, t := range all {
		out.Teams[i] = newTeamOutput(t)
	}
	return out, err
}

type createInput struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"100" example:"Data Platform"`
		Description string `json:"description,omitempty" maxLength:"500"`
	}
}

// teamAnswer wraps a team, like all replies of the API.
type teamAnswer struct {
	Team api.Team `json:"team"`
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (teamAnswer, error) {
	t, err := s.Create(ctx, access.From(ctx), in.Body.Name, in.Body.Description)
	return teamAnswer{newTeamOutput(t)}, err
}

// TeamPath is the path parameter of the routes of one team.
type TeamPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleGet(ctx context.Context, in TeamPath) (api.TeamDetail, error) {
	t, members, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return api.TeamDetail{Team: newTeamOutput(t), Members: newPeopleOutput(members)}, err
}

type updateInput struct {
	TeamPath
	Body struct {
		Name        *string `json:"name,omitempty" minLength:"1" maxLength:"100"`
		Description *string `json:"description,omitempty" maxLength:"500"`
	}
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (teamAnswer, error) {
	t, err := s.Update(ctx, access.From(ctx).OrgID, in.ID, Change{in.Body.Name, in.Body.Description})
	return teamAnswer{newTeamOutput(t)}, err
}

func (s *Service) handleDelete(ctx context.Context, in TeamPath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type setMembersInput struct {
	TeamPath
	Body struct {
		Users []string `json:"users" nullable:"false" maxItems:"500" doc:"Ids of all its members"`
	}
}

func (s *Service) handleSetMembers(ctx context.Context, in setMembersInput) (api.TeamDetail, error) {
	t, members, err := s.SetMembers(ctx, access.From(ctx).OrgID, in.ID, in.Body.Users)
	return api.TeamDetail{Team: newTeamOutput(t), Members: newPeopleOutput(members)}, err
}

// memberPath is the path of one membership.
type memberPath struct {
	TeamPath
	UserID string `path:"user_id" format:"uuid"`
}

func (s *Service) handleAddMember(ctx context.Context, in memberPath) (api.TeamDetail, error) {
	t, members, err := s.AddMembers(ctx, access.From(ctx).OrgID, in.ID, in.UserID)
	return api.TeamDetail{Team: newTeamOutput(t), Members: newPeopleOutput(members)}, err
}

func (s *Service) handleRemoveMember(ctx context.Context, in memberPath) (httpapi.None, error) {
	return httpapi.None{}, s.RemoveMember(ctx, access.From(ctx).OrgID, in.ID, in.UserID)
}

type ownersAnswer struct {
	Owners api.Owners `json:"owners"`
}

// newOwnersOutput converts owners for the API. File is reported even when it doesn't
// count, so that people see what a manual setting overrides.
func newOwnersOutput(o Owners) api.Owners {
	out := api.Owners{
		Source: string(o.Source), Users: newPeopleOutput(o.Users), Teams: make([]api.Team, len(o.Teams)),
		Unknown: append([]string{}, o.Unknown...),
	}
	for i, t := range o.Teams {
		out.Teams[i] = newTeamOutput(t)
	}
	if f := o.File; f != nil {
		out.Codeowners = &api.OwnersFile{
			Repository: f.Repository, Commit: f.Commit, Path: f.Path, Line: f.Line, Pattern: f.Pattern, Owners: f.Owners,
			ReadAt: httpapi.Time(f.ReadAt),
		}
	}
	return out
}

// Shown returns the owners of an entry for GET /registry/{id}, which the registry answers.
func (o Ownership) Shown(ctx context.Context, e registry.Entry) (api.Owners, error) {
	owners, err := ownersOf(ctx, o.DB, e.OrgID, e.ID)
	return newOwnersOutput(owners), err
}

func (s *Service) handleOwners(ctx context.Context, in registry.EntryPath) (ownersAnswer, error) {
	o, err := s.OwnersOf(ctx, access.From(ctx).OrgID, in.ID)
	return ownersAnswer{newOwnersOutput(o)}, err
}

type setOwnersInput struct {
	registry.EntryPath
	Body struct {
		Users []string `json:"users,omitempty" nullable:"false" maxItems:"50" doc:"Ids of members"`
		Teams []string `json:"teams,omitempty" nullable:"false" maxItems:"50" doc:"Ids of teams"`
	}
}

func (s *Service) handleSetOwners(ctx context.Context, in setOwnersInput) (ownersAnswer, error) {
	o, err := s.SetOwners(ctx, access.From(ctx).OrgID, in.ID, Selection{in.Body.Users, in.Body.Teams})
	return ownersAnswer{newOwnersOutput(o)}, err
}
