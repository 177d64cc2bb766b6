package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/githuboauth"
	"github.com/whetstone-dev/whetstone/internal/platform/datadir"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkSettings makes the checks that need no database. They use the network only for servers
// that the settings name.
func (d *Doctor) checkSettings(ctx context.Context) []invariants.Finding {
	c := d.Config
	findings := []invariants.Finding{checkData(c), checkDisk(c), checkServer(c), checkPublicURL(c)}
	if c.SMTPURL != "" {
		findings = append(findings, checkMail(ctx, c))
	}
	if c.JudgeURL != "" {
		findings = append(findings, checkReachable(ctx, "judge", "judge-url", string(c.JudgeURL)))
	}
	findings = append(findings, checkProviders(ctx, c)...)
	findings = append(findings, d.checkSandbox(ctx))
	if d.OpenEnvironments != nil {
		findings = append(findings, d.checkEnvironments(ctx))
	}
	if d.OpenAgents != nil {
		findings = append(findings, d.checkAgents(ctx))
	}
	return findings
}

// checkProviders asks each identity provider to describe itself, as a sign-in does. The
// redirect URI is shown because a mismatch there is what goes wrong most often.
func checkProviders(ctx context.Context, c config.Config) (findings []invariants.Finding) {
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		return []invariants.Finding{invariants.Fail("oidc", "%s", err)}
	}
	keys := oidc.NewKeys(client)
	for _, p := range c.Providers() {
		check := "oidc " + p.Name
		setting := "--oidc " + p.Name + "=ISSUER"
		if p.GitHub {
			check, setting = "github "+p.Name, "--github "+p.Name+"=URL"
			err = (&githuboauth.Client{HTTP: client, URL: p.Issuer}).Check(ctx)
		} else {
			_, err = keys.Discover(ctx, p.Issuer)
		}
		if err != nil {
			findings = append(findings, invariants.Fail(check, "people cannot sign in: %s; check %s and the network", err,
				setting))
			continue
		}
		findings = append(findings, invariants.Fine(check, "%s answers; its redirect URI must be %s/login/oidc/%s/callback",
			p.Issuer, cmp.Or(c.PublicURL, "{public-url}"), p.Name))
	}
	return findings
}

// checkData makes no folder: a typo in --data would leave one behind.
func checkData(c config.Config) invariants.Finding {
	if c.DatabaseURL != "" && c.BlobURL != "" {
		return invariants.Fine("data", "not needed: database and blobs are elsewhere")
	}
	info, err := os.Stat(c.Data)
	switch {
	case os.IsNotExist(err):
		return invariants.Warn("data", "%s does not exist yet; `whetstone serve` makes it", c.Data)
	case err != nil:
		return invariants.Fail("data", "%s", err)
	case !info.IsDir():
		return invariants.Fail("data", "%s is not a folder; set --data", c.Data)
	}
	switch err := c.CheckWritable(); {
	case err != nil:
		return invariants.Fail("data", "%s", strings.TrimPrefix(err.Error(), "data: "))
	case info.Mode().Perm()&0o077 != 0:
		return invariants.Warn("data", "%s is open to others (%s); run chmod 700 on it", c.Data, info.Mode().Perm())
	}
	return invariants.Fine("data", "%s", c.Data)
}

// checkDisk uses the thresholds of the running service; see datadir.Reserve.
func checkDisk(c config.Config) invariants.Finding {
	free, total, err := datadir.Space(c.Data)
	if os.IsNotExist(err) {
		return invariants.Fine("disk", "%s does not exist yet", c.Data)
	}
	if err != nil {
		return invariants.Warn("disk", "its free space is not known: %s", err)
	}
	return diskFinding(c.Data, free, total, datadir.ReserveOn(total, c.ReserveBytes()))
}

// diskFinding fails when the next write may fail, or is refused because of the
// reserve, and warns while there is still time.
func diskFinding(where string, free, total, reserve uint64) invariants.Finding {
	short := func(n uint64) string { return quota.Bytes(min(n, math.MaxInt64)).Short() } // no disk is larger
	left := fmt.Sprintf("%s of %s are free at %s, and the reserve is %s", short(free), short(total), where, short(reserve))
	switch {
	case free < reserve:
		return invariants.Fail("disk", "%s: only reads, deletes and sign-ins are served; make room now", left)
	// SQLite needs room for its write-ahead log even with --disk-reserve 0.
	case free < 100<<20:
		return invariants.Fail("disk", "%s; make room now", left)
	case free-reserve < min(max(1<<30, total/20), 10<<30): // on a large disk, a twentieth lasts for long
		return invariants.Warn("disk", "%s; make room soon", left)
	}
	return invariants.Fine("disk", "%s", left)
}

// checkServer finds the server that runs on the data folder, and checks that
// the hooks of the embedded code host are sent to it. The hooks are written at the start, so
// after a change of --addr they go nowhere.
func checkServer(c config.Config) invariants.Finding {
	s, running := datadir.Running(c.Data)
	if !running {
		return invariants.Fine("server", "none runs on %s", c.Data)
	}
	hooks, err := git.ReadHookConfig(git.HookConfigPath(git.Dir(c.Data, string(c.RepohostURL))))
	if c.Repohost == string(host.Git) && err == nil && s.URL != "" && hooks.URL != s.URL {
		return invariants.Warn("server", "%s runs, and the hooks of the repositories reach %s: restart it, "+
			"it writes its own address into hook.json", s, hooks.URL)
	}
	return invariants.Fine("server", "%s runs", s)
}

// checkPublicURL warns when links would name an address that others cannot
// reach.
func checkPublicURL(c config.Config) invariants.Finding {
	if c.PublicURL != "" {
		return invariants.Fine("public-url", "%s", c.PublicURL)
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return invariants.Fine("public-url", "not set; links name %s, which only this machine reaches", c.Addr)
	}
	return invariants.Warn("public-url", "not set, and the service listens on %s: "+
		"links and downloads name an address that others may not reach; set --public-url", c.Addr)
}

// checkMail sends nothing: a test mail would need an address.
func checkMail(ctx context.Context, c config.Config) invariants.Finding {
	if c.MailFrom == "" {
		return invariants.Fail("mail", "there is a mail server and no sender; set --mail-from")
	}
	return checkReachable(ctx, "mail", "smtp-url", string(c.SMTPURL))
}

// dialTimeout bounds a TCP connection to a server that a setting names.
const dialTimeout = 5 * time.Second

// defaultPorts are those of URLs without one. 587 is the port of submission; 25 is often
// blocked.
var defaultPorts = map[string]string{"http": "80", "https": "443", "smtp": "587", "smtps": "465"}

// checkReachable connects to the server that a setting names, and sends
// nothing. The URL isn't shown, since it may have a password; its host and port are.
func checkReachable(ctx context.Context, check, setting, raw string) invariants.Finding {
	u, err := url.Parse(raw)
	if err != nil {
		return invariants.Fail(check, "--%s is not a URL", setting)
	}
	port := cmp.Or(u.Port(), defaultPorts[u.Scheme])
	address := net.JoinHostPort(u.Hostname(), port)
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return invariants.Fail(check, "%s does not answer: %s; check --%s and the network", address, err, setting)
	}
	_ = conn.Close()
	return invariants.Fine(check, "%s answers", address)
}

// checkSandbox reports which restrictions the sandbox enforces on foreign
// programs. Only some eval cases need one, so a missing sandbox is a warning.
func (d *Doctor) checkSandbox(ctx context.Context) invariants.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s, err := d.OpenSandbox()
	if err != nil {
		return invariants.Fail("sandbox", "%s", err)
	}
	report, err := s.Check(ctx)
	if err != nil {
		return invariants.Warn("sandbox", "%s", err)
	}
	message := fmt.Sprintf("%s %s: %s", report.Driver, report.Version, strings.Join(report.InForce, "; "))
	if len(report.Missing) > 0 {
		message += ". Not here: " + strings.Join(report.Missing, "; ")
	}
	return invariants.Fine("sandbox", "%s", message)
}

// checkEnvironments reports how the images of task packages are built. Without them,
// many tasks run on the service's own machine.
func (d *Doctor) checkEnvironments(ctx context.Context) invariants.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s, err := d.OpenEnvironments()
	if err != nil {
		return invariants.Fail("environments", "%s", err)
	}
	if s == nil {
		return invariants.Fine("environments", "task packages do not run in their images; that needs --sandbox bubblewrap")
	}
	message, err := s.Describe(ctx)
	if err != nil {
		return invariants.Fine("environments", "task packages do not run in their images: %s", err)
	}
	return invariants.Fine("environments", "%s", message)
}

// checkAgents lists the coding agents with their versions: those that can run, those that
// only lack a model, and the others with the reason. A missing one is no problem: most
// machines have one of them, or none.
func (d *Doctor) checkAgents(ctx context.Context) invariants.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s, err := d.OpenSandbox()
	if err != nil {
		return invariants.Warn("agents", "there is no sandbox for them")
	}
	service, err := d.OpenAgents(s)
	if err != nil {
		return invariants.Fail("agents", "%s", err)
	}
	return invariants.Fine("agents", "%s", agentsText(service.List(ctx)))
}

// agentsText writes those that can run first, e.g. "claude 2.1 can run. Not installed: ...".
func agentsText(all []agents.Agent) string {
	var ready, installed, missing []string
	for _, a := range all {
		name := a.Name
		if a.Version != nil {
			name += " " + *a.Version
		}
		switch {
		case a.Available:
			ready = append(ready, name)
		case *a.Reason == agents.NoModel:
			installed = append(installed, name)
		default:
			missing = append(missing, name+" ("+*a.Reason+")")
		}
	}
	text := "none can run"
	if len(ready) > 0 {
		text = strings.Join(ready, ", ") + " can run"
	}
	if len(installed) > 0 {
		text += ". Installed, but " + agents.NoModel + ": " + strings.Join(installed, ", ")
	}
	if len(missing) > 0 {
		text += ". Not installed: " + strings.Join(missing, ", ")
	}
	return text
}

// checkSecretKey tries the secret key on what the database has sealed. A wrong key is found
// here rather than by the first job that opens a secret.
func checkSecretKey(ctx context.Context, c config.Config, db *store.DB) invariants.Finding {
	const check = "secret key"
	keyring, err := seal.Load(c.Data, string(c.SecretKey))
	path := filepath.Join(c.Data, seal.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		sealed, err := (&auth.Secrets{DB: db}).HasSealed(ctx)
		if err == nil && !sealed {
			return invariants.Warn(check, "%s does not exist yet; `whetstone serve` makes it and seals the secrets with it", path)
		}
		return invariants.Fail(check, "the database has sealed secrets, and %s is missing; put it back or set --secret-key", path)
	}
	if err != nil {
		return invariants.Fail(check, "%s", err)
	}
	if err := (&auth.Secrets{DB: db, Seal: keyring}).CheckSealed(ctx); err != nil {
		return invariants.Fail(check, "%s; set --secret-key to the key that sealed the secrets", err)
	}
	// With --secret-key the file isn't used.
	if info, err := os.Stat(path); c.SecretKey == "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		return invariants.Warn(check, "%s is open to others (%s); run chmod 600 on it", path, info.Mode().Perm())
	}
	return invariants.Fine(check, "opens the secrets in the database")
}
