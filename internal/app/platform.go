package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// platform is what the capabilities stand on: drivers chosen by the settings. It may use every
// platform package and no capability, but for what it hands to them.
type platform struct {
	version      string
	db           *store.DB
	metrics      *prometheus.Registry
	memory       budgets
	auth         *auth.Service
	audit        *audit.Service
	blobs        blob.Bucket
	links        *blob.Links // the same, with signed URLs that this server serves and can end
	outbound     *metrics.Outbound
	queue        *jobs.Queue
	quota        *quota.Service
	api          *httpapi.API
	sender       *notify.Sender
	judge        *judge.Judge
	sandbox      sandbox.Sandbox
	environments *environments.Service // nil if tasks cannot run in images
	packages     *taskpkg.Runner
	agents       *agents.Service
	host         host.Host
	// targets refuses private addresses, against SSRF, unless the operator allows them.
	targets    *outbound.Client // addresses that people enter
	hookSecret string           // signs the code host's webhooks

	signingTokens []string         // sign them, too, on GitLab
	collector     *outbound.Client // gets our own traces
	identities    *outbound.Client // identity providers, whose addresses come from the operator
	signIns       []byte           // the secret of the cookies of sign-ins with them
	invitations   []byte           // the secret of the links of invitations by mail
	contributors  []byte           // the secret of the pseudonyms of contributors
}

// Parts come before those that need them. It starts nothing: no job and no program runs yet.
func (a *App) openPlatform(ctx context.Context, db *store.DB, version string) (p platform, err error) {
	c := a.config
	p.version = version
	p.db, p.memory, p.metrics = db, newBudgets(a.memory.Runtime), a.metrics
	p.outbound = metrics.NewOutbound(p.metrics)
	if p.queue, err = jobs.New(jobs.Options{
		DB: db, Log: a.logFor("jobs"), Metrics: p.metrics, Tracer: a.tracer, Room: a.disk.HasRoom,
		Workers: c.Workers, RunWorkers: c.RunWorkers, Drain: time.Duration(c.DrainTimeout),
	}); err != nil {
		return p, err
	}
	collector, err := newCollector(c, version, p.outbound.To("audit"))
	if err != nil {
		return p, err
	}
	p.auth = &auth.Service{
		DB: db, Jobs: p.queue, PublicURL: a.URL(), RequireSSO: c.RequireSSO, Seal: a.keyring, Log: a.logFor("auth"),
	}
	p.audit = &audit.Service{DB: db, Jobs: p.queue, Collector: collector, Retention: time.Duration(c.RetentionAudit)}
	if err := a.openBlobs(ctx, &p); err != nil {
		return p, err
	}
	p.metrics.MustRegister(&stateCollector{db: db, queue: p.queue, memory: p.memory, disk: a.disk, tracer: a.tracer, log: a.log})
	p.quota = &quota.Service{DB: db, Jobs: p.queue, Limits: c.Quota, Counts: storedCounts()}
	p.api = httpapi.New(httpapi.Options{
		DB: db, Auth: p.auth, Metrics: p.metrics, Tracer: a.tracer, Log: a.logFor("httpapi"),
		Version: version, PublicURL: c.PublicURL, Tags: apiTags, Examples: apiExamples(), Words: apiWords(),
		BodyTimeout: a.timeouts.Body, AnswerTimeout: a.timeouts.Answer,
		Memory: p.memory.bodies, PublicMemory: p.memory.publicBodies, TrustedProxies: c.Proxies(), Room: a.disk.HasRoom,
	})
	p.targets, err = outbound.New(outbound.Options{AllowPrivate: c.AllowPrivateTargets, Peer: p.outbound.To("webhook")})
	if err != nil {
		return p, err
	}
	if p.sender, err = notify.New(notify.Options{HTTP: p.targets, SMTPURL: string(c.SMTPURL), MailFrom: c.MailFrom}); err != nil {
		return p, err
	}
	// Secrets are those of the settings, which must not come back in what a model says.
	if p.judge, err = judge.New(judge.Options{
		API: c.JudgeAPI, URL: string(c.JudgeURL), Model: c.JudgeModel, Key: string(c.JudgeKey), Concurrency: c.JudgeConcurrency,
		Secrets: c.SecretValues(), Peer: p.outbound.To("judge"),
	}); err != nil {
		return p, err
	}
	if p.sandbox, err = newSandbox(c, a.logFor("sandbox")); err != nil {
		return p, err
	}
	// Redirects are followed, since archives are often served by a CDN.
	fetch, err := outbound.New(outbound.Options{
		AllowPrivate: c.AllowPrivateTargets, MaxRedirects: 3, Peer: p.outbound.To("fetch"),
	})
	if err != nil {
		return p, err
	}
	if p.environments, err = newEnvironments(c, p.sandbox, a.logFor("environments")); err != nil {
		return p, err
	}
	p.packages = &taskpkg.Runner{
		Sandbox: p.sandbox, HTTP: fetch, Blobs: p.blobs, Environments: p.environments, HasTools: c.SandboxTools,
		Dir: c.SandboxScratch, Log: a.logFor("runs"),
	}
	if p.agents, err = newAgents(c, p.sandbox, a.logFor("agents"), p.outbound.To("model")); err != nil {
		return p, err
	}
	if p.hookSecret, err = webhookSecret(ctx, c, p.auth); err != nil {
		return p, err
	}
	if p.signingTokens, err = signingTokens(c); err != nil {
		return p, err
	}
	if p.host, err = a.newHost(p.hookSecret, p.outbound.To("repohost")); err != nil {
		return p, err
	}
	if p.identities, err = outbound.New(outbound.Options{AllowPrivate: true, Peer: p.outbound.To("identity")}); err != nil {
		return p, err
	}
	if p.collector, err = outbound.New(outbound.Options{AllowPrivate: true, Peer: p.outbound.To("traces")}); err != nil {
		return p, err
	}
	if p.signIns, err = p.auth.Secret(ctx, "sign-ins"); err != nil {
		return p, err
	}
	if p.invitations, err = p.auth.Secret(ctx, "invitations"); err != nil {
		return p, err
	}
	p.contributors, err = p.auth.Secret(ctx, "contributors")
	return p, err
}

// logFor names the part in each line, as in=jobs.
func (a *App) logFor(part string) *slog.Logger { return a.log.With("in", part) }

// storedCounts are the recounts of everything that quotas limit. A capability that stores for
// an organisation must be here, or its usage drifts.
func storedCounts() []quota.Count {
	return []quota.Count{
		registry.Stored(), sources.Stored(), suites.Stored(), telemetry.Stored(), community.Stored(), content.Stored(),
	}
}

// openBlobs opens the bucket twice: first to look for the marker of a restore, which needs no
// secret; making one writes to the database.
func (a *App) openBlobs(ctx context.Context, p *platform) error {
	// Nothing may be written to a bucket that a restore is filling, or has left half
	// filled.
	bucket, err := openBucket(ctx, a.config)
	if err != nil {
		return err
	}
	if err := backup.CheckFinished(ctx, bucket); err != nil {
		return err
	}
	secret, err := p.auth.Secret(ctx, "blob-urls")
	if err != nil {
		return err
	}
	o := blob.Options{
		URL: string(a.config.BlobURL), Dir: filepath.Join(a.config.Data, "blobs"),
		PublicURL: a.URL, Secret: secret, Log: a.logFor("blob"),
	}
	if bucket, err = blob.Open(ctx, o); err != nil {
		return err
	}
	// Links must sign for the measured bucket, so that downloads count, too.
	p.blobs = blob.Measured(bucket, metrics.NewBlobs(p.metrics))
	p.links, err = blob.NewLinks(p.blobs, o)
	return err
}

// newCollector returns where the audit log is sent, or nil.
func newCollector(c config.Config, version string, peer *metrics.Peer) (none *audit.Collector, err error) {
	if c.AuditOTLPEndpoint == "" {
		return none, nil
	}
	client, err := outbound.New(outbound.Options{AllowPrivate: true, Peer: peer})
	headers := map[string]string{}
	for name, value := range c.AuditOTLPHeader {
		headers[name] = string(value)
	}
	return &audit.Collector{URL: string(c.AuditOTLPEndpoint), Headers: headers, HTTP: client, Version: version}, err
}

// newSandbox opens the sandbox that the settings name. Where the machine has
// none, everything but task packages and commands works. A nil log discards.
func newSandbox(c config.Config, log *slog.Logger) (sandbox.Sandbox, error) {
	return sandbox.New(sandbox.Options{
		Driver: sandbox.Driver(c.Sandbox), AllowNone: c.SandboxAllowNone, Image: c.SandboxImage, Log: log,
	})
}

// newEnvironments keeps the images of task packages beside the trials, in a folder
// that the programs of a trial can reach. It returns nil if the sandbox has no use
// for them.
func newEnvironments(c config.Config, s sandbox.Sandbox, log *slog.Logger) (none *environments.Service, err error) {
	if sandbox.Driver(c.Sandbox) != sandbox.Bubblewrap {
		return none, nil
	}
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return nil, err
	}
	scratch, err := filepath.EvalSymlinks(cmp.Or(c.SandboxScratch, os.TempDir()))
	if err != nil {
		return nil, fault.Invalid("sandbox-scratch", "--sandbox-scratch cannot be used").Because(err)
	}
	// Installations do not share them: each removes what it does not need.
	digest := sha256.Sum256([]byte(data))
	// The name depends on the data folder only, so a restart finds its images again.
	dir := filepath.Join(scratch, fmt.Sprintf("whetstone-environments-%x", digest[:4]))
	return &environments.Service{
		Builder: &builder.Builder{Dir: dir, Sandbox: s}, Dir: dir, Images: c.EnvironmentsImages, Network: c.EnvironmentsNetwork,
		MaxBytes: int64(c.EnvironmentsMax), Log: log,
	}, nil
}

// newAgents knows the agents and models that the settings name. It starts no
// program.
func newAgents(c config.Config, s sandbox.Sandbox, log *slog.Logger, peer *metrics.Peer) (*agents.Service, error) {
	prices, err := c.Prices()
	if err != nil {
		return nil, err
	}
	models, err := gateway.New(gateway.Options{
		Models: c.Models(), Prices: prices, Secrets: c.SecretValues(), Log: log, Peer: peer,
	})
	if err != nil {
		return nil, err
	}
	commands, err := c.AgentCommands()
	if err != nil {
		return nil, err
	}
	return &agents.Service{
		Sandbox: s, Gateway: models, Dir: c.Agents, Commands: commands, Scratch: c.SandboxScratch, Log: log,
	}, nil
}

// signingTokens are those that the setting has, of which more than one is for a rotation.
func signingTokens(c config.Config) (all []string, err error) {
	for token := range strings.SplitSeq(string(c.RepohostSigningToken), ",") {
		if token = strings.TrimSpace(token); token == "" {
			continue
		}
		if _, err := host.ParseSigningToken(token); err != nil {
			return nil, fmt.Errorf("repohost-signing-token: %w", err)
		}
		all = append(all, token)
	}
	if len(all) > 0 && c.Repohost != string(host.GitLab) {
		return nil, fault.New(fault.Malformed, "repohost-signing-token is for --repohost gitlab only")
	}
	return all, nil
}

// webhookSecret is the setting, or a secret generated at the first start. All replicas get the
// same one from the database.
func webhookSecret(ctx context.Context, c config.Config, secrets *auth.Service) (string, error) {
	if c.RepohostWebhookSecret != "" {
		return string(c.RepohostWebhookSecret), nil
	}
	secret, err := secrets.Secret(ctx, "repohost-webhook")
	return hex.EncodeToString(secret), err
}

// codeHost is the address of the code host's repositories for people; "" for bare
// ones on this machine. It is published, so a user or a password is left out. Identities and
// provenance name the host by it, so it must not depend on how the API is reached.
func codeHost(c config.Config) string {
	if c.Repohost == string(host.Git) {
		return ""
	}
	public := "https://github.com"
	if c.Repohost == string(host.GitLab) {
		public = gitlab.PublicURL
	}
	u, err := url.Parse(cmp.Or(string(c.RepohostURL), public))
	if err != nil {
		return ""
	}
	// The API of github.com, and of GitHub's own servers for one company, has a host of its own.
	if u.Host = strings.ToLower(u.Host); u.Host == "api.github.com" || strings.HasSuffix(u.Host, ".ghe.com") {
		u.Host = strings.TrimPrefix(u.Host, "api.")
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api/v3")
}

// newHost opens the code host that the settings name. Its address comes from
// the operator, so it may be private. The client's MaxBody is that of an archive of a whole
// repository.
func (a *App) newHost(secret string, peer *metrics.Peer) (host.Host, error) {
	c := a.config
	if c.Repohost == string(host.Git) {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o := git.Options{Dir: git.Dir(c.Data, string(c.RepohostURL)), Program: program, URL: a.URL(), Secret: secret}
		if !a.lock.Held() || !c.Has(config.Web) {
			o.URL = "" // only the process that holds the data folder and serves HTTP installs hooks
		}
		return git.New(o)
	}
	client, err := outbound.New(outbound.Options{AllowPrivate: true, Timeout: time.Minute, MaxBody: host.MaxTarball, Peer: peer})
	if err != nil {
		return nil, err
	}
	switch host.Provider(c.Repohost) {
	case host.Gitea:
		return gitea.New(gitea.Options{URL: string(c.RepohostURL), Token: string(c.RepohostToken), HTTP: client})
	case host.GitLab:
		return gitlab.New(gitlab.Options{URL: string(c.RepohostURL), Token: string(c.RepohostToken), HTTP: client})
	case host.Git, host.GitHub:
	}
	key, err := c.RepohostPrivateKey.PEM()
	if err != nil {
		return nil, err
	}
	return github.New(github.Options{URL: string(c.RepohostURL), AppID: c.RepohostAppID, PrivateKey: key, HTTP: client})
}
