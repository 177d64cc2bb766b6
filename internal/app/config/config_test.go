package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

func TestDefaultsAreValid(t *testing.T) {
	c, err := serve(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestCheck(t *testing.T) {
	const key = "st_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
	for _, c := range []struct {
		name    string
		args    []string
		setting string // "" if all is well
	}{
		{"all well", []string{
			"--database-url=postgres://u:p@db.example/w", "--blob-url=s3://b?region=eu", "--public-url=https://w.example",
			"--smtp-url=smtps://u:p@mail.example", "--judge-url=http://127.0.0.1:9/v1", "--roles=worker", "--bootstrap-key=" + key,
			"--workers=1000", "--database-conns=2", "--addr=[::1]:0", "--plan=enterprise",
		}, ""},
		{"all well with SQLite by name", []string{"--database-url=sqlite:/srv/w.db"}, ""},
		{"a Unix socket", []string{"--database-url=postgres://u@/w?host=/run/postgresql"}, ""},
		{"a database without a server", []string{"--database-url=postgres:///w"}, "database-url"},
		{"no port", []string{"--addr=127.0.0.1"}, "addr"},
		{"other database", []string{"--database-url=mysql://db.example/w"}, "database-url"},
		{"database without a host", []string{"--database-url=postgres:w"}, "database-url"},
		{"SQLite without a path", []string{"--database-url=sqlite:"}, "database-url"},
		{"one connection", []string{"--database-conns=1"}, "database-conns"},
		{"too many connections", []string{"--database-conns=1001"}, "database-conns"},
		{"replica", []string{
			"--database-url=postgres://db.example/w", "--database-read-url=postgresql://u:p@r.example/w", "--database-read-lag=1m",
		}, ""},
		{"replica of SQLite", []string{"--database-read-url=postgres://r.example/w"}, "database-read-url"},
		{"replica of SQLite by name", []string{"--database-url=sqlite:w.db", "--database-read-url=postgres://r.example/w"}, "database-read-url"},
		{"SQLite as a replica", []string{"--database-url=postgres://db.example/w", "--database-read-url=sqlite:w.db"}, "database-read-url"},
		{"several replicas", []string{"--database-url=postgres://db.example/w", "--database-read-url=postgres://r.example,s.example/w"}, "database-read-url"},
		{"several replicas by a parameter", []string{
			"--database-url=postgres://db.example/w", "--database-read-url=postgres://r.example/w?host=r.example,s.example",
		}, "database-read-url"},
		{"too little patience with a replica", []string{"--database-read-lag=9ms"}, "database-read-lag"},
		{"too much of it", []string{"--database-read-lag=61s"}, "database-read-lag"},
		{"blobs elsewhere", []string{"--blob-url=gs://bucket"}, "blob-url"},
		{"blobs in SQLite", []string{"--blob-url=sqlite:x"}, "blob-url"},
		{"public URL without a scheme", []string{"--public-url=w.example"}, "public-url"},
		{"mail by another way", []string{"--smtp-url=http://mail.example"}, "smtp-url"},
		{"judge elsewhere", []string{"--judge-url=ftp://m.example"}, "judge-url"},
		{"no price file", []string{"--price-file=/nowhere/prices.json"}, "price-file"},
		{"proxies", []string{"--trusted-proxies=10.0.0.0/8,::1,192.0.2.7,fd00::/8"}, ""},
		{"proxy by its name", []string{"--trusted-proxies=proxy.example"}, "trusted-proxies"},
		{"everybody is a proxy", []string{"--trusted-proxies=10.0.0.0/8,0.0.0.0/0"}, "trusted-proxies"},
		{"unknown role", []string{"--roles=web,cook"}, "roles"},
		{"no role", []string{"--roles="}, "roles"},
		{"guessable key", []string{"--bootstrap-key=st_live_short"}, "bootstrap-key"},
		{"foreign key", []string{"--bootstrap-key=sk-0123456789012345678901234567890"}, "bootstrap-key"},
		{"no workers", []string{"--workers=0"}, "workers"},
		{"no contributors", []string{"--signals-min-contributors=0"}, "signals-min-contributors"},
		{"too many contributors", []string{"--signals-min-contributors=101"}, "signals-min-contributors"},
		{"too many workers", []string{"--workers=1001"}, "workers"},
		{"no workers for runs", []string{"--run-workers=0"}, "run-workers"},
		{"too many workers for runs", []string{"--run-workers=1001"}, "run-workers"},
		{"models", []string{
			"--model=m=http://m.example", "--model-api=m=anthropic", "--model-key=m=k", "--model=a/b:1=https://n.example/v1",
			"--model-api=a/b:1=responses",
		}, ""},
		{"model without a wire format", []string{"--model=m=http://m.example"}, "model-api"},
		{"unknown wire format", []string{"--model=m=http://m.example", "--model-api=m=soap"}, "model-api"},
		{"wire format of no model", []string{"--model-api=m=openai"}, "model-api"},
		{"key of no model", []string{"--model-key=m=hunter2"}, "model-key"},
		{"model without a URL", []string{"--model=m=m.example", "--model-api=m=openai"}, "model"},
		{"model named like the judge's", []string{"--model=judge=http://m.example", "--model-api=judge=openai"}, "model"},
		{"agent of one's own", []string{`--agent-command=mine={"argv":["mine","{instruction}"],"skills_dir":"~/.mine","env":{"A":"b;c,d"}}`}, ""},
		{"agent without a program", []string{`--agent-command=mine={"argv":[]}`}, "agent-command"},
		{"agent of another's name", []string{`--agent-command=codex={"argv":["x"]}`}, "agent-command"},
		{"agent with an unknown field", []string{`--agent-command=mine={"argv":["x"],"skill_dir":"x"}`}, "agent-command"},
		{"agent whose skills leave the folder", []string{`--agent-command=mine={"argv":["x"],"skills_dir":"../x"}`}, "agent-command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings, err := serve(t, "", c.args...)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if c.setting != "" {
				want = []string{c.setting}
			}
			if diff := cmp.Diff(want, badSettings(t, settings.Check())); diff != "" {
				t.Errorf("refused settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckNamesAllAtOnce(t *testing.T) {
	c, err := serve(t, "", "--addr=x", "--database-url=x", "--database-conns=0", "--blob-url=x", "--public-url=x", "--smtp-url=x",
		"--judge-url=x", "--roles=x,y", "--bootstrap-key=hunter2", "--workers=0")
	if err != nil {
		t.Fatal(err)
	}
	got := badSettings(t, c.Check())
	want := []string{"database-url", "database-conns", "addr", "blob-url", "public-url", "smtp-url", "judge-url", "roles", "roles", "bootstrap-key", "workers"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused settings (-want +got):\n%s", diff)
	}
}

// badSettings returns the settings that the error is about. Each message must
// begin with its setting and must not repeat a secret.
func badSettings(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Malformed {
		t.Fatalf("%v is no validation error", err)
	}
	for _, issue := range e.Issues {
		name := strings.Join(issue.Path, ".")
		names = append(names, name)
		if !strings.HasPrefix(issue.Message, name+" must ") {
			t.Errorf("message %q, want it to begin with %q", issue.Message, name+" must ")
		}
		if strings.Contains(issue.Message, "hunter2") {
			t.Errorf("message %q repeats a secret", issue.Message)
		}
	}
	return names
}

func TestHas(t *testing.T) {
	c := config.Config{Roles: []string{config.Worker}}
	if c.Has(config.Web) || !c.Has(config.Worker) {
		t.Error("a worker is not exactly a worker")
	}
}

func TestWhereTheDataIs(t *testing.T) {
	for _, c := range []struct {
		name     string
		database config.Database
		url      string
		where    string
	}{
		{"folder", config.Database{Data: "/srv/w"}, "sqlite:/srv/w/whetstone.db", "/srv/w"},
		{"server", config.Database{Data: "/srv/w", DatabaseURL: "postgres://u:hunter2@db/w"}, "postgres://u:hunter2@db/w", "postgres://u:[secret]@db/w"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.database.URL(); got != c.url {
				t.Errorf("URL() = %q, want %q", got, c.url)
			}
			if got := c.database.Where(); got != c.where {
				t.Errorf("Where() = %q, want %q", got, c.where)
			}
		})
	}
}

func TestMakeData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second time it is there
		if err := (&config.Database{Data: dir}).MakeData(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err = (&config.Database{Data: filepath.Join(file, "data")}).MakeData()
	if !fault.Is(err, fault.Malformed) || !strings.HasPrefix(err.Error(), "data: folder "+file) {
		t.Errorf("below a file: %v, want a validation error on data", err)
	}
}

// TestDataIsReadOnly uses a file system in which nobody makes files.
func TestDataIsReadOnly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /sys")
	}
	err := (&config.Database{Data: "/sys"}).MakeData()
	if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), "/sys is") || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("got %v, want a validation error that says read-only", err)
	}
}

func TestDataIsExplained(t *testing.T) {
	d := &config.Database{Data: "/srv/w"}
	for cause, want := range map[error]string{
		syscall.ENOSPC: "the disk of folder /srv/w is full", syscall.EDQUOT: "is full",
		syscall.EROFS: "/srv/w is on a read-only file system", syscall.EACCES: "/srv/w is read-only for user ",
		syscall.EPERM: "read-only for user ", syscall.ENOTDIR: "/srv/w cannot be used: ",
	} {
		err := config.Explain(d, &fs.PathError{Op: "open", Path: "/srv/w/x", Err: cause})
		if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", cause, err, want)
		}
	}
}

func TestSettingsAreMasked(t *testing.T) {
	c, err := serve(t, "", "--database-url=postgres://u:hunter2@db/w", "--database-read-url=postgres://u:hunter2@r/w", "--bootstrap-key=hunter2", "--secret-key=hunter2", "--smtp-url=smtp://u:hunter2@m", "--judge-key=hunter2",
		"--model=m=https://u:hunter2@m/v1", "--model-api=m=openai", "--model-key=m=hunter2", "--model=n=http://n", "--model-api=n=anthropic",
		"--judge-url=https://u:hunter2@m/v1", "--repohost-url=https://u:hunter2@g", "--repohost-private-key=hunter2", "--repohost-token=hunter2",
		"--repohost-webhook-secret=hunter2", "--repohost-signing-token=hunter2", "--roles=web", "--alert-interval=30s", "--allow-private-targets")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Settings() {
		got[s.Name] = s.Value
		if strings.Contains(s.Value, "hunter2") {
			t.Errorf("%s shows the secret: %s", s.Name, s.Value)
		}
	}
	want := map[string]string{
		"data": "./data", "database-url": "postgres://u:[secret]@db/w", "database-conns": "16",
		"database-read-url": "postgres://u:[secret]@r/w", "database-read-lag": "500ms",
		"addr": "127.0.0.1:8080", "admin-addr": "", "slow-query": "0", "blob-url": "", "public-url": "", "trusted-proxies": "", "roles": "web", "plan": "team", "secret-key": "[secret]", "bootstrap-key": "[secret]",
		"smtp-url": "smtp://u:[secret]@m", "mail-from": "",
		"judge-api": "builtin", "judge-url": "https://u:[secret]@m/v1", "judge-model": "", "judge-key": "[secret]", "judge-concurrency": "8",
		"agents": "", "agent-command": "", "model": "m=https://u:[secret]@m/v1;n=http://n", "model-api": "m=openai;n=anthropic",
		"model-key": "m=[secret]",
		"oidc":      "", "oidc-client-id": "", "oidc-client-secret": "", "oidc-scopes": "", "oidc-groups-claim": "", "oidc-role": "",
		"oidc-domain": "", "oidc-org": "", "github": "", "github-org": "", "require-sso": "false",
		"sandbox": "bubblewrap", "sandbox-allow-none": "false", "sandbox-image": "", "sandbox-scratch": "", "sandbox-tools": "false",
		"environments-max": "20GiB", "environments-images": "", "environments-network": "false",
		"repohost": "git", "repohost-url": "https://u:[secret]@g", "repohost-app-id": "0", "repohost-private-key": "[secret]",
		"repohost-token": "[secret]", "repohost-webhook-secret": "[secret]", "repohost-signing-token": "[secret]", "repohost-claims": "first", "repohost-interval": "15m0s",
		"allow-private-targets": "true", "alert-interval": "30s", "metrics-window": "30d", "price-file": "", "retention-prompts": "90d", "retention-audit": "0",
		"audit-otlp-endpoint": "", "audit-otlp-header": "", "signals-min-contributors": "3",
		"trace-otlp-endpoint": "", "trace-otlp-header": "", "trace-sampler": "parentbased_traceidratio", "trace-ratio": "1",
		"trace-service": "whetstone", "trace-propagate": "",
		"quota": "free=1GiB,pro=20GiB,team=100GiB,enterprise=unlimited", "disk-reserve": "512MiB",
		"workers": "4", "run-workers": "4", "drain-timeout": "15s", "log-format": "text", "log-level": "info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestPriceFile: a wrong price stops the start and says where it stands.
func TestPriceFile(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "prices.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := write("{\"models\":[{\"match\":\"a\",\"input\":1,\"output\":1},\n{\"match\":\"b\",\"input\":-1,\"output\":1}]}")
	c, err := serve(t, "", "--price-file="+bad)
	if err == nil {
		err = c.Check()
	}
	if err == nil || !strings.Contains(err.Error(), "models[1] (line 2): input must be between 0 and 10,000") {
		t.Errorf("got %v; want the index and the line", err)
	}
	good := write(`{"models":[{"match":"gpt-5","input":9,"output":9}]}`)
	if c, err = serve(t, "", "--price-file="+good); err != nil {
		t.Fatal(err)
	}
	table, err := c.Prices()
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int64{"gpt-5": 9_000_000, "gpt-5-mini": 250_000} {
		if p, _ := table.Lookup(model, time.Now()); p.Input != want {
			t.Errorf("%s: got %d; want %d", model, p.Input, want)
		}
	}
}
