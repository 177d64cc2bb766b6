package app

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// Routes lists the typed routes that the service answers.
func (a *App) Routes() []httpapi.Route { return a.parts.api.Routes() }

// FillThinDemo is FillDemo with one of so many sessions.
func (a *App) FillThinDemo(ctx context.Context, thin int) error {
	filler := a.demo(io.Discard)
	filler.Thin = thin
	return filler.Fill(ctx)
}

// SweepAudit does what the upkeep does with the audit log.
func (a *App) SweepAudit(ctx context.Context) error { return a.parts.audit.Sweep(ctx) }

// Auth is where tests make people and keys.
func (a *App) Auth() *auth.Service { return a.parts.auth }

// JudgeClock and JudgeDisk are what the doctor says of what a test cannot break.
var (
	JudgeClock = judgeClock
	JudgeDisk  = judgeDisk
)
