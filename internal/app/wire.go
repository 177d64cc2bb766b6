package app

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/community"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/host/git"
	"github.com/whetstone-dev/whetstone/internal/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/host/github"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/notify"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
	"github.com/whetstone-dev/whetstone/internal/web"
)

// parts are what the running service holds on to.
type parts struct {
	db          *store.DB
	memory      budgets
	blobs       blob.Bucket
	queue       *jobs.Queue
	auth        *auth.Service
	audit       *audit.Service
	quota       *quota.Service
	skills      *skills.Service
	registry    *registry.Service
	telemetry   *telemetry.Service
	alerts      *alerts.Service
	sources     *sources.Service
	suggestions *suggestions.Service
	suites      *suites.Service
	runs        *runs.Service
	improve     *improve.Service
	repohost    *repohost.Service
	community   *community.Service
	signals     *signals.Service
	proposals   *proposals.Service
	web         *web.Service
	api         *httpapi.API
	handler     http.Handler
}

// wire builds the whole program.
func (a *App) wire(ctx context.Context, db *store.DB, version string) (p parts, err error) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.db, p.memory = db, newBudgets(a.memory)
	p.auth = &auth.Service{DB: db, PublicURL: a.URL(), Seal: a.keyring, Log: a.log.With("in", "auth")}
	p.audit = &audit.Service{DB: db, Retention: time.Duration(a.config.RetentionAudit)}
	if p.blobs, err = a.openBlobs(ctx, p.auth); err != nil {
		return p, err
	}
	if p.queue, err = jobs.New(jobs.Options{
		DB: db, Log: a.log.With("in", "jobs"), Metrics: metrics, Room: a.disk.HasRoom,
		Workers: a.config.Workers, RunWorkers: a.config.RunWorkers, Drain: time.Duration(a.config.DrainTimeout),
	}); err != nil {
		return p, err
	}
	p.quota = &quota.Service{DB: db, Jobs: p.queue, Limits: a.config.Quota, Counts: storedCounts()}
	metrics.MustRegister(&stateCollector{db: db, queue: p.queue, disk: a.disk, log: a.log})
	p.api = httpapi.New(httpapi.Options{
		DB: db, Auth: p.auth, Metrics: metrics, Version: version, Log: a.log.With("in", "httpapi"),
		BodyTimeout: a.timeouts.Body, AnswerTimeout: a.timeouts.Answer,
		Memory: p.memory.bodies, PublicMemory: p.memory.publicBodies, TrustedProxies: a.config.Proxies(), Room: a.disk.HasRoom,
	})
	if err := a.capabilities(ctx, &p); err != nil {
		return p, err
	}
	if err := a.pages(&p); err != nil {
		return p, err
	}
	p.register()
	p.mount()
	p.mountService(metrics, a.log)
	p.scheduleUpkeep()
	p.handler = p.api
	if !a.config.Has(config.Web) {
		p.handler = onlyService(p.api)
	}
	return p, nil
}

// capabilities makes what the service can do, and hands each what it needs of
// the others.
func (a *App) capabilities(ctx context.Context, p *parts) (err error) {
	p.skills = &skills.Service{DB: p.db, Window: a.config.MetricsWindow.Days()}
	files := stored.New(p.memory.work)
	p.registry = &registry.Service{
		DB: p.db, Blobs: p.blobs, Jobs: p.queue, Skills: p.skills, Files: files, Memory: p.memory.work,
		Quota: p.quota, Log: a.log.With("in", "registry"),
	}
	p.skills.Versions = p.registry
	if p.alerts, err = a.newAlerts(p); err != nil {
		return err
	}
	if p.repohost, err = a.newRepohost(ctx, p); err != nil {
		return err
	}
	p.sources = &sources.Service{
		DB: p.db, Blobs: p.blobs, Jobs: p.queue, Skills: p.skills, Repohost: p.repohost, Files: files,
		Limits: skillpkg.DefaultLimits(), Quota: p.quota, Log: a.log.With("in", "sources"),
	}
	p.suites = &suites.Service{
		DB: p.db, Jobs: p.queue, Blobs: p.blobs, Bucket: a.config.Bucket(), Sources: p.sources, Quota: p.quota,
		Log: a.log.With("in", "suites"),
	}
	if p.runs, err = a.newRuns(p); err != nil {
		return err
	}
	p.telemetry = &telemetry.Service{
		DB: p.db, Blobs: p.blobs, Jobs: p.queue, Skills: p.skills, Auth: p.auth,
		Retention: time.Duration(a.config.RetentionPrompts), Quota: p.quota, Log: a.log.With("in", "telemetry"),
	}
	p.suggestions = &suggestions.Service{
		DB: p.db, Jobs: p.queue, Sources: p.sources, Telemetry: p.telemetry,
		Suites: suggestionSuites{p.suites}, Runs: suggestionRuns{p.runs},
	}
	p.telemetry.Watcher = watchers{p.alerts, p.suggestions}
	p.sources.Suggester, p.sources.Dependent, p.runs.Suggester = p.suggestions, p.suggestions, p.suggestions
	return a.contributions(ctx, p)
}

// contributions makes what people outside contribute to.
func (a *App) contributions(ctx context.Context, p *parts) error {
	secret, err := p.auth.Secret(ctx, "contributors")
	if err != nil {
		return err
	}
	p.community = &community.Service{DB: p.db, Quota: p.quota, Secret: secret}
	p.signals = &signals.Service{DB: p.db, Secret: secret, MinContributors: a.config.SignalsMinContributors}
	p.proposals = &proposals.Service{DB: p.db, Jobs: p.queue, Signals: p.signals, Registry: p.registry}
	p.signals.Watcher, p.signals.Proposals = p.proposals, p.proposals
	p.improve = &improve.Service{
		DB: p.db, Jobs: p.queue, Suites: p.suites, Runs: p.runs, Judge: p.runs.Judge, Proposals: p.proposals,
		Log: a.log.With("in", "improve"),
	}
	return nil
}

// pages makes the dashboard.
func (a *App) pages(p *parts) (err error) {
	p.web, err = web.New(web.Parts{
		Auth: p.auth, Audit: p.audit, Quota: p.quota, Overview: &overview.Service{DB: p.db}, Skills: p.skills, Registry: p.registry,
		Telemetry: p.telemetry, Alerts: p.alerts, Sources: p.sources, Suggestions: p.suggestions, Suites: p.suites, Runs: p.runs,
		Improve: p.improve, Repohost: p.repohost, Community: p.community, Signals: p.signals, Proposals: p.proposals, PublicURL: a.URL(), Log: a.log.With("in", "web"),
	})
	return err
}

// storedCounts says how everything that quotas count is counted anew.
func storedCounts() []quota.Count {
	return []quota.Count{registry.Stored(), sources.Stored(), suites.Stored(), telemetry.Stored(), community.Stored()}
}

// register makes the queue run all jobs.
func (p *parts) register() {
	p.quota.Register()
	p.registry.Register()
	p.alerts.Register()
	p.telemetry.Register()
	p.sources.Register()
	p.suggestions.Register()
	p.suites.Register()
	p.runs.Register()
	p.improve.Register()
	p.repohost.Register()
	p.proposals.Register()
}

// mount adds the routes of all capabilities.
func (p *parts) mount() {
	p.auth.Mount(p.api)
	p.audit.Mount(p.api)
	p.quota.Mount(p.api)
	p.skills.Mount(p.api)
	p.registry.Mount(p.api)
	p.telemetry.Mount(p.api)
	p.alerts.Mount(p.api)
	p.sources.Mount(p.api)
	p.suggestions.Mount(p.api)
	p.suites.Mount(p.api)
	p.runs.Mount(p.api)
	p.improve.Mount(p.api)
	p.repohost.Mount(p.api)
	p.community.Mount(p.api)
	p.signals.Mount(p.api)
	p.proposals.Mount(p.api)
	p.registry.MountDiscovery(p.api, p.auth)
	p.web.Mount(p.api)
}

func (a *App) openBlobs(ctx context.Context, secrets *auth.Service) (blob.Bucket, error) {
	// Nothing may be written into a place that a restore is filling.
	if err := checkRestored(ctx, a.config); err != nil {
		return nil, err
	}
	secret, err := secrets.Secret(ctx, "blob-urls")
	if err != nil {
		return nil, err
	}
	return blob.Open(ctx, blob.Options{
		URL: string(a.config.BlobURL), Dir: filepath.Join(a.config.Data, "blobs"),
		PublicURL: a.URL, Secret: secret, Log: a.log.With("in", "blob"),
	})
}

func (a *App) newAlerts(p *parts) (*alerts.Service, error) {
	web, err := outbound.New(outbound.Options{AllowPrivate: a.config.AllowPrivateTargets})
	if err != nil {
		return nil, err
	}
	sender, err := notify.New(notify.Options{HTTP: web, SMTPURL: string(a.config.SMTPURL), MailFrom: a.config.MailFrom})
	return &alerts.Service{
		DB: p.db, Jobs: p.queue, Skills: p.skills, Registry: p.registry, Sender: sender, PublicURL: a.URL(), Seal: a.keyring,
		Interval: time.Duration(a.config.AlertInterval), AllowPrivate: a.config.AllowPrivateTargets, Log: a.log.With("in", "alerts"),
	}, err
}

// newRuns makes the capability that scores skills, with its judge and its
// sandbox. A machine without a sandbox can do all but what needs it.
func (a *App) newRuns(p *parts) (*runs.Service, error) {
	c := a.config
	model, err := judge.New(judge.Options{
		API: c.JudgeAPI, URL: string(c.JudgeURL), Model: c.JudgeModel, Key: string(c.JudgeKey), Concurrency: c.JudgeConcurrency,
	})
	if err != nil {
		return nil, err
	}
	log := a.log.With("in", "runs")
	programs, err := newSandbox(c, log)
	if err != nil {
		return nil, err
	}
	web, err := outbound.New(outbound.Options{AllowPrivate: c.AllowPrivateTargets, MaxRedirects: 3})
	if err != nil {
		return nil, err
	}
	return &runs.Service{
		DB: p.db, Jobs: p.queue, Suites: p.suites, Sources: p.sources, Registry: p.registry,
		Judge: model, Sandbox: programs, Concurrency: c.JudgeConcurrency, Scratch: c.SandboxScratch, Closing: a.closing,
		Packages: &taskpkg.Runner{Sandbox: programs, HTTP: web, Blobs: p.blobs, Dir: c.SandboxScratch, Log: log},
		Log:      log,
	}, nil
}

// newSandbox makes the sandbox of the settings. A nil log hears nothing.
func newSandbox(c config.Config, log *slog.Logger) (sandbox.Sandbox, error) {
	return sandbox.New(sandbox.Options{
		Driver: sandbox.Driver(c.Sandbox), AllowNone: c.SandboxAllowNone, Image: c.SandboxImage, Log: log,
	})
}

func (a *App) newRepohost(ctx context.Context, p *parts) (*repohost.Service, error) {
	secret, err := a.webhookSecret(ctx, p.auth)
	if err != nil {
		return nil, err
	}
	provider, err := a.newHost(secret)
	if err != nil {
		return nil, err
	}
	return &repohost.Service{
		DB: p.db, Jobs: p.queue, Host: provider, Registry: p.registry, Secrets: []string{secret},
		Seal: a.keyring, OperatorClaims: a.config.RepohostClaims == config.ClaimsOperator,
		Interval: time.Duration(a.config.RepohostInterval), PublicURL: a.URL(), Log: a.log.With("in", "repohost"),
	}, nil
}

// webhookSecret is the setting, or one that was made at the first start.
func (a *App) webhookSecret(ctx context.Context, secrets *auth.Service) (string, error) {
	if a.config.RepohostWebhookSecret != "" {
		return string(a.config.RepohostWebhookSecret), nil
	}
	secret, err := secrets.Secret(ctx, "repohost-webhook")
	return hex.EncodeToString(secret), err
}

// newHost makes the provider of the code host that the settings name. What
// the operator names may be private.
func (a *App) newHost(secret string) (host.Host, error) {
	c := a.config
	if c.Repohost == string(host.Git) {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o := git.Options{Dir: git.Dir(c.Data, string(c.RepohostURL)), Program: program, URL: a.URL(), Secret: secret}
		if !a.lock.Held() || !c.Has(config.Web) {
			o.URL = "" // hooks reach the process that has the data folder and answers
		}
		return git.New(o)
	}
	web, err := outbound.New(outbound.Options{AllowPrivate: true, Timeout: time.Minute, MaxBody: host.MaxTarball})
	if err != nil {
		return nil, err
	}
	if c.Repohost == string(host.Gitea) {
		return gitea.New(gitea.Options{URL: string(c.RepohostURL), Token: string(c.RepohostToken), HTTP: web})
	}
	key, err := c.RepohostPrivateKey.PEM()
	if err != nil {
		return nil, err
	}
	return github.New(github.Options{URL: string(c.RepohostURL), AppID: c.RepohostAppID, PrivateKey: key, HTTP: web})
}
