package web

import (
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func (s *Service) provisioning(v *visit, form provisioningView, problem error) (answer, error) {
	view, err := newProvisioning(v.Context(), s.SCIM, v.Caller, v.list)
	if err != nil {
		return answer{}, err
	}
	view.Name, view.Days, view.Made = form.Name, form.Days, form.Made
	page := show("settings_provisioning", "Provisioning", view)
	if problem != nil {
		return page.refused(problem)
	}
	return page, nil
}

func (s *Service) handleProvisioning(v *visit) (answer, error) {
	return s.provisioning(v, provisioningView{}, nil)
}

// handleCreateSCIMToken responds with the page itself: a redirect would have to carry the
// token.
func (s *Service) handleCreateSCIMToken(v *visit) (answer, error) {
	form := provisioningView{Name: strings.TrimSpace(v.FormValue("name")), Days: strings.TrimSpace(v.FormValue("days"))}
	until, err := expiresIn(form.Days)
	if err != nil {
		return s.provisioning(v, form, err)
	}
	_, raw, err := s.SCIM.CreateToken(v.Context(), v.Caller, form.Name, until)
	if err != nil {
		return s.provisioning(v, form, err)
	}
	return s.provisioning(v, provisioningView{Made: raw}, nil)
}

func (s *Service) handleDeleteSCIMToken(v *visit) (answer, error) {
	err := s.SCIM.Tokens().Delete(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	return redirect("/settings/provisioning", "The token was deleted. The provider that used it can change nothing any more."),
		err
}

func (s *Service) handleSetGroupRole(v *visit) (answer, error) {
	_, err := s.SCIM.SetGroupRole(v.Context(), v.Caller, v.PathValue("id"), access.Role(v.FormValue("role")))
	if err != nil {
		return s.provisioning(v, provisioningView{}, err)
	}
	return redirect("/settings/provisioning", "The role of the group was changed, and those of its members."), nil
}
