package auth

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A DeviceRequest is a login that waits for somebody to approve it.
type DeviceRequest struct {
	UserCode  string
	ClientID  string // what the program calls itself: nobody has checked it
	CreatedAt time.Time
	ExpiresAt time.Time
}

// WaitingDevice finds the login that waits with a user code. A code that is
// unknown, decided or expired is fault.NotFound.
func (s *Service) WaitingDevice(ctx context.Context, userCode string) (DeviceRequest, error) {
	d, err := waitingDevice(ctx, s.DB, cleanUserCode(userCode), store.Now())
	if fault.Is(err, fault.NotFound) {
		return d, fault.New(fault.NotFound, "No login waits for this code; start the login again")
	}
	return d, err
}

// cleanUserCode takes a code as people type it: in small letters, with or
// without the hyphen.
func cleanUserCode(code string) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	if len(code) == 8 && !strings.Contains(code, "-") {
		code = code[:4] + "-" + code[4:]
	}
	return code
}

// MayApprove reports whether the caller may approve a device login: the login
// gets all that the caller's role gives, so the caller's own key must have it.
func MayApprove(c access.Caller) bool { return !c.Narrowed() }

// AnswerDevice approves or denies a login with the caller's key, as DecideDevice
// does. Whose key was narrowed cannot approve. The login lasts no longer than
// the key, and is revoked with it.
func (s *Service) AnswerDevice(ctx context.Context, c access.Caller, userCode string, approve bool) error {
	if approve && !MayApprove(c) {
		return fault.New(fault.Denied, "Your key has fewer permissions than the role %s, and the login would get all of them; sign in with a key that has them all", c.Role)
	}
	return s.decide(ctx, deviceDecision{
		userCode: cleanUserCode(userCode), user: User{ID: c.UserID, OrgID: c.OrgID, Email: c.Email},
		keyID: &c.KeyID, approve: approve,
	})
}
