package costs

import (
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service keeps the costs of organisations.
type Service struct {
	DB   *store.DB
	Jobs *jobs.Queue
	// Prices are those of the installation; an organisation's own come before them.
	Prices pricing.Table
	Texts  Texts // may be nil
}
