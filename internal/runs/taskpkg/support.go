package taskpkg

import (
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// settings are the keys of a task.toml that tell what a task needs.
type settings struct {
	Environment struct {
		GPUs int `toml:"gpus"`
	} `toml:"environment"`
	Steps []map[string]any `toml:"steps"`
}

// checkSupport ends the trial of a task that needs something this runner
// lacks. It looks before anything has run: a task must not count only when it
// happens to pass.
func (t *trial) checkSupport() error {
	var s settings
	if text, err := t.readText("task.toml"); err == nil {
		// Keys of other types than ours are of another version, and ignored.
		_, _ = toml.Decode(text, &s)
	}
	if s.Environment.GPUs > 0 {
		return unsupported(NeedsGPU, "the task needs %d GPUs", s.Environment.GPUs)
	}
	if len(s.Steps) > 0 {
		return unsupported(NeedsSteps, "the task has %d steps", len(s.Steps))
	}
	if n := t.services(); n > 1 {
		return unsupported(NeedsImages, "the task needs %d containers", n)
	}
	for _, ref := range []string{t.task.OracleRef, t.task.VerifierRef} {
		if ref == "" {
			continue
		}
		text, err := t.readText(ref)
		if err != nil {
			continue // its own step says so
		}
		if tool := NetworkUse(text); tool != "" {
			return unsupported(NeedsNetwork, "%s needs the network (%s), which is off", ref, tool)
		}
		if found := absolutePath.FindStringSubmatch(text); found != nil && !t.runner.Sandbox.Binds() {
			return unsupported(NeedsAbsolutePaths, "%s uses %s, which this sandbox cannot provide", ref, found[1])
		}
	}
	return nil
}

// readText reads the beginning of a file of the archive: more than anybody
// writes by hand.
func (t *trial) readText(name string) (string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text), err
}

func unsupported(code Code, format string, args ...any) *failure {
	return &failure{verdict: Unsupported, code: code, message: fmt.Sprintf(format, args...)}
}

// services counts the containers that the task composes.
func (t *trial) services() int {
	for _, name := range []string{"docker-compose.yaml", "docker-compose.yml"} {
		text, err := t.readText("environment/" + name)
		if err != nil {
			continue
		}
		var file struct {
			Services map[string]any `yaml:"services"`
		}
		if yaml.Unmarshal([]byte(text), &file) == nil {
			return len(file.Services)
		}
	}
	return 0
}

var (
	absolutePath = regexp.MustCompile(`(?m)(?:^|[\s"'=(:;|&<>])(/(?:tests|solution|logs|app|root|skills))(?:/|\b)`)
	installs     = regexp.MustCompile(`\b(?:(?:apt-get|apt|apk|yum|dnf)(?:\s+-\S+)*\s+(?:update|install|add)|pip3?(?:\s+-\S+)*\s+install|uv\s+(?:pip|tool|sync|add)|uvx|npx|npm\s+(?:ci|install|i)|cargo\s+install|go\s+install|gem\s+install)\b`)
	fetches      = regexp.MustCompile(`\b(?:curl|wget|git\s+clone)\b`)
	addresses    = regexp.MustCompile(`https?://[^\s"'|;)]+`)
)

// NetworkUse returns what in a script needs the network, or "". A script that
// asks whether to install its tools is not meant.
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
		if tool := fetches.FindString(line); tool != "" && leadsOutside(line) {
			return tool
		}
	}
	return ""
}

// leadsOutside reports whether a line holds an address other than loopback.
func leadsOutside(line string) bool {
	for _, address := range addresses.FindAllString(line, -1) {
		u, err := url.Parse(address)
		if err != nil {
			return true
		}
		switch host := u.Hostname(); {
		case host == "localhost", host == "::1", host == "0.0.0.0", strings.HasPrefix(host, "127."), strings.HasPrefix(host, "$"):
		default:
			return true
		}
	}
	return false
}
