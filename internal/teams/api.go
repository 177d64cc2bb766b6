package teams

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry"
)

// Mount adds the routes of teams and owners.
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

type teamOutput struct {
	ID          string       `json:"id" format:"uuid"`
	Name        string       `json:"name" example:"Data Platform"`
	Slug        string       `json:"slug" example:"data-platform" doc:"Of the name; @org/slug in CODEOWNERS files"`
	Description string       `json:"description"`
	MemberCount int          `json:"member_count"`
	CreatedAt   httpapi.Time `json:"created_at"`
	UpdatedAt   httpapi.Time `json:"updated_at"`
}

func newTeamOutput(t Team) teamOutput {
	return teamOutput{t.ID, t.Name, t.Slug, t.Description, t.Size, httpapi.Time(t.CreatedAt), httpapi.Time(t.UpdatedAt)}
}

type personOutput struct {
	UserID string `json:"user_id" format:"uuid"`
	Name   string `json:"name" example:"Ada"`
	Email  string `json:"email" example:"ada@example.org"`
}

func newPeopleOutput(people []Person) []personOutput {
	all := make([]personOutput, len(people))
	for i, p := range people {
		all[i] = personOutput{p.ID, p.Name, p.Email}
	}
	return all
}

type listOutput struct {
	Teams      []teamOutput       `json:"teams" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in struct{ httpapi.Page }) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, in.PerPage, in.Offset())
	out := listOutput{Teams: make([]teamOutput, len(all)), Pagination: in.Of(total)}
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

type teamAnswer struct {
	Team teamOutput `json:"team"`
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (teamAnswer, error) {
	t, err := s.Create(ctx, access.From(ctx), in.Body.Name, in.Body.Description)
	return teamAnswer{newTeamOutput(t)}, err
}

// TeamPath names a team in a path.
type TeamPath struct {
	ID string `path:"id" format:"uuid"`
}

type detailOutput struct {
	Team    teamOutput     `json:"team"`
	Members []personOutput `json:"members" nullable:"false" doc:"By address"`
}

func (s *Service) handleGet(ctx context.Context, in TeamPath) (detailOutput, error) {
	t, members, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return detailOutput{newTeamOutput(t), newPeopleOutput(members)}, err
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

func (s *Service) handleSetMembers(ctx context.Context, in setMembersInput) (detailOutput, error) {
	t, members, err := s.SetMembers(ctx, access.From(ctx).OrgID, in.ID, in.Body.Users)
	return detailOutput{newTeamOutput(t), newPeopleOutput(members)}, err
}

type memberPath struct {
	TeamPath
	UserID string `path:"user_id" format:"uuid"`
}

func (s *Service) handleAddMember(ctx context.Context, in memberPath) (detailOutput, error) {
	t, members, err := s.AddMember(ctx, access.From(ctx).OrgID, in.ID, in.UserID)
	return detailOutput{newTeamOutput(t), newPeopleOutput(members)}, err
}

func (s *Service) handleRemoveMember(ctx context.Context, in memberPath) (httpapi.None, error) {
	return httpapi.None{}, s.RemoveMember(ctx, access.From(ctx).OrgID, in.ID, in.UserID)
}

type ownersAnswer struct {
	Owners ownersOutput `json:"owners"`
}

type ownersOutput struct {
	Source  Source         `json:"source" enum:"manual,codeowners,none" doc:"Those that were set count; else those of the file"`
	Users   []personOutput `json:"users" nullable:"false"`
	Teams   []teamOutput   `json:"teams" nullable:"false"`
	Unknown []string       `json:"unknown" nullable:"false" example:"@acme/docs" doc:"Owners of the file that are no member and no team"`
	File    *fileOutput    `json:"codeowners" doc:"What the file says; null without one"`
}

type fileOutput struct {
	Repository string       `json:"repository" example:"acme/skills"`
	Commit     string       `json:"commit"`
	Path       string       `json:"path" example:".github/CODEOWNERS"`
	Line       int          `json:"line" doc:"The line that applies; 0: none does"`
	Pattern    string       `json:"pattern" example:"/skills/"`
	Owners     []string     `json:"owners" nullable:"false" doc:"As they are written"`
	ReadAt     httpapi.Time `json:"read_at"`
}

func newOwnersAnswer(o Owners) ownersAnswer {
	out := ownersOutput{Source: o.Source, Users: newPeopleOutput(o.Users), Teams: make([]teamOutput, len(o.Teams)), Unknown: o.Unknown}
	for i, t := range o.Teams {
		out.Teams[i] = newTeamOutput(t)
	}
	if out.Unknown == nil {
		out.Unknown = []string{}
	}
	if f := o.File; f != nil {
		out.File = &fileOutput{f.Repository, f.Commit, f.Path, f.Line, f.Pattern, f.Owners, httpapi.Time(f.ReadAt)}
	}
	return ownersAnswer{out}
}

func (s *Service) handleOwners(ctx context.Context, in registry.EntryPath) (ownersAnswer, error) {
	o, err := s.OwnersOf(ctx, access.From(ctx).OrgID, in.ID)
	return newOwnersAnswer(o), err
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
	return newOwnersAnswer(o), err
}
