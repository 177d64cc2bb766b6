package members

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
)

// SetBackoff replaces the waits between attempts to send a mail.
func SetBackoff(s *Service, b delivery.Backoff) { s.testBackoff = b }

// SendMail runs the job of an invitation's mail.
func SendMail(ctx context.Context, s *Service, orgID, id string) error {
	return s.sendMail(ctx, orgID, id)
}
