package web

import "github.com/whetstone-dev/whetstone/internal/web/people"

// settled is the answer to a request whose page a package of its own prepares.
func settled(template string, r people.Result, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if r.To != "" {
		return redirect(r.To, r.Message), nil
	}
	page := show(template, r.Title, r.View)
	if r.Problem != nil {
		return page.refused(r.Problem)
	}
	return page, nil
}

func (s *Service) handleKeys(v *visit) (answer, error) {
	r, err := s.people().Keys(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_keys", r, err)
}

func (s *Service) handleRevokeKey(v *visit) (answer, error) {
	r, err := s.people().RevokeKey(v.Context(), v.Caller, v.Request)
	return settled("", r, err)
}

func (s *Service) handleSetKeyPolicy(v *visit) (answer, error) {
	r, err := s.people().SetKeyPolicy(v.Context(), v.Caller, v.Request)
	return settled("settings_keys", r, err)
}

func (s *Service) handleAccounts(v *visit) (answer, error) {
	r, err := s.people().Accounts(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_accounts", r, err)
}

func (s *Service) handleServiceAccount(v *visit) (answer, error) {
	r, err := s.people().Account(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_account", r, err)
}

func (s *Service) handleDeleteAccount(v *visit) (answer, error) {
	r, err := s.people().DeleteAccount(v.Context(), v.Caller, v.Request)
	return settled("", r, err)
}
