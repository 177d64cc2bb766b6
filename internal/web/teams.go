package web

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// handleTeams and the two following serve pages whose forms post to the same
// address.
func (s *Service) handleTeams(v *visit) (answer, error) {
	r, err := s.teamsPage(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_teams", r, err)
}

func (s *Service) handleTeam(v *visit) (answer, error) {
	r, err := s.teamPage(v.Context(), v.Caller, v.Request)
	return settled("settings_team", r, err)
}

func (s *Service) handleDeleteTeam(v *visit) (answer, error) {
	r, err := s.deleteTeam(v.Context(), v.Caller, v.Request)
	return settled("", r, err)
}

// ownsEntry lets the owners of an entry do what their role alone does not allow.
func (s *Service) ownsEntry(ctx context.Context, c access.Caller, id string) (bool, error) {
	return s.Teams.MayAsOwner(ctx, c, id)
}

// handleSetOwners replaces the owners of an entry; an empty field removes them.
func (s *Service) handleSetOwners(v *visit) (answer, error) {
	if err := s.setOwners(v.Context(), v.Caller, v.PathValue("id"), v.FormValue("owners")); err != nil {
		return s.refuseEntry(v, err)
	}
	return redirect(pathTo("registry", v.PathValue("id")), "The owners were set."), nil
}
