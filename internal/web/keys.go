package web

// settled turns the result of a settings form into an answer: a redirect after a
// change, or the page, with the problem if the form was refused. template is "" for
// forms whose problems have no page: they become error pages.
func settled(template string, r formResult, err error) (answer, error) {
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

// handleKeys serves the page, and the form on it that creates a key.
func (s *Service) handleKeys(v *visit) (answer, error) {
	r, err := s.keysPage(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_keys", r, err)
}

func (s *Service) handleRevokeKey(v *visit) (answer, error) {
	r, err := s.revokeKey(v.Context(), v.Caller, v.Request)
	return settled("", r, err)
}

func (s *Service) handleSetKeyPolicy(v *visit) (answer, error) {
	r, err := s.setKeyPolicy(v.Context(), v.Caller, v.Request)
	return settled("settings_keys", r, err)
}

func (s *Service) handleAccounts(v *visit) (answer, error) {
	r, err := s.serviceAccounts(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_accounts", r, err)
}

func (s *Service) handleServiceAccount(v *visit) (answer, error) {
	r, err := s.serviceAccount(v.Context(), v.Caller, v.Request, v.list)
	return settled("settings_account", r, err)
}

func (s *Service) handleDeleteAccount(v *visit) (answer, error) {
	r, err := s.deleteAccount(v.Context(), v.Caller, v.Request)
	return settled("", r, err)
}
