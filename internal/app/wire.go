package app

import (
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/clawhub"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/gitrepo"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/mcpserver"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/deliver/sets"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/scim"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp/grpc"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/resolve"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/checks"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/watch/incidents"
	"github.com/whetstone-dev/whetstone/internal/web"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// parts are the platform and the capabilities on it.
type parts struct {
	platform
	members       *members.Service
	events        *events.Service
	signIn        *signin.Service
	scim          *scim.Service
	accounts      *serviceaccounts.Service
	privacy       *privacy.Service
	skills        *skills.Service
	curate        *curate.Service
	costs         *costs.Service
	report        *report.Service
	sessions      *sessions.Service
	evidence      *content.Service
	registry      *registry.Service
	release       *release.Service
	resolve       *resolve.Service
	requirements  *requirements.Service
	teams         *teams.Service
	catalog       *catalog.Service
	clawhub       *clawhub.Service
	mcp           *mcpserver.Service
	tokens        *tokens.Service
	publishers    *publishers.Service
	checks        *checks.Service
	incidents     *incidents.Service
	installations *installations.Service
	sets          *sets.Service
	telemetry     *telemetry.Service
	alerts        *alerts.Service
	repohost      *repohost.Service
	sources       *sources.Service
	grades        *grades.Service
	suites        *suites.Service
	runs          *runs.Service
	trials        *trials.Service
	comparisons   *comparisons.Service
	schedules     *schedules.Service
	gates         *gates.Service
	approvals     *approvals.Service
	hostReviews   *approvals.HostReviews
	attestations  *attestations.Service
	suggestions   *suggestions.Service
	community     *community.Service
	signals       *signals.Service
	proposals     *proposals.Service
	apply         *apply.Service
	improve       *improve.Service
	unattended    *unattended.Service
	web           *web.Service
	handler       http.Handler
}

// wire builds the capabilities, from the lowest to the highest. The hooks by
// which a lower one reports to a higher one are set at the end.
func (a *App) wire(on platform) (p *parts, err error) {
	c, db, queue, log := a.config, on.db, on.queue, a.logFor
	p = &parts{platform: on, handler: grpc.Handler(on.api)}
	prices, err := c.Prices()
	if err != nil {
		return nil, err
	}
	files := stored.New(on.memory.work)
	p.accounts = &serviceaccounts.Service{DB: db, Auth: on.auth}
	p.members = &members.Service{
		DB: db, Auth: on.auth, PublicURL: a.URL(), Jobs: queue, Mailer: on.sender, Secret: on.invitations,
	}
	p.events = &events.Service{
		DB: db, Jobs: queue, Sender: on.sender, Seal: a.keyring, PublicURL: a.URL(), AllowPrivate: c.AllowPrivateTargets,
		Log: log("events"),
	}
	p.signIn = &signin.Service{
		DB: db, Auth: on.auth, Keys: oidc.NewKeys(on.identities), HTTP: on.identities, Providers: c.Providers(),
		PublicURL: a.URL(), Secret: on.signIns, Log: log("signin"),
	}
	p.scim = &scim.Service{DB: db, Auth: on.auth, PublicURL: a.URL(), Log: log("scim")}
	p.privacy = &privacy.Service{DB: db, Blobs: on.blobs, Jobs: queue, Auth: on.auth, Log: log("privacy")}
	p.costs = &costs.Service{DB: db, Jobs: queue, Prices: prices, Texts: catalog.Texts{DB: db}}
	p.skills = &skills.Service{
		DB: db, Jobs: queue, Window: c.MetricsWindow.Days(), Costs: p.costs,
		Versions: registry.History{}, Installations: installations.History{}, Plugins: plugins.History{},
	}
	p.curate = &curate.Service{DB: db, Jobs: queue, Skills: p.skills}
	ownership := teams.Ownership{DB: db}
	p.registry = &registry.Service{
		DB: db, Blobs: on.blobs, Jobs: queue, Skills: p.skills, Files: files, Quota: on.quota, Log: log("registry"),
		Owners: ownership.Shown, Owns: ownership.MayAsOwner,
	}
	p.resolve = &resolve.Service{DB: db}
	p.requirements = &requirements.Service{DB: db, Jobs: queue, Archives: archives{p.registry}, Log: log("registry")}
	p.teams = &teams.Service{DB: db, Auth: on.auth, Registry: p.registry}
	p.installations = &installations.Service{DB: db, Blobs: on.links, Jobs: queue, Registry: p.registry}
	p.report = &report.Service{DB: db, Costs: p.costs}
	p.sets = &sets.Service{DB: db, Teams: p.teams, Installations: p.installations, Listings: p.report}
	p.tokens = &tokens.Service{Kind: tokens.Catalog, DB: db, Log: log("catalog"), Sets: p.sets}
	p.catalog = &catalog.Service{
		Registry: p.registry, Tokens: p.tokens, Sets: p.sets, Keys: on.auth, Memory: on.memory.work, PublicURL: a.URL(),
		Log: log("catalog"),
	}
	p.publishers = &publishers.Service{
		DB: db, Auth: on.auth, Registry: p.registry, Keys: oidc.NewKeys(on.targets), PublicURL: a.URL(),
		AllowPrivate: c.AllowPrivateTargets, Log: log("publishers"),
	}
	reasons := grades.Reasons{DB: db, Seal: a.keyring, Log: log("grades")}
	p.evidence = &content.Service{
		DB: db, Jobs: queue, Seal: a.keyring, Quota: on.quota, Quotations: reasons, Retention: time.Duration(c.RetentionPrompts),
	}
	p.sessions = &sessions.Service{
		DB: db, Skills: p.skills, Costs: p.costs, Registry: p.registry, Content: p.evidence, Grades: reasons,
	}
	p.telemetry = &telemetry.Service{
		DB: db, Blobs: on.blobs, Jobs: queue, Skills: p.skills, Costs: p.costs, Sessions: p.sessions,
		Curate: p.curate, Evidence: p.evidence, Auth: on.auth, Quota: on.quota,
		Retention: time.Duration(c.RetentionPrompts), Log: log("telemetry"),
	}
	p.repohost = &repohost.Service{
		DB: db, Jobs: queue, Host: on.host, Registry: p.registry, Secrets: []string{on.hookSecret}, Seal: a.keyring,
		SigningTokens: on.signingTokens,
		Claims:        claims.Policy{OperatorOnly: c.RepohostClaims == config.ClaimsOperator},
		Interval:      time.Duration(c.RepohostInterval),
		PublicURL:     a.URL(), Guard: guard{p.teams}, Owners: p.teams, Log: log("repohost"),
	}
	p.sources = &sources.Service{
		DB: db, Blobs: on.blobs, Jobs: queue, Skills: p.skills, Repohost: p.repohost, Files: files,
		Limits: skillpkg.DefaultLimits(), Quota: on.quota, Guard: gates.Guard{Owners: p.teams}, Log: log("sources"),
	}
	p.grades = &grades.Service{
		DB: db, Jobs: queue, Skills: p.skills, Sessions: p.sessions, Costs: p.costs, Registry: p.registry, Sources: p.sources,
		Judge: on.judge, Seal: a.keyring, Counter: p.telemetry, Transcripts: p.evidence, Log: log("grades"),
	}
	p.suites = &suites.Service{
		DB: db, Blobs: on.blobs, Jobs: queue, Sources: p.sources, Bucket: c.Bucket(), Quota: on.quota,
		Memory: on.memory.work, Environments: on.environments, Log: log("suites"),
	}
	p.runs = &runs.Service{
		DB: db, Jobs: queue, Suites: p.suites, Sources: p.sources, Registry: p.registry, Judge: on.judge, Sandbox: on.sandbox,
		Packages: on.packages, Agents: on.agents, Recordings: &recording.Store{DB: db, Blobs: on.blobs},
		Prices: p.costs, Concurrency: c.JudgeConcurrency, Scratch: c.SandboxScratch,
		Catalogs: p.report,
		Closing:  a.closing, Log: log("runs"),
	}
	p.trials = &trials.Service{Runs: p.runs, Recordings: p.runs.Recordings, Jobs: queue}
	p.comparisons = &comparisons.Service{
		DB: db, Jobs: queue, Suites: p.suites, Runs: p.runs, Trials: p.trials, Judge: on.judge, Log: log("comparisons"),
	}
	p.schedules = &schedules.Service{DB: db, Jobs: queue, Runs: p.runs, Log: log("schedules")}
	tally := approvals.Tally{Approvers: p.teams}
	p.gates = &gates.Service{
		DB: db, Jobs: queue, Registry: p.registry, Sources: p.sources, Suites: p.suites, Runs: p.runs, Approvals: tally,
		Log: log("gates"),
	}
	p.attestations = &attestations.Service{
		DB: db, Jobs: queue, Registry: p.registry, Gates: p.gates, Seal: a.keyring, PublicURL: a.URL(), CodeHost: codeHost(c),
		Log: log("attestations"),
	}
	p.clawhub = &clawhub.Service{
		DB: db, Blobs: on.blobs, Jobs: queue, Catalog: p.catalog, Registry: p.registry, Installations: p.installations,
		Attestations: p.attestations, Auth: on.auth, Quota: on.quota, Memory: on.memory.work, PublicURL: a.URL(),
		Log: log("clawhub"),
	}
	p.checks = &checks.Service{
		DB: db, Jobs: queue, Registry: p.registry, Gates: p.gates, Sources: p.sources, Suites: p.suites, Repohost: p.repohost,
		PublicURL: a.URL(), Log: log("checks"),
	}
	p.suggestions = &suggestions.Service{
		DB: db, Jobs: queue, Sources: p.sources, Suites: p.suites, Sessions: p.sessions,
	}
	p.community = &community.Service{DB: db, Quota: on.quota, Secret: on.contributors}
	p.signals = &signals.Service{DB: db, Secret: on.contributors, MinContributors: c.SignalsMinContributors}
	p.proposals = &proposals.Service{
		DB: db, Jobs: queue, Signals: p.signals, Registry: p.registry, Sources: p.sources, Owns: p.teams.MayAsOwner,
	}
	p.apply = &apply.Service{
		DB: db, Jobs: queue, Proposals: p.proposals, Registry: p.registry, Gates: p.gates, Repohost: p.repohost,
		Interval: time.Duration(c.RepohostInterval), PublicURL: a.URL(), Log: log("proposals"),
	}
	versions := versionWatchers{p.checks, p.apply, p.attestations}
	p.approvals = &approvals.Service{
		DB: db, Jobs: queue, Registry: p.registry, Gates: p.gates, Tally: tally, Watcher: versions,
	}
	p.hostReviews = &approvals.HostReviews{
		DB: db, Jobs: queue, Registry: p.registry, Approvals: p.approvals, Repohost: p.repohost, CodeHost: codeHost(c),
		Log: log("approvals"),
	}
	p.release = &release.Service{
		DB: db, Registry: p.registry, Owns: p.teams.MayAsOwner, Clients: p.installations, Watcher: versions,
		Approvals: approvals.Promoting{Tally: tally}, Gates: p.gates, Rollbacks: p.apply,
	}
	p.alerts = &alerts.Service{
		DB: db, Jobs: queue, Skills: p.skills, Registry: p.registry, Release: p.release, Sender: on.sender, PublicURL: a.URL(),
		Seal: a.keyring, Owners: p.teams, Interval: time.Duration(c.AlertInterval), AllowPrivate: c.AllowPrivateTargets,
		Log: log("alerts"),
	}
	p.incidents = &incidents.Service{
		DB: db, Jobs: queue, Alerts: p.alerts, Repohost: p.repohost, Installations: p.installations,
		Interval: time.Duration(c.AlertInterval), PublicURL: a.URL(), Log: log("incidents"),
	}
	p.improve = &improve.Service{
		DB: db, Jobs: queue, Sources: p.sources, Suites: p.suites, Runs: p.runs, Judge: on.judge,
		Proposals: p.proposals, Log: log("improve"),
	}
	p.unattended = &unattended.Service{
		DB: db, Jobs: queue, Skills: p.skills, Registry: p.registry, Sources: p.sources, Suites: p.suites, Gates: p.gates,
		Improve: p.improve, Apply: p.apply, Log: log("unattended"),
	}
	p.mcp = &mcpserver.Service{
		DB: db, Catalog: p.catalog, Registry: p.registry, Auth: on.auth, Gates: p.gates, Telemetry: p.telemetry,
		Sessions: p.sessions,
		Grades:   p.grades, Memory: on.memory.work, PublicURL: a.URL(), Version: on.version, Log: log("mcp"),
	}
	p.web, err = web.New(web.Parts{
		Privacy: p.privacy, Auth: on.auth, SignIn: p.signIn, Members: p.members, SCIM: p.scim, Events: p.events,
		Audit: on.audit, Quota: on.quota, Tokens: p.tokens, Publishers: p.publishers,
		Overview: &overview.Service{DB: db}, Skills: p.skills,
		Curate: p.curate, Costs: p.costs,
		Report:   p.report,
		Sessions: p.sessions, Evidence: p.evidence, Grades: p.grades, Registry: p.registry, Release: p.release,
		Requirements:  p.requirements,
		Teams:         p.teams,
		Accounts:      p.accounts,
		Installations: p.installations,
		Locks:         web.LockChecker{Registry: p.resolve, PublicURL: a.URL()},
		Telemetry:     p.telemetry,
		Alerts:        p.alerts, Incidents: p.incidents, Sources: p.sources, Suggestions: p.suggestions,
		Suites: p.suites, Runs: p.runs,
		Trials: p.trials, Comparisons: p.comparisons, Gates: p.gates, Attestations: p.attestations,
		Approvals: p.approvals,
		Improve:   p.improve, Unattended: p.unattended, Apply: p.apply,
		Repohost: p.repohost, Checks: p.checks, Community: p.community, Signals: p.signals, Proposals: p.proposals,
		PublicURL: a.URL(), Log: log("web"),
	})
	if err != nil {
		return nil, err
	}

	p.alerts.OnRolledBack, p.gates.OnGateChanged = p.incidents, versions
	p.registry.OnEntryDeleted = entryWatchers{p.installations, p.sets, p.checks, p.gates}
	p.registry.OnPush, p.registry.OnVersion = admission{p.publishers, p.gates}, p.attestations
	p.repohost.OnReport, p.repohost.OnVersionRerun, p.repohost.OnRerun = p.checks, p.checks, p.checks
	p.repohost.OnPull, p.repohost.OnReviews = pullWatchers{p.checks, p.apply}, p.hostReviews
	p.repohost.OnReconcile, p.repohost.OnDisconnect = p.checks, p.checks
	p.runs.OnEnded = runWatchers{p.attestations, p.suggestions, scheduleWatcher{p.schedules, p.alerts}}
	p.sessions.OnReported, p.skills.OnAttributed = p.grades, p.sessions
	p.signals.OnSignals, p.signals.OnOverview = p.proposals, p.proposals
	p.sources.OnSourceChanged, p.sources.OnSourceDeleted = p.suggestions, p.suggestions
	p.telemetry.OnChanged = watchers{p.alerts, p.suggestions}
	on.links.Allow = p.registry.CheckLink

	for _, s := range []interface{ Register() }{
		p.events, on.audit, p.members, p.approvals, p.privacy,
		p.hostReviews,
		on.quota, p.skills, p.curate, p.costs, p.evidence, p.registry, p.requirements, p.installations,
		p.clawhub, p.alerts, p.incidents,
		p.telemetry, p.sources,
		p.suggestions, p.grades, p.suites, p.runs, p.trials, p.comparisons, p.schedules, p.gates,
		p.attestations, p.improve, p.unattended,
		p.repohost, p.checks, p.proposals,
		p.apply,
	} {
		s.Register()
	}
	shop := &marketplace.Service{Catalog: p.catalog, Memory: on.memory.work}
	for _, s := range []interface{ Mount(a *httpapi.API) }{
		p.events,
		p.scim,
		p.accounts, &keyrules.Service{DB: db},
		auth.API{Service: on.auth},
		p.members, on.audit, on.quota, on.agents, p.skills, p.curate, p.costs, p.registry, p.release,
		p.installations, p.sets, p.catalog, p.tokens,
		p.privacy,
		p.clawhub, p.mcp,
		p.resolve,
		p.report,
		p.publishers,
		p.requirements,
		p.approvals,
		p.teams,
		p.sessions, p.evidence, p.telemetry, p.alerts, p.incidents, p.sources, p.grades, p.suggestions,
		p.suites, p.runs, p.trials, p.comparisons, p.schedules, p.gates,
		p.attestations, p.improve, p.unattended,
		shop, &gitrepo.Service{Catalog: p.catalog, Marketplace: shop, Memory: on.memory.work},
		repohost.API{Service: p.repohost},
		p.checks,
		p.community, p.signals, p.proposals, p.apply, p.web,
	} {
		s.Mount(on.api)
	}
	p.mountService(a.log, a.admin != nil)
	p.scheduleUpkeep()
	if !c.Has(config.Web) {
		p.handler = onlyService(on.api)
	}
	return p, nil
}
