package web

import (
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// contentView shows whether content of sessions is stored, and who can read it.
type contentView struct {
	Enabled   bool
	Owner     bool        // the caller may change it
	Readers   []auth.User // users whose role has evidence:read
	Retention string
}

// handleContent shows the setting.
func (s *Service) handleContent(v *visit) (answer, error) {
	view, err := s.contentView(v)
	return show("settings_content", "Content", view), err
}

// contentView reads the setting, the retention and the readers.
func (s *Service) contentView(v *visit) (view contentView, err error) {
	view.Owner, view.Retention = v.Caller.Role == access.Owner, format.Span(s.Evidence.Retention)
	if view.Enabled, err = s.Evidence.Enabled(v.Context(), v.Caller.OrgID); err != nil {
		return view, err
	}
	users, err := s.Auth.Users(v.Context(), v.Caller.OrgID)
	for _, u := range users {
		if access.Allows(u.Role.Permissions(), access.EvidenceRead) {
			view.Readers = append(view.Readers, u)
		}
	}
	return view, err
}

// handleSetContent switches storage on or off, or deletes stored content. The service
// checks that the caller is an owner.
func (s *Service) handleSetContent(v *visit) (answer, error) {
	var done string
	var err error
	switch v.PostFormValue("action") {
	case "on":
		done, err = "Content that is sent on purpose is kept from now on.", s.Evidence.SetEnabled(v.Context(), v.Caller, true)
	case "off":
		done, err = "No more content is kept. What was kept before is still there.",
			s.Evidence.SetEnabled(v.Context(), v.Caller, false)
	case "delete":
		done, err = "All content was deleted.", s.Evidence.DeleteAll(v.Context(), v.Caller)
	default:
		err = fault.Invalid("action", "action must be on, off or delete")
	}
	if err != nil {
		return answer{}, err
	}
	return redirect("/settings/content", done), nil
}
