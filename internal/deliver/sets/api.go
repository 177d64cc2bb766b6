package sets

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// Mount adds the routes of sets. Everyone may read which skills a team should have; who may
// write makes sets, and admins and owners change them.
func (s *Service) Mount(a *httpapi.API) {
	const path = "/api/v1/sets"
	conflict := []int{http.StatusConflict}
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: path,
		Summary: "List the organisation's sets of skills, by name",
	})
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: path, Status: http.StatusCreated, Also: conflict,
		Summary: "Make a set of skills that teams or projects should have",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: path + "/{id}",
		Summary: "Get a set",
	})
	httpapi.Add(a, s.handleReplace, httpapi.Route{
		Permission: access.Admin, Owns: s.MayChange, Method: "PUT", Path: path + "/{id}", Also: conflict,
		Summary: "Replace a set; its owners may",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Owns: s.MayChange, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Delete a set; its owners may. Tokens that are bound to it alone open nothing from then on",
	})
	httpapi.Add(a, s.handleCoverage, httpapi.Route{
		Permission: access.Read, Plan: access.Team, Method: "GET", Path: path + "/{id}/coverage",
		Summary: "Who of a set's teams has it, by machine",
	})
}

type listInput struct {
	Name       string `query:"name" maxLength:"64" doc:"Only the set of this name"`
	Mine       bool   `query:"mine" doc:"Only sets of the caller's teams"`
	Repository string `query:"repository" maxLength:"500" doc:"Only sets that checkouts of this repository should have, e.g. acme/docs; groups may be nested"`
	Cursor     string `query:"cursor" maxLength:"64" doc:"The next_cursor of an answer, for the sets after it"`
	Limit      int    `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"Sets in an answer"`
}

type listOutput struct {
	Sets       []api.Set `json:"sets" nullable:"false" doc:"By name"`
	NextCursor *string   `json:"next_cursor" doc:"Where the next answer begins; null at the end"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (out listOutput, err error) {
	c := access.From(ctx)
	f := Filter{Name: in.Name, Repository: in.Repository, After: in.Cursor, Limit: in.Limit}
	if in.Mine {
		f.UserID = c.UserID
	}
	all, more, err := s.List(ctx, c.OrgID, f)
	if err != nil {
		return out, err
	}
	if more {
		out.NextCursor = &all[len(all)-1].Name
	}
	out.Sets, err = s.Outputs(ctx, c.OrgID, all)
	return out, err
}

// setAnswer wraps a set, like all replies of the API.
type setAnswer struct {
	Set api.Set `json:"set" doc:"With the versions that it gives"`
}

type createInput struct {
	Body api.NewSet
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (setAnswer, error) {
	set, err := s.Create(ctx, access.From(ctx), NewOf(in.Body))
	if err != nil {
		return setAnswer{}, err
	}
	return s.answer(ctx, set)
}

// SetPath is the path parameter of the routes of one set.
type SetPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Service) handleGet(ctx context.Context, in SetPath) (setAnswer, error) {
	set, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return setAnswer{}, err
	}
	return s.answer(ctx, set)
}

type replaceInput struct {
	SetPath
	Body api.NewSet
}

func (s *Service) handleReplace(ctx context.Context, in replaceInput) (setAnswer, error) {
	set, err := s.Replace(ctx, access.From(ctx).OrgID, in.ID, NewOf(in.Body))
	if err != nil {
		return setAnswer{}, err
	}
	return s.answer(ctx, set)
}

func (s *Service) handleDelete(ctx context.Context, in SetPath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type coverageInput struct {
	SetPath
	Cursor string `query:"cursor" maxLength:"2048" doc:"The next_cursor of an answer, for the machines after it"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Machines in an answer"`
}

func (s *Service) handleCoverage(ctx context.Context, in coverageInput) (out api.SetCoverage, err error) {
	c, err := s.Coverage(ctx, access.From(ctx).OrgID, in.ID, in.Cursor, in.Limit)
	if err != nil {
		return out, err
	}
	return c.Output(), nil
}

// Output is a coverage as the API has it.
func (c Coverage) Output() api.SetCoverage {
	out := api.SetCoverage{Coverage: make([]api.SetMachine, len(c.Machines)), Complete: c.Complete, Of: c.Of}
	for i, m := range c.Machines {
		out.Coverage[i] = api.SetMachine{
			Person: api.SetPerson{ID: m.UserID, Name: m.Person}, Device: orNull(m.Device), Missing: m.Missing, Behind: m.Behind,
			Extra: m.Extra,
		}
	}
	out.NextCursor = orNull(c.Next)
	return out
}

// NewOf converts a set as people ask for it.
func NewOf(b api.NewSet) New {
	n := New{
		Name: b.Name, Description: b.Description, Teams: b.Teams, Repositories: b.Repositories, Required: b.Required,
	}
	for _, e := range b.Entries {
		wanted := NewEntry{EntryID: e.EntryID, Name: e.Name}
		if e.Range != nil {
			wanted.Range = *e.Range
		}
		n.Entries = append(n.Entries, wanted)
	}
	if b.Owners != nil {
		n.Owners = &teams.Selection{Users: b.Owners.Users, Teams: b.Owners.Teams}
	}
	return n
}

func (s *Service) answer(ctx context.Context, set Set) (setAnswer, error) {
	all, err := s.Outputs(ctx, set.OrgID, []Set{set})
	if err != nil {
		return setAnswer{}, err
	}
	return setAnswer{all[0]}, nil
}

// Outputs converts sets for the API, with what agents list of them.
func (s *Service) Outputs(ctx context.Context, orgID string, all []Set) ([]api.Set, error) {
	versions := make([][]string, len(all))
	for i, set := range all {
		versions[i] = set.versions()
	}
	listings, err := s.Listings.ListingsOf(ctx, orgID, versions)
	if err != nil {
		return nil, err
	}
	out := make([]api.Set, len(all))
	for i, set := range all {
		out[i] = api.Set{
			ID: set.ID, Name: set.Name, Description: orNull(set.Description), Entries: make([]api.SetEntry, len(set.Entries)),
			Teams: append([]string{}, set.Teams...), Repositories: append([]string{}, set.Repositories...),
			Required: set.Required,
			Owners: api.SetOwnersList{
				Users: append([]string{}, set.Owners.Users...), Teams: append([]string{}, set.Owners.Teams...),
			},
			Catalogue: listings[i], CreatedAt: httpapi.Time(set.CreatedAt), UpdatedAt: httpapi.Time(set.UpdatedAt),
		}
		for k, e := range set.Entries {
			out[i].Entries[k] = api.SetEntry{
				EntryID: e.EntryID, Name: e.Pick.Name, Range: orNull(e.Range), Version: orNull(e.Pick.Version),
				ContentHash: orNull(e.Pick.Hash), Unsatisfied: e.Pick.VersionID == "",
			}
		}
	}
	return out, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
