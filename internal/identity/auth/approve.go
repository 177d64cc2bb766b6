package auth

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A DeviceRequest is a login that is pending approval.
type DeviceRequest struct {
	UserCode  string
	ClientID  string // what the program calls itself; not verified
	CreatedAt time.Time
	ExpiresAt time.Time
}

// PendingDevice looks a pending login up by its user code. A code that is
// unknown, decided or expired is fault.NotFound. Looking a code up tells nothing but what its
// program calls itself, and a person has to be signed in to get here.
func (s *Service) PendingDevice(ctx context.Context, userCode string) (DeviceRequest, error) {
	d, err := pendingDevice(ctx, s.DB, normaliseUserCode(userCode), store.Now())
	if fault.Is(err, fault.NotFound) {
		return d, fault.New(fault.NotFound, "No login waits for this code; start the login again")
	}
	return d, err
}

// normaliseUserCode accepts a code as people type it, e.g. "bcdfghjk" for
// "BCDF-GHJK". The alphabet has no characters that look alike, so nothing else needs to be
// corrected.
func normaliseUserCode(code string) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	if len(code) == 8 && !strings.Contains(code, "-") {
		code = code[:4] + "-" + code[4:]
	}
	return code
}

// MayApprove reports whether the caller may approve a device login. The login
// gets all permissions of the caller's role, so the caller's own key must have
// them all. Otherwise a narrowed key could make itself a full one by approving a login of its own.
func MayApprove(c access.Caller) bool { return !c.Narrowed() }

// AnswerDevice approves or denies a login with the caller's key. A narrowed key
// cannot approve. The login's key lasts no longer than the caller's, and is
// revoked with it.
func (s *Service) AnswerDevice(ctx context.Context, c access.Caller, userCode string, approve bool) error {
	// An approval says that a person is at the keyboard.
	if c.ServiceAccount {
		return fault.New(fault.Denied, "A service account cannot approve logins")
	}
	if approve && !MayApprove(c) {
		return fault.New(fault.Denied, "Your key has fewer permissions than the role %s, and the login would get all of them; "+
			"sign in with a key that has them all", c.Role)
	}
	return s.decide(ctx, deviceDecision{
		userCode: normaliseUserCode(userCode), user: User{ID: c.UserID, OrgID: c.OrgID, Email: c.Email},
		keyID: &c.KeyID, approve: approve,
	})
}
