package taskfile

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// How commands that need the network are recognised: installations by package managers,
// and downloads from a URL.
var (
	installs = regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`(?:apt-get|apt|apk|yum|dnf)(?:\s+-\S+)*\s+(?:update|install|add)`,
		`pip3?(?:\s+-\S+)*\s+install`,
		`uv\s+(?:pip|tool|sync|add)`,
		`uvx`,
		`npx`,
		`npm\s+(?:ci|install|i)`,
		`cargo\s+install`,
		`go\s+install`,
		`gem\s+install`,
	}, "|") + `)\b`)
	downloads = regexp.MustCompile(`\b(?:curl|wget|git\s+clone)\b`)
	urls      = regexp.MustCompile(`https?://[^\s"'|;)]+`)
)

// NetworkUse returns the first command of a script that needs the network, e.g.
// "apt-get install", or "". A script that checks whether to install its tools
// (BENCHFLOW_SKIP_VERIFIER_DEPS) needs none: the runner sets the variable.
func NetworkUse(script string) string {
	if strings.Contains(script, "BENCHFLOW_SKIP_VERIFIER_DEPS") {
		return ""
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.Contains(line, "--no-index") || strings.Contains(line, "--offline") {
			continue
		}
		if tool := installs.FindString(line); tool != "" {
			return tool
		}
		if tool := downloads.FindString(line); tool != "" && hasRemoteURL(line) {
			return tool
		}
	}
	return ""
}

// hasRemoteURL reports whether a line has a URL that is not a loopback address.
func hasRemoteURL(line string) bool {
	for _, address := range urls.FindAllString(line, -1) {
		u, err := url.Parse(address)
		if err != nil {
			return true
		}
		switch host := u.Hostname(); {
		case host == "localhost", host == "::1", host == "0.0.0.0",
			strings.HasPrefix(host, "127."), strings.HasPrefix(host, "$"):
		default:
			return true
		}
	}
	return false
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretWords are parts of the names of variables that hold secrets. Cases are stored
// and shown in plain text, so they must not have any.
var secretWords = []string{
	"APIKEY", "AUTH", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSWD", "PASSWORD", "PASSPHRASE", "SECRET", "SECRETS", "TOKEN",
}

// RefusedVariable returns why a case may not set an environment variable, or
// "". An import leaves such a variable out; in a trial it is an error.
func RefusedVariable(name string) string {
	upper := strings.ToUpper(name)
	switch {
	case !variableName.MatchString(name) || len(name) > 200:
		return "it is not a name of a variable"
	case slices.Contains([]string{"PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS"}, upper),
		strings.HasPrefix(upper, "LD_"), strings.HasPrefix(upper, "DYLD_"):
		return "it changes which programs run"
	case slices.Contains([]string{
		"TASK_INSTRUCTION", "TASK_ROOT", "SKILL_DIR", "SKILL_BUNDLE_DIR", "SKILL_MODE", "LOGS_DIR", "HOME", "TMPDIR", "LANG",
	}, upper), strings.HasPrefix(upper, "BENCHFLOW_"):
		return "the runner sets it"
	case slices.ContainsFunc(strings.Split(upper, "_"), func(word string) bool { return slices.Contains(secretWords, word) }):
		return "it looks like a secret, and cases are not kept like one"
	}
	return ""
}

var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`)

// ExpandDefaults replaces ${NAME:-default} with its default, and returns false
// if a placeholder has none: Harbor would take the value from the machine that
// starts the task, which a service must not do.
func ExpandDefaults(value string) (string, bool) {
	ok := true
	value = placeholder.ReplaceAllStringFunc(value, func(p string) string {
		_, fallback, given := strings.Cut(p[2:len(p)-1], ":-")
		ok = ok && given
		return fallback
	})
	return value, ok
}
