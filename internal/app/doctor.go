package app

import (
	"context"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/app/doctor"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// NewDoctor returns a doctor for the installation that the settings describe.
func NewDoctor(c config.Config) *doctor.Doctor {
	return &doctor.Doctor{
		Config: c,
		Checkers: []doctor.Checker{
			&registry.Service{}, &installations.Service{}, &skills.Service{}, &costs.Service{}, &sessions.Service{},
			&grades.Service{}, &content.Service{}, &signals.Service{},
			&sources.Service{}, &suggestions.Service{}, &runs.Service{},
			&repohost.Service{}, &alerts.Service{}, &events.Service{}, &schedules.Service{},
			&quota.Service{Counts: storedCounts()},
		},
		Referrers:   referrers(),
		OpenBlobs:   func(ctx context.Context) (blob.Bucket, error) { return openBucket(ctx, c) },
		OpenSandbox: func() (sandbox.Sandbox, error) { return newSandbox(c, nil) },
		OpenAgents: func(s sandbox.Sandbox) (*agents.Service, error) {
			return newAgents(c, s, slog.New(slog.DiscardHandler), nil)
		},
		OpenEnvironments: func() (*environments.Service, error) { return newEnvironments(c, nil, nil) },
	}
}
