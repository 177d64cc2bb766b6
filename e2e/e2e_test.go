// Package e2e_test drives the real binary from the outside, the way people and
// machines do: with its command line and with curl. Each script under
// testdata/scripts runs on SQLite and on PostgreSQL; commands_test.go says
// what a script can do.
package e2e_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const scripts = "testdata/scripts"

// binDir is the folder with the binary, built once for all scripts.
var binDir string

func TestMain(m *testing.M) {
	agentstest.Main() // the program of the tests is also the stand-in of an agent
	os.Exit(runWithBinary(m))
}

func runWithBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "whetstone-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if _, err := servertest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	// Scripts mostly wait for other processes, e.g. for the lease of one that was
	// killed, so more of them than there are processors can run at once.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func requireCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("WHETSTONE_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip("curl is not installed; run `make setup`")
	}
}

// ofDatabase are the scripts in which servers meet the database in another way than
// statements do: they start, stop, are killed, or share it with commands.
var ofDatabase = []string{
	"admin_while_running", "backup_restore", "evals_crash", "first_start", "no_secrets_in_log", "one_server", "ready",
	"repohost_crash", "restart", "telemetry_import_crash",
}

func TestScripts(t *testing.T) {
	requireCurl(t)
	t.Parallel()
	all, err := filepath.Glob(scripts + "/*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, database := range storetest.Databases(t) {
		files := all
		if testing.Short() && database == "postgres" {
			files = nil
			for _, name := range ofDatabase {
				files = append(files, filepath.Join(scripts, name+".txtar"))
			}
		}
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:              files,
				Setup:              func(env *testscript.Env) error { return setUp(env, database) },
				Cmds:               commands,
				RequireUniqueNames: true,
				Condition: func(condition string) (bool, error) {
					if condition != "sqlite" && condition != "postgres" {
						return false, fmt.Errorf("no such condition")
					}
					return condition == database, nil
				},
			})
		})
	}
}

// password is what the logs must not show. The test's own PostgreSQL server
// lets everybody in, whatever their password.
const password = "database-password"

// setUp gives the script a database, and an environment in which nothing of
// the environment of whoever runs the tests is left.
func setUp(env *testscript.Env, database string) error {
	t := env.T().(testing.TB) // testscript.Run promises it
	env.Setenv("PATH", binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("HOME", env.WorkDir)
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			env.Setenv(name, value)
		}
	}
	captures, err := filepath.Abs("../internal/local/transcripts/testdata/agents")
	if err != nil {
		return err
	}
	env.Setenv("TRANSCRIPTS", captures) // of the real Claude Code
	env.Setenv("WHETSTONE_DATA", filepath.Join(env.WorkDir, "data"))
	env.Setenv("DBPASSWORD", password)
	if database == "postgres" {
		// A first start that migrates takes seconds: one script proves that it does.
		newURL := storetest.URL
		if filepath.Base(env.WorkDir) == "script-first_start" {
			newURL = storetest.EmptyURL
		}
		u, err := url.Parse(newURL(t, database))
		if err != nil {
			return err
		}
		if given, ok := u.User.Password(); ok {
			env.Setenv("DBPASSWORD", given)
		} else {
			u.User = url.UserPassword(u.User.Username(), password)
		}
		env.Setenv("WHETSTONE_DATABASE_URL", u.String())
	}
	s := &server{dir: env.WorkDir}
	env.Values[serverKey{}] = s
	env.Values[hooksKey{}] = map[string]*hook{}
	env.Values[issuerKey{}] = new(*oidctest.Provider)
	env.Defer(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// TestScriptsDoNotEndEarly finds the built-in commands that mean something
// else than a reader would think: stop ends the script, as passed.
func TestScriptsDoNotEndEarly(t *testing.T) {
	builtin := regexp.MustCompile(`(?m)^(\[\S+\] )?(stop|kill|wait|skip)\b.*`)
	files, err := filepath.Glob(scripts + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range builtin.FindAllString(string(text), -1) {
			t.Errorf("%s: %q: use terminate or crash, and conditions for what one database lacks", file, line)
		}
	}
}
