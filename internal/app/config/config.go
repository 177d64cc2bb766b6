// Package config has the settings of the server: one struct with defaults and
// validation. Each setting is a flag (--database-url), an environment variable
// (WHETSTONE_DATABASE_URL) and a line of the configuration file
// (database-url = "..."). A flag overrides the environment, which overrides the
// file, which overrides the default.
package config

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
)

// Database is the location of the data, which is all that the administration
// commands need.
type Database struct {
	Data          string `default:"./data" placeholder:"DIR" help:"Folder of the embedded database, blobs and repositories."`
	DatabaseURL   URL    `placeholder:"URL" help:"postgres://... ; SQLite in --data when empty."`
	DatabaseConns int    `default:"16" placeholder:"N" help:"Maximum number of database connections."`
}

// Config has all settings of the server. --help shows the help texts.
type Config struct {
	Database `embed:""`

	Addr      string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where to listen; port 0 picks a free one."`
	BlobURL   URL    `placeholder:"URL" help:"s3://bucket?region=..&endpoint=.. ; files in --data when empty."`
	PublicURL string `placeholder:"URL" help:"Base of links and download URLs; from --addr when empty."`
	// TrustedProxies is validated by Check and parsed by Proxies.
	TrustedProxies []string `placeholder:"CIDR,..." help:"Networks of trusted proxies, whose X-Forwarded-For gives the client's address; none when empty."`

	DatabaseReadURL URL      `name:"database-read-url" placeholder:"URL" help:"Replica of --database-url that pages and lists are read from while it is up to date; none when empty."`
	DatabaseReadLag Duration `default:"500ms" placeholder:"500ms" help:"How long a read waits for that replica at most, before it asks --database-url."`

	AdminAddr string `placeholder:"HOST:PORT" help:"Second address, for operators only: metrics, which then are not at --addr, and profiles (pprof); none when empty."`

	// With one process both; in a cluster, workers can be scaled apart from the web.
	Roles []string `default:"web,worker" placeholder:"ROLE,..." help:"What this process does: web, worker or both."`

	Plan         access.Plan `default:"team" enum:"free,pro,team,enterprise" help:"Plan of the organisation made at first start: ${enum}."`
	SecretKey    Secret      `placeholder:"KEY,..." help:"Base64 of the 32 bytes that seal secrets in the database; several open, the first seals; secret.key in --data when empty."`
	BootstrapKey Secret      `placeholder:"KEY" help:"API key made at first start; random when empty."`

	SignIn `embed:""`

	SMTPURL  URL    `name:"smtp-url" placeholder:"URL" help:"smtp://user:password@host:port of the mail server for alerts."`
	MailFrom string `placeholder:"ADDRESS" help:"Sender of the alert mails."`

	JudgeAPI   string `name:"judge-api" default:"builtin" enum:"openai,anthropic,builtin" help:"Wire format of the model that judges: ${enum}."`
	JudgeURL   URL    `placeholder:"URL" help:"Base URL of the model's API."`
	JudgeModel string `placeholder:"NAME" help:"Model that judges."`
	JudgeKey   Secret `placeholder:"KEY" help:"API key of the model."`

	JudgeConcurrency int `default:"8" placeholder:"N" help:"Concurrent requests to the model."`

	Agents       string            `placeholder:"DIR" help:"Folder with programs of coding agents, searched before PATH."`
	AgentCommand map[string]string `mapsep:"none" placeholder:"NAME=JSON" help:"Agent of your own, as {\"argv\":[\"prog\",\"{instruction}\"],\"skills_dir\":..,\"env\":..,\"transcript\":..}; repeatable."`
	Model        map[string]URL    `placeholder:"NAME=URL" help:"Base URL of a model that agents may ask; repeatable."`
	ModelAPI     map[string]string `name:"model-api" placeholder:"NAME=API" help:"Wire format of a model: anthropic, openai, responses or gemini; repeatable."`
	ModelKey     Secrets           `placeholder:"NAME=KEY" help:"API key of a model; repeatable."`

	Sandbox          string `default:"bubblewrap" enum:"bubblewrap,docker,none" help:"What runs the programs of eval cases: ${enum}."`
	SandboxAllowNone bool   `help:"Let --sandbox none run them with the rights of the service."`
	SandboxImage     string `placeholder:"IMAGE" help:"Image that --sandbox docker makes containers of."`
	SandboxScratch   string `placeholder:"DIR" help:"Folder in which these programs run; other users must be able to enter it if the service runs as root; the system's temporary folder when empty."`
	SandboxTools     bool   `help:"The sandbox has the tools that scripts of task packages install: also run scripts that would need the network to install them."`

	EnvironmentsMax     quota.Bytes `default:"20GiB" placeholder:"BYTES" help:"Total space for the images of task packages, in --sandbox-scratch."`
	EnvironmentsImages  string      `placeholder:"DIR" help:"Folder with archives of base images: that of debian:12 is debian_12.tar."`
	EnvironmentsNetwork bool        `help:"Let builds of images use the network, to pull images and to install packages."`

	Repohost              string `default:"git" enum:"git,github,gitea,gitlab" help:"Code host: ${enum}."`
	RepohostURL           URL    `placeholder:"URL" help:"Base URL of the code host, or the folder of the bare repositories."`
	RepohostAppID         int64  `placeholder:"N" help:"Id of the code host's app."`
	RepohostPrivateKey    Secret `placeholder:"PEM" help:"Private key of the app: PEM, or the path of a PEM file."`
	RepohostToken         Secret `placeholder:"TOKEN" help:"Access token of the code host."`
	RepohostWebhookSecret Secret `placeholder:"SECRET" help:"Secret that signs the code host's deliveries; made at first start when empty."`
	RepohostSigningToken  Secret `placeholder:"TOKEN" help:"Signing token of GitLab's webhooks, whsec_...; two with a comma between them while you replace it."`

	RepohostClaims   string   `default:"first" enum:"first,operator" help:"Which organisation may bind an unassigned account of the code host: the first that does, while there is one organisation, or only the one named with repohost allow: ${enum}."`
	RepohostInterval Duration `default:"15m" placeholder:"15m" help:"How often branches and tags are compared with what was published."`

	AllowPrivateTargets bool `help:"Allow private addresses in users' URLs."`

	AlertInterval    Duration `default:"60s" placeholder:"60s" help:"How often alerts are evaluated."`
	MetricsWindow    Duration `default:"30d" placeholder:"30d" help:"Window of the skill metrics."`
	PriceFile        string   `placeholder:"FILE" help:"JSON with prices of models, which come before the built-in ones."`
	RetentionPrompts Duration `default:"90d" placeholder:"90d" help:"How long raw prompts are kept."`
	RetentionAudit   Age      `default:"0" placeholder:"0" help:"How long the audit log is kept; 0 keeps it for ever."`

	AuditOTLPEndpoint URL     `name:"audit-otlp-endpoint" placeholder:"URL" help:"Where every entry of the audit log is sent as an OTLP log record, e.g. http://127.0.0.1:4318/v1/logs; nowhere when empty."`
	AuditOTLPHeader   Secrets `name:"audit-otlp-header" placeholder:"NAME=VALUE" help:"Header of these requests, e.g. Authorization=Bearer ...; repeatable."`

	Traces `embed:""`

	SignalsMinContributors int `default:"3" placeholder:"N" help:"Minimum number of contributors for a figure from signals to be shown; 1 shows all."`

	Quota       quota.Limits `default:"free=1GiB,pro=20GiB,team=100GiB,enterprise=unlimited" placeholder:"PLAN=BYTES,..." help:"Storage limit per organisation, by plan; other plans keep their default."`
	DiskReserve quota.Bytes  `default:"512MiB" placeholder:"BYTES" help:"Free space of --data below which only deletes and sign-ins are served; a twentieth of the disk if that is less; 0 is none."`

	Workers      int      `default:"4" placeholder:"N" help:"Concurrent jobs, without eval runs."`
	RunWorkers   int      `default:"4" placeholder:"N" help:"Concurrent eval runs; one organisation gets at most all but one."`
	DrainTimeout Duration `default:"15s" placeholder:"15s" help:"How long a stop waits for requests and jobs."`
	SlowQuery    Age      `default:"0" placeholder:"200ms" help:"Log database statements that take longer, without their values; 0 logs none."`
	LogFormat    string   `default:"text" enum:"text,json" help:"Log format: ${enum}."`
	LogLevel     string   `default:"info" enum:"debug,info,warn,error" help:"Lowest level that is logged: ${enum}."`
}

// ClaimsOperator is the value of repohost-claims with which the operator assigns
// every account of the code host to an organisation.
const ClaimsOperator = "operator"

// The roles of a process.
const (
	Web    = "web"
	Worker = "worker"
)

// Bucket is the name of the service's own bucket in s3:// references. Suites name files of it,
// e.g. "s3://BUCKET/..."; which of them an organisation may read is decided there.
func (c *Config) Bucket() string {
	u, err := url.Parse(string(c.BlobURL))
	if err != nil || u.Host == "" {
		return "local"
	}
	return u.Host
}

// Proxies returns the trusted proxies, without those that Check refuses. They are what
// X-Forwarded-For is believed from; see httpapi.
func (c *Config) Proxies() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range c.TrustedProxies {
		if p, err := parseNetwork(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// parseNetwork parses a CIDR, or an address as a network of one.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(text)
}

// headerName is narrower than RFC 9110's token, which allows characters that no real header
// has.
var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

// Has reports whether the process has the role.
func (c *Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// Check validates all settings and reports every problem with the setting's name.
// It is not called Validate, which kong would call and show only the first problem.
func (c *Config) Check() error {
	issues := c.check()
	bad := func(setting, format string, args ...any) {
		issues = append(issues, fault.At(setting, setting+" "+format, args...))
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		bad("addr", "must be HOST:PORT, like 127.0.0.1:8080")
	}
	if _, _, err := net.SplitHostPort(c.AdminAddr); c.AdminAddr != "" && err != nil {
		bad("admin-addr", "must be HOST:PORT, like 127.0.0.1:9090, or empty")
	}
	if c.BlobURL != "" && !c.BlobURL.hasScheme("s3") {
		bad("blob-url", "must be s3://BUCKET?region=..&endpoint=.. or empty for files in --data")
	}
	if c.PublicURL != "" && !URL(c.PublicURL).hasScheme("http", "https") {
		bad("public-url", "must be http://... or https://...")
	}
	if c.SMTPURL != "" && !c.SMTPURL.hasScheme("smtp", "smtps") {
		bad("smtp-url", "must be smtp://user:password@host:port or smtps://...")
	}
	if c.JudgeURL != "" && !c.JudgeURL.hasScheme("http", "https") {
		bad("judge-url", "must be http://... or https://...")
	}
	if c.AuditOTLPEndpoint != "" && !c.AuditOTLPEndpoint.hasScheme("http", "https") {
		bad("audit-otlp-endpoint", "must be http://... or https://..., with the path of logs, like /v1/logs")
	}
	for _, name := range slices.Sorted(maps.Keys(c.AuditOTLPHeader)) {
		if !headerName.MatchString(name) || strings.ContainsAny(string(c.AuditOTLPHeader[name]), "\r\n\x00") {
			bad("audit-otlp-header", "must be NAME=VALUE; %q is no name of a header, or its value has a line break", name)
		}
		if c.AuditOTLPEndpoint == "" {
			bad("audit-otlp-header", "needs audit-otlp-endpoint")
		}
	}
	issues = append(issues, c.checkTraces()...)
	issues = append(issues, c.checkReplica()...)
	for _, text := range c.TrustedProxies {
		// Trusting everybody lets each client choose its own address, and with it escape rate
		// limits.
		if p, err := parseNetwork(text); err != nil || p.Bits() == 0 {
			bad("trusted-proxies", "must be networks like 10.0.0.0/8; %q is none, or is the whole internet", text)
		}
	}
	for _, role := range c.Roles {
		if role != Web && role != Worker {
			bad("roles", "must be web, worker or both; %q is neither", role)
		}
	}
	if _, err := c.Prices(); err != nil {
		bad("price-file", "must be a file of prices: %s", err)
	}
	if len(c.Roles) == 0 {
		bad("roles", "must be web, worker or both")
	}
	if c.BootstrapKey != "" && auth.CheckRawKey(string(c.BootstrapKey)) != nil {
		bad("bootstrap-key", "must be st_live_ or st_test_ and 43 letters and digits")
	}
	// The error says what is wrong with its form, never the key.
	if _, err := seal.New(string(c.SecretKey)); c.SecretKey != "" && err != nil {
		bad("secret-key", "is not right: %s", err)
	}
	if c.Sandbox == "none" && !c.SandboxAllowNone {
		bad("sandbox", "none runs foreign programs with the rights of the service; "+
			"say --sandbox-allow-none as well if you want that")
	}
	if c.Sandbox == "docker" && c.SandboxImage == "" {
		bad("sandbox-image", "must name an image for --sandbox docker")
	}
	issues = append(issues, c.checkModels()...)
	issues = append(issues, c.checkSignIn()...)
	if c.JudgeConcurrency < 1 || c.JudgeConcurrency > 1000 {
		bad("judge-concurrency", "must lie between 1 and 1000")
	}
	if c.SignalsMinContributors < 1 || c.SignalsMinContributors > 100 {
		bad("signals-min-contributors", "must lie between 1 and 100")
	}
	if c.Workers < 1 || c.Workers > 1000 {
		bad("workers", "must lie between 1 and 1000")
	}
	if c.RunWorkers < 1 || c.RunWorkers > 1000 {
		bad("run-workers", "must lie between 1 and 1000")
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// Prices returns the prices of the price file and the built-in ones after them. The first price
// that fits a model counts.
func (c *Config) Prices() (pricing.Table, error) {
	if c.PriceFile == "" {
		return pricing.Embedded(), nil
	}
	models, err := pricing.Load(c.PriceFile)
	return pricing.Embedded().Before(models), err
}

// URL is the database URL for store.Open. The form "sqlite:PATH" is also accepted as a setting,
// which the help doesn't mention.
func (d *Database) URL() string {
	if d.DatabaseURL != "" {
		return string(d.DatabaseURL)
	}
	return "sqlite:" + filepath.Join(d.Data, "whetstone.db")
}

func (d *Database) check() []fault.Issue {
	var issues []fault.Issue
	if d.DatabaseURL != "" && !d.DatabaseURL.hasScheme("postgres", "postgresql", "sqlite") {
		issues = append(issues, fault.At("database-url",
			"database-url must be postgres://... or empty for SQLite in --data"))
	}
	// One connection would deadlock: a transaction is open while another query runs.
	if d.DatabaseConns < 2 || d.DatabaseConns > 1000 {
		issues = append(issues, fault.At("database-conns", "database-conns must lie between 2 and 1000"))
	}
	return issues
}

// hasScheme reports whether the URL is complete and has one of the schemes. "sqlite:" has a
// path instead of a host.
func (u URL) hasScheme(schemes ...string) bool {
	if rest, ok := strings.CutPrefix(string(u), "sqlite:"); ok {
		return slices.Contains(schemes, "sqlite") && rest != ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || !slices.Contains(schemes, parsed.Scheme) {
		return false
	}
	// The folder of a Unix socket is a parameter, e.g. postgres://u@/w?host=/run/postgresql.
	return parsed.Host != "" || strings.HasPrefix(parsed.Scheme, "postgres") && parsed.Query().Get("host") != ""
}

func (c *Config) checkReplica() (issues []fault.Issue) {
	const name = "database-read-url"
	if lag := time.Duration(c.DatabaseReadLag); lag < 10*time.Millisecond || lag > time.Minute {
		issues = append(issues, fault.At("database-read-lag", "database-read-lag must lie between 10ms and 1m"))
	}
	if c.DatabaseReadURL == "" {
		return issues
	}
	u, err := url.Parse(string(c.DatabaseReadURL))
	switch {
	case err != nil || !c.DatabaseReadURL.hasScheme("postgres", "postgresql"):
		issues = append(issues, fault.At(name, name+" must be postgres://... or empty"))
	case !c.DatabaseURL.hasScheme("postgres", "postgresql"):
		issues = append(issues, fault.At(name, name+" must be empty with SQLite, which has no replica: set database-url to a PostgreSQL"))
	// libpq's list of hosts would read from either, and its lag could not be measured.
	case strings.Contains(u.Host+u.Query().Get("host"), ","):
		issues = append(issues, fault.At(name, name+" must name one server; give another process another replica"))
	}
	return issues
}

// Where is the location of the data for people, without passwords.
func (d *Database) Where() string {
	if d.DatabaseURL != "" {
		return d.DatabaseURL.String()
	}
	return d.Data
}
