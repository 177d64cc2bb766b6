package costs

import (
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/pricing"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service keeps the costs of organisations.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Skills *skills.Service
	// Prices are those of the installation; an organisation's own come before them.
	Prices pricing.Table
	Texts  Texts // may be nil
}
