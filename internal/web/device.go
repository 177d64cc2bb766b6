package web

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// deviceView is a device login (RFC 8628) that waits for approval.
type deviceView struct {
	Code       string              // input of the form
	Request    *auth.DeviceRequest // nil until a code is entered
	MayApprove bool
	Until      *time.Time // when the caller's key and therefore the login expires
}

// handleDevice asks for a code, or shows the login that has it, so that a person can
// see which program asks. It changes nothing: approving needs the form.
func (s *Service) handleDevice(v *visit) (answer, error) {
	view := deviceView{Code: v.URL.Query().Get("code"), MayApprove: auth.MayApprove(v.Caller)}
	page := show("device", "Approve a login", view)
	if view.Code == "" {
		return page, nil
	}
	request, err := s.Auth.PendingDevice(v.Context(), view.Code)
	if err != nil {
		return page.refused(err)
	}
	// The new key cannot outlive the one that approves it.
	own, err := s.Auth.Key(v.Context(), v.Caller.OrgID, v.Caller.KeyID)
	if err != nil {
		return answer{}, err
	}
	view.Request, view.Until = &request, own.ExpiresAt
	return show("device", "Approve a login", view), nil
}

// handleAnswerDevice approves or denies a login. The program gets a key of the caller.
func (s *Service) handleAnswerDevice(v *visit) (answer, error) {
	code := v.FormValue("code")
	approve := v.FormValue("answer") == "approve"
	if !approve && v.FormValue("answer") != "deny" {
		return answer{}, fault.Invalid("answer", "answer must be approve or deny")
	}
	if err := s.Auth.AnswerDevice(v.Context(), v.Caller, code, approve); err != nil {
		return show("device", "Approve a login", deviceView{Code: code, MayApprove: auth.MayApprove(v.Caller)}).refused(err)
	}
	if approve {
		return redirect("/device", "The login was approved. The program continues automatically."), nil
	}
	return redirect("/device", "The login was denied."), nil
}
