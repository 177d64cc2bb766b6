package web

// handleWebhooks responds to forms with the page itself: a redirect would have to carry
// the secret.
func (s *Service) handleWebhooks(v *visit) (answer, error) {
	view, problem, err := s.webhooksPage(v.Context(), v.Caller, v.Request, v.list)
	page := show("settings_webhooks", "Webhooks", view)
	if err != nil || problem == nil {
		return page, err
	}
	return page.refused(problem)
}
