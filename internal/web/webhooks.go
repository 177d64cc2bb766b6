package web

import "github.com/whetstone-dev/whetstone/internal/web/hooks"

// handleWebhooks responds to forms with the page itself: a redirect would have to carry
// the secret.
func (s *Service) handleWebhooks(v *visit) (answer, error) {
	view, problem, err := hooks.Pages{Events: s.Events}.Handle(v.Context(), v.Caller, v.Request, v.list)
	page := show("settings_webhooks", "Webhooks", view)
	if err != nil || problem == nil {
		return page, err
	}
	return page.refused(problem)
}
