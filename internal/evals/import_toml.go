package evals

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
)

// taskSettings are the keys of task.toml that matter here.
type taskSettings struct {
	Name string `toml:"name"`
	Task struct {
		Name string `toml:"name"`
	} `toml:"task"`
	Metadata struct {
		Tags     []string `toml:"tags"`
		Category string   `toml:"category"`
	} `toml:"metadata"`
	Verifier struct {
		TimeoutSec float64           `toml:"timeout_sec"`
		Env        map[string]string `toml:"env"`
	} `toml:"verifier"`
	Environment struct {
		DockerImage string           `toml:"docker_image"`
		GPUs        int64            `toml:"gpus"`
		MCPServers  []map[string]any `toml:"mcp_servers"`
		Workdir     string           `toml:"workdir"`
	} `toml:"environment"`
	Steps []map[string]any `toml:"steps"`
}

// settings reads task.toml and refuses what no sandbox here can give.
func (t *task) settings() (s taskSettings, err error) {
	text, _, err := t.read("task.toml")
	if err != nil {
		return s, err
	}
	if _, err := toml.Decode(text, &s); err != nil {
		t.refuse("its task.toml cannot be read: " + err.Error())
		return s, nil //nolint:nilerr // the task is refused, not the request
	}
	if s.Environment.GPUs > 0 {
		t.refuse(fmt.Sprintf("it needs %d GPUs, and there are none", s.Environment.GPUs))
	}
	if len(s.Steps) > 0 {
		t.refuse("it has several steps, and a case has one")
	}
	if len(s.Environment.MCPServers) > 0 {
		t.refuse("it needs MCP servers, and there are none")
	}
	if s.Environment.DockerImage != "" {
		t.checkImage(s.Environment.DockerImage)
	}
	return s, nil
}

func (s taskSettings) title(folder string) string {
	for _, name := range []string{s.Task.Name, s.Name} {
		if name != "" {
			return name
		}
	}
	return folder
}

func (s taskSettings) tags() []string {
	all := slices.Clone(s.Metadata.Tags)
	if c := s.Metadata.Category; c != "" && !slices.Contains(all, c) {
		all = append(all, c)
	}
	return all
}

// defaultVerifierTimeout is Harbor's, in milliseconds.
const defaultVerifierTimeout = 600_000

func (s taskSettings) timeout() int64 {
	seconds := s.Verifier.TimeoutSec
	if !(seconds >= 0.001 && seconds <= math.MaxInt32/1000) {
		return defaultVerifierTimeout
	}
	return int64(seconds * 1000)
}

// env are the variables that a case may set. Harbor fills ${NAME} from the
// machine of whoever starts it, which a service does not.
func (t *task) env(given map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, ok := expand(given[name])
		reason := taskpkg.RefusedVariable(name)
		switch {
		case reason != "":
			t.warn("the variable " + name + " is left out: " + reason)
		case !ok:
			t.warn("the variable " + name + " is left out: its value would come from the machine that starts the task")
		default:
			all[name] = value
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`)

// expand puts defaults in the place of ${NAME:-default}; false if there is
// none.
func expand(value string) (string, bool) {
	ok := true
	value = placeholder.ReplaceAllStringFunc(value, func(p string) string {
		_, fallback, given := strings.Cut(p[2:len(p)-1], ":-")
		ok = ok && given
		return fallback
	})
	return value, ok
}
