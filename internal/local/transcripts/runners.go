package transcripts

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*\+?=`)

// shellBase returns the name of a program without its folder.
func shellBase(program string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(program, `\`, "/")), ".exe")
}

// wrappers run another program. Their options that take a value are listed.
var wrappers = map[string][]string{
	"bunx": nil, "command": nil, "env": {"-u", "--unset", "-C"}, "exec": nil, "nice": {"-n"}, "nohup": nil,
	"npx":    {"-p", "--package"},
	"stdbuf": nil, "sudo": {"-u"}, "time": nil, "timeout": {"-k", "-s"}, "xvfb-run": nil,
}

// runners are subcommands that run another program, by program.
var runners = map[string][]string{
	"bundle": {"exec"}, "hatch": {"run"}, "npm": {"exec"}, "pdm": {"run"}, "pipenv": {"run"},
	"pnpm": {"dlx", "exec"}, "poetry": {"run"},
	"rye": {"run"}, "uv": {"run"}, "yarn": {"dlx", "exec"},
}

// unwrap returns the command that is run in the end, e.g. `pytest` of
// `CI=1 timeout 60 uv run pytest`.
func unwrap(c command) command {
	for len(c) > 0 {
		name := shellBase(c[0])
		values, wraps := wrappers[name]
		switch {
		case assignment.MatchString(c[0]):
			c = c[1:]
		case wraps:
			c = afterOptions(c[1:], values)
			if name == "timeout" && len(c) > 0 {
				c = c[1:] // the time
			}
		case len(c) > 1 && slices.Contains(runners[name], c[1]):
			c = afterOptions(c[2:], []string{"--with", "--project", "--extra", "--group", "-p"})
		default:
			return c
		}
	}
	return nil
}

// afterOptions skips options, of which some have a value as the next word.
func afterOptions(c command, values []string) command {
	for len(c) > 0 && strings.HasPrefix(c[0], "-") {
		n := 1
		if slices.Contains(values, c[0]) {
			n = 2
		}
		c = c[min(n, len(c)):]
	}
	return c
}

// subcommand returns the first argument that is no option, e.g. "commit" of
// `git -C dir -c a=b commit`.
func subcommand(arguments []string) string {
	rest := afterOptions(arguments, []string{
		"-C", "-c", "--git-dir", "--work-tree", "--manifest-path", "--prefix", "--filter",
		"-F", "--cwd",
	})
	if len(rest) > 0 && strings.HasPrefix(rest[0], "+") { // of cargo: the toolchain
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return ""
	}
	return rest[0]
}

// testPrograms only run tests.
var testPrograms = []string{
	"ava", "bats", "busted", "ctest", "gotestsum", "jest", "mocha", "nose2", "nox", "paratest", "pest", "phpunit", "prove",
	"py.test", "pytest",
	"rspec", "tox", "vitest",
}

// testCommands are subcommands that run tests, by program.
var testCommands = map[string][]string{
	"bazel": {"test"}, "bun": {"test"}, "cabal": {"test"}, "cargo": {"t", "test", "nextest"}, "cypress": {"run"},
	"dart": {"test"},
	"deno": {"test"}, "dotnet": {"test"}, "flutter": {"test"}, "go": {"test"}, "lein": {"test"}, "meson": {"test"},
	"mix": {"test"},
	"ng":  {"test"}, "npm": {"t", "test", "tst"}, "nx": {"test"}, "playwright": {"test"}, "pnpm": {"t", "test"},
	"rails": {"test"},
	"sbt":   {"test"}, "stack": {"test"}, "swift": {"test"}, "turbo": {"test"}, "yarn": {"test"},
}

// buildTools run tests if one of their targets says so.
var buildTools = []string{"gmake", "gradle", "gradlew", "just", "make", "mvn", "mvnw", "ninja", "rake", "task"}

var (
	testTarget = regexp.MustCompile(`^(?:.*:)?(?:tests?|check|spec|verify|integration-test)$|^tests?[-:_]|^:?(?:\w+:)*test[A-Z]`)
	testScript = regexp.MustCompile(`^tests?(?:[:_-].*)?$`)
	// notRun are options of runners with which nothing is run, or nothing is tested.
	notRun = []string{
		"--co", "--collect-only", "--dry-run", "--help", "--just-print", "--list", "--list-tests", "--listTests",
		"--no-run", "--show-only",
		"--version", "-DskipTests", "-Dmaven.test.skip=true", "-h", "-list",
	}
)

// isTest reports whether a command runs tests.
func isTest(c command) bool {
	if c = unwrap(c); len(c) == 0 || slices.ContainsFunc(c, func(w string) bool { return slices.Contains(notRun, w) }) {
		return false
	}
	name, arguments := shellBase(c[0]), c[1:]
	if strings.HasPrefix(name, "python") || name == "py" {
		if i := slices.Index(arguments, "-m"); i >= 0 && i+1 < len(arguments) {
			return slices.Contains([]string{"nose2", "pytest", "unittest", "tox", "nox"}, arguments[i+1])
		}
		return len(arguments) > 1 && shellBase(arguments[0]) == "manage.py" && arguments[1] == "test"
	}
	first := subcommand(arguments)
	switch {
	case slices.Contains(testPrograms, name):
		return name != "ctest" || !slices.Contains(arguments, "-N")
	case slices.Contains(testCommands[name], first):
		return name != "go" || !slices.Contains(arguments, "-c")
	case slices.Contains([]string{"npm", "pnpm", "yarn", "bun", "turbo"}, name) && (first == "run" || first == "run-script"):
		i := slices.Index(arguments, first)
		return testScript.MatchString(subcommand(arguments[i+1:]))
	case slices.Contains(buildTools, name):
		without := strings.HasPrefix(name, "gradle") && (slices.Contains(arguments, "-x") || slices.Contains(arguments, "-m"))
		return !without && !slices.Contains(arguments, "-n") && slices.ContainsFunc(arguments, testTarget.MatchString)
	case name == "node":
		return slices.Contains(arguments, "--test")
	}
	return false
}

// failsWith reports whether a runner ends with a status if a test fails. That of
// pytest is another one if it cannot run, or finds no test.
func failsWith(c command, status int) bool {
	c = unwrap(c)
	if name := shellBase(c[0]); name == "pytest" || name == "py.test" || strings.HasPrefix(name, "python") &&
		slices.Contains(c, "pytest") {
		return status <= 2
	}
	return true
}
