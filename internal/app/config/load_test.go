package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// commands is a command line with all settings and, like the real one, a
// command whose own flags are no settings.
type commands struct {
	ConfigFile string `name:"config"`

	Serve struct {
		config.Config `embed:""`
	} `cmd:""`
	Make struct {
		config.Database `embed:""`
		Plan            string `env:"-" default:"team"`
		Owner           string `env:"-"`
	} `cmd:""`
}

// load reads settings the way the command line does.
func load(args ...string) (*commands, error) {
	root := &commands{}
	options := []kong.Option{kong.DefaultEnvars(config.EnvPrefix)}
	if path := config.FilePath(args); path != "" {
		file, err := config.ReadFile(path)
		if err != nil {
			return nil, err
		}
		options = append(options, kong.Resolvers(file))
	}
	parser, err := kong.New(root, options...)
	if err != nil {
		return nil, err
	}
	_, err = parser.Parse(args)
	return root, err
}

// serve loads the settings of the server; file is the text of a configuration
// file, which is left out when empty.
func serve(t *testing.T, file string, args ...string) (*config.Config, error) {
	t.Helper()
	args = append([]string{"serve"}, args...)
	if file != "" {
		args = append(args, "--config", writeFile(t, file))
	}
	root, err := load(args...)
	if err != nil {
		return nil, err
	}
	return &root.Serve.Config, nil
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whetstone.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	const file = `addr = "file:1"`
	for _, c := range []struct {
		name, file, env, flag, want string
	}{
		{"default", "", "", "", "127.0.0.1:8080"},
		{"file", file, "", "", "file:1"},
		{"environment", "", "env:2", "", "env:2"},
		{"environment over file", file, "env:2", "", "env:2"},
		{"flag", "", "", "flag:3", "flag:3"},
		{"flag over file", file, "", "flag:3", "flag:3"},
		{"flag over environment", "", "env:2", "flag:3", "flag:3"},
		{"flag over both", file, "env:2", "flag:3", "flag:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			if c.env != "" {
				t.Setenv("WHETSTONE_ADDR", c.env)
			}
			if c.flag != "" {
				args = []string{"--addr", c.flag}
			}
			got, err := serve(t, c.file, args...)
			if err != nil {
				t.Fatal(err)
			}
			if got.Addr != c.want {
				t.Errorf("addr %q, want %q", got.Addr, c.want)
			}
		})
	}
}

// TestModels reads the settings of models and agents from each of the three
// places. Keys and commands may have any separator in them.
func TestModels(t *testing.T) {
	const command = `{"argv":["mine","--a=b;c","{instruction}"],"env":{"LIST":"a,b"}}`
	want := config.Config{
		Model:        map[string]config.URL{"m": "http://m.example", "org/n:1": "https://n.example/v1"},
		ModelAPI:     map[string]string{"m": "anthropic", "org/n:1": "openai"},
		ModelKey:     config.Secrets{"m": "k=1", "org/n:1": "k,2"},
		AgentCommand: map[string]string{"mine": command},
	}
	for _, c := range []struct {
		name, file string
		env        map[string]string
		args       []string
	}{
		{name: "flags", args: []string{
			"--model=m=http://m.example", "--model=org/n:1=https://n.example/v1", "--model-api=m=anthropic",
			"--model-api=org/n:1=openai", "--model-key=m=k=1", "--model-key=org/n:1=k,2", "--agent-command=mine=" + command,
		}},
		{name: "environment", env: map[string]string{
			"MODEL": "m=http://m.example;org/n:1=https://n.example/v1", "MODEL_API": "m=anthropic;org/n:1=openai",
			"MODEL_KEY": "m=k=1;org/n:1=k,2", "AGENT_COMMAND": "mine=" + command,
		}},
		{name: "file", file: "[model]\nm = \"http://m.example\"\n\"org/n:1\" = \"https://n.example/v1\"\n[model-api]\nm = \"anthropic\"\n" +
			"\"org/n:1\" = \"openai\"\n[model-key]\nm = \"k=1\"\n\"org/n:1\" = \"k,2\"\n[agent-command]\nmine = '" + command + "'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv("WHETSTONE_"+name, value)
			}
			got, err := serve(t, c.file, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
			for _, pair := range [][2]any{
				{want.Model, got.Model},
				{want.ModelAPI, got.ModelAPI},
				{want.ModelKey, got.ModelKey},
				{want.AgentCommand, got.AgentCommand},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("settings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestModelKeyIsNotQuoted: an error does not show a key that was given without a name.
func TestModelKeyIsNotQuoted(t *testing.T) {
	for name, given := range map[string]struct{ file, flag string }{
		"flag": {flag: "--model-key=sk-marker"},
		"file": {file: "model-key = [\"sk-marker\"]\n"},
		"text": {file: "model-key = \"sk-marker\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if given.flag != "" {
				args = append(args, given.flag)
			}
			_, err := serve(t, given.file, args...)
			if err == nil || strings.Contains(err.Error(), "marker") || !strings.Contains(err.Error(), "model-key") {
				t.Errorf("got %v, want an error that names the setting and not the key", err)
			}
		})
	}
}

func TestFileValues(t *testing.T) {
	got, err := serve(t, `
# a comment
data = "/srv/whetstone"
database-url = "postgres://db.example/whetstone"
database_conns = 30
roles = ["web"]
allow-private-targets = true
alert-interval = "5m"
retention-prompts = "7d"
repohost-app-id = 42
judge-key = "sk-1"
plan = "pro"
`)
	if err != nil {
		t.Fatal(err)
	}
	want, err := serve(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want.Data, want.DatabaseURL, want.DatabaseConns = "/srv/whetstone", "postgres://db.example/whetstone", 30
	want.Roles, want.AllowPrivateTargets = []string{"web"}, true
	want.AlertInterval, want.RetentionPrompts = config.Duration(5*time.Minute), config.Duration(7*24*time.Hour)
	want.RepohostAppID, want.JudgeKey, want.Plan = 42, "sk-1", "pro"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestFileLists has the ways to write a list.
func TestFileLists(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"two", `roles = ["worker", "web"]`, []string{"worker", "web"}},
		{"text with commas", `roles = "worker,web"`, []string{"worker", "web"}},
		{"one word", `roles = "worker"`, []string{"worker"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := serve(t, c.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Roles); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileRefused(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       []string // parts of the message
	}{
		{"unknown key", "adr = \"x:1\"", []string{"whetstone.toml", "no setting is called adr"}},
		{"two unknown keys", "zone = 1\nadr = 2", []string{"no setting is called adr", "no setting is called zone"}},
		{"table", "[server]\naddr = \"x:1\"", []string{"no setting is called server"}},
		{"flag that is no setting", "owner = \"ada\"", []string{"no setting is called owner"}},
		{"help", "help = true", []string{"no setting is called help"}},
		{"another file", "config = \"other.toml\"", []string{"no setting is called config"}},
		{"not TOML", "addr = \n", []string{"whetstone.toml", "line 1", "addr"}},
		{"key twice", "addr = \"a:1\"\naddr = \"b:2\"", []string{"line 2", "addr"}},
		{"key twice, spelled twice", "log-level = \"info\"\nlog_level = \"warn\"", []string{"log-level", "twice"}},
		{"list of numbers", "roles = [1]", []string{"roles", "list of texts"}},
		{"list in a list", "roles = [[\"web\"]]", []string{"roles", "list of texts"}},
		{"text for a number", "workers = \"many\"", []string{"--workers", "many"}},
		{"number for a boolean", "allow-private-targets = 1", []string{"--allow-private-targets"}},
		{"number for a duration", "alert-interval = 60", []string{"--alert-interval"}},
		{"bad duration", "alert-interval = \"soon\"", []string{"--alert-interval", `"soon" is not a duration like 60s`}},
		{"not one of the words", "plan = \"gold\"", []string{"--plan", "free", "enterprise", "gold"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, c.file)
			if err == nil {
				t.Fatal("no error")
			}
			got := err.Error()
			if e, ok := errors.AsType[*fault.Error](err); ok {
				got = fmt.Sprint(e.Issues)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("error %q, want %q in it", got, want)
				}
			}
		})
	}
}

// TestFileErrorsHideSecrets has a forgotten quote before a secret.
func TestFileErrorsHideSecrets(t *testing.T) {
	_, err := serve(t, "bootstrap-key = hunter2\n")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want one without the secret", err)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := load("serve", "--config", filepath.Join(t.TempDir(), "none.toml"))
	if err == nil || !strings.Contains(err.Error(), "none.toml") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

// TestFileLeavesOtherFlagsAlone: the file's plan is that of the first
// organisation, not of every organisation made by hand.
func TestFileLeavesOtherFlagsAlone(t *testing.T) {
	file := writeFile(t, "plan = \"free\"\ndata = \"/srv/whetstone\"")
	root, err := load("make", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if root.Make.Plan != "team" || root.Make.Data != "/srv/whetstone" {
		t.Errorf("plan %q and data %q, want team and /srv/whetstone", root.Make.Plan, root.Make.Data)
	}
}

func TestFilePath(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  string
		want string
	}{
		{"none", []string{"serve"}, "", ""},
		{"two words", []string{"serve", "--config", "a.toml"}, "", "a.toml"},
		{"one word", []string{"--config=a.toml", "serve"}, "", "a.toml"},
		{"environment", []string{"serve"}, "b.toml", "b.toml"},
		{"flag over environment", []string{"--config", "a.toml"}, "b.toml", "a.toml"},
		{"value missing", []string{"serve", "--config"}, "", ""},
		{"the command of that name", []string{"config"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("WHETSTONE_CONFIG", c.env)
			if got := config.FilePath(c.args); got != c.want {
				t.Errorf("FilePath(%q) = %q, want %q", c.args, got, c.want)
			}
		})
	}
}

// TestNamesAgree compares the names that Settings shows with kong's.
func TestNamesAgree(t *testing.T) {
	root := &commands{}
	parser, err := kong.New(root, kong.DefaultEnvars(config.EnvPrefix))
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, flag := range parser.Model.Children[0].Flags {
		flags = append(flags, flag.Name)
		env := "WHETSTONE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		// Those of OpenTelemetry come after our own.
		own := slices.DeleteFunc(slices.Clone(flag.Envs), func(name string) bool { return strings.HasPrefix(name, "OTEL_") })
		if diff := cmp.Diff([]string{env}, own); diff != "" || flag.Envs[0] != env {
			t.Errorf("environment variables of %s (-want +got):\n%s", flag.Name, diff)
		}
	}
	var shown []string
	for _, s := range root.Serve.Settings() {
		shown = append(shown, s.Name)
	}
	if diff := cmp.Diff(flags, shown); diff != "" {
		t.Errorf("names (-kong +Settings):\n%s", diff)
	}
}
