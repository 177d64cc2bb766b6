package app

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/notify"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// parts are what the running service holds on to.
type parts struct {
	db        *store.DB
	blobs     blob.Bucket
	queue     *jobs.Queue
	auth      *auth.Service
	skills    *skills.Service
	registry  *registry.Service
	telemetry *telemetry.Service
	alerts    *alerts.Service
	api       *httpapi.API
	handler   http.Handler
}

// wire builds the whole program.
func (a *App) wire(ctx context.Context, db *store.DB, version string) (p parts, err error) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.db = db
	p.auth = &auth.Service{DB: db, PublicURL: a.URL(), Log: a.log.With("in", "auth")}
	if p.blobs, err = a.openBlobs(ctx, p.auth); err != nil {
		return p, err
	}
	if p.queue, err = jobs.New(jobs.Options{
		DB: db, Log: a.log.With("in", "jobs"), Metrics: metrics,
		Workers: a.config.Workers, Drain: time.Duration(a.config.DrainTimeout),
	}); err != nil {
		return p, err
	}
	metrics.MustRegister(&stateCollector{db: db, queue: p.queue, log: a.log})

	p.api = httpapi.New(httpapi.Options{
		DB: db, Auth: p.auth, Metrics: metrics, Version: version, Log: a.log.With("in", "httpapi"),
	})
	p.skills = &skills.Service{DB: db, Window: a.config.MetricsWindow.Days()}
	p.registry = &registry.Service{DB: db, Blobs: p.blobs, Jobs: p.queue, Skills: p.skills, Log: a.log.With("in", "registry")}
	p.registry.Register()
	p.skills.Versions = p.registry
	if p.alerts, err = a.newAlerts(db, p); err != nil {
		return p, err
	}
	p.alerts.Register()
	p.telemetry = &telemetry.Service{
		DB: db, Blobs: p.blobs, Jobs: p.queue, Skills: p.skills, Auth: p.auth, Watcher: p.alerts,
		Retention: time.Duration(a.config.RetentionPrompts), Log: a.log.With("in", "telemetry"),
	}
	p.telemetry.Register()

	p.auth.Mount(p.api)
	p.skills.Mount(p.api)
	p.registry.Mount(p.api)
	p.telemetry.Mount(p.api)
	p.alerts.Mount(p.api)
	p.registry.MountDiscovery(p.api, p.auth)
	p.mountService(metrics, a.log)
	p.scheduleUpkeep()
	p.handler = p.api
	if !a.config.Has(config.Web) {
		p.handler = onlyService(p.api)
	}
	return p, nil
}

func (a *App) openBlobs(ctx context.Context, secrets *auth.Service) (blob.Bucket, error) {
	secret, err := secrets.Secret(ctx, "blob-urls")
	if err != nil {
		return nil, err
	}
	return blob.Open(ctx, blob.Options{
		URL: string(a.config.BlobURL), Dir: filepath.Join(a.config.Data, "blobs"),
		PublicURL: a.URL, Secret: secret, Log: a.log.With("in", "blob"),
	})
}

func (a *App) newAlerts(db *store.DB, p parts) (*alerts.Service, error) {
	web, err := outbound.New(outbound.Options{AllowPrivate: a.config.AllowPrivateTargets})
	if err != nil {
		return nil, err
	}
	sender, err := notify.New(notify.Options{HTTP: web, SMTPURL: string(a.config.SMTPURL), MailFrom: a.config.MailFrom})
	return &alerts.Service{
		DB: db, Jobs: p.queue, Skills: p.skills, Registry: p.registry, Sender: sender, PublicURL: a.URL(),
		Interval: time.Duration(a.config.AlertInterval), AllowPrivate: a.config.AllowPrivateTargets, Log: a.log.With("in", "alerts"),
	}, err
}
