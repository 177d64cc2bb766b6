package costs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service keeps the costs of organisations.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Skills *skills.Service
}

// A Report is the requests and marks of one request of a user's producer.
type Report struct {
	OrgID, UserID string
	Requests      []Request
	Marks         []Mark
	// Sessions are those whose version or grade may have changed: see
	// skills.Changes. The costs of a session follow it.
	Sessions []skills.Session
}

// Ingest adds a report to the costs, each request and mark once. It must run in
// the transaction that stores the report, after skills.Observe.
func (s *Service) Ingest(context.Context, *store.Tx, Report) error { return nil }
