package app

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// Routes lists the typed routes that the service answers.
func (a *App) Routes() []httpapi.Route { return a.parts.api.Routes() }

// Pages lists the pages and forms that the service answers.
func (a *App) Pages() []httpapi.Route { return a.parts.web.Routes() }

// PlainRoutes lists the plain handlers beside them.
func (a *App) PlainRoutes() []httpapi.PlainRoute { return a.parts.api.PlainRoutes() }

// OpenAPI is the document of the typed routes.
func (a *App) OpenAPI() ([]byte, error) { return a.parts.api.OpenAPI() }

// CgroupLimit reads a cgroup's files below a folder.
var CgroupLimit = cgroupLimit

// ShareMemory shares a memory limit out.
var ShareMemory = shareMemory

// NewDrainListener wraps a listener as the service does.
var NewDrainListener = newDrainListener

// Alerts judges rules without waiting for the schedule.
func (a *App) Alerts() *alerts.Service { return a.parts.alerts }

// Jobs counts what is to do.
func (a *App) Jobs() *jobs.Queue { return a.parts.queue }

// Privacy exports and deletes organisations without waiting for jobs.
func (a *App) Privacy() *privacy.Service { return a.parts.privacy }

// Referrers are the capabilities whose rows refer to blobs.
var Referrers = referrers

// Blobs is where archives and the like are.
func (a *App) Blobs() blob.Bucket { return a.parts.blobs }

// DB is the service's database.
func (a *App) DB() *store.DB { return a.parts.db }

// FillThinDemo is FillDemo with one of so many sessions.
func (a *App) FillThinDemo(ctx context.Context, thin int) error {
	filler, err := a.demo(ctx, io.Discard)
	if err != nil {
		return err
	}
	filler.Thin = thin
	return filler.Fill(ctx)
}

// SweepAudit does what the upkeep does with the audit log.
func (a *App) SweepAudit(ctx context.Context) error { return a.parts.audit.Sweep(ctx) }

// Auth is where tests make people and keys.
func (a *App) Auth() *auth.Service { return a.parts.auth }

// APIWords returns what fields and parameters of the API are.
var APIWords = apiWords
