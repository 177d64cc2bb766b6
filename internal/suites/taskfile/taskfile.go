// Package taskfile parses the files of a task folder in the format of Harbor
// and SkillsBench: task.toml, docker-compose.yaml, the Dockerfile and the
// scripts. The import of suites and the runner of task packages both use it, so
// that they agree on what a task needs. It owns no tables.
package taskfile

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// The paths in a task folder.
const (
	Manifest    = "task.toml"
	Instruction = "instruction.md"
	// EnvironmentDir is the build context of the task's container.
	EnvironmentDir = "environment/"
	Dockerfile     = EnvironmentDir + "Dockerfile"
	Solution       = "solution/solve.sh"

	// DefaultVerifier and DefaultSkillBundle are the paths of the verifier and
	// of the skill under test in a case that names none.
	DefaultVerifier    = "tests/test.sh"
	DefaultSkillBundle = "skill-under-test"
)

// ComposeFiles are the names that Docker Compose reads, the preferred one first.
var ComposeFiles = []string{EnvironmentDir + "docker-compose.yaml", EnvironmentDir + "docker-compose.yml"}

// Settings are the keys of task.toml that matter to the service.
type Settings struct {
	Name string
	Task struct {
		Name string `toml:"name"`
	}
	Metadata struct {
		Tags     []string `toml:"tags"`
		Category string   `toml:"category"`
	}
	Verifier struct {
		TimeoutSec float64           `toml:"timeout_sec"`
		Env        map[string]string `toml:"env"`
	}
	Environment struct {
		DockerImage string           `toml:"docker_image"`
		GPUs        int64            `toml:"gpus"`
		MCPServers  []map[string]any `toml:"mcp_servers"`
	}
	Steps []map[string]any
}

// ParseManifest parses a task.toml. With an error the settings hold the
// sections that could be read: keys of another type than ours may come from
// another version of the format, and must not hide what the other sections say.
func ParseManifest(text string) (s Settings, err error) {
	var file struct {
		Name        *toml.Primitive `toml:"name"`
		Task        *toml.Primitive `toml:"task"`
		Metadata    *toml.Primitive `toml:"metadata"`
		Verifier    *toml.Primitive `toml:"verifier"`
		Environment *toml.Primitive `toml:"environment"`
		Steps       *toml.Primitive `toml:"steps"`
	}
	md, err := toml.Decode(text, &file)
	if err != nil {
		return s, err
	}
	for _, section := range []struct {
		from *toml.Primitive
		into any
	}{
		{file.Name, &s.Name},
		{file.Task, &s.Task},
		{file.Metadata, &s.Metadata},
		{file.Verifier, &s.Verifier},
		{file.Environment, &s.Environment},
		{file.Steps, &s.Steps},
	} {
		if section.from != nil {
			err = cmp.Or(err, md.PrimitiveDecode(*section.from, section.into))
		}
	}
	return s, err
}

// Title is the name of the task, or "".
func (s Settings) Title() string {
	if s.Task.Name != "" {
		return s.Task.Name
	}
	return s.Name
}

// Tags are the tags of the task, its category among them.
func (s Settings) Tags() []string {
	tags := slices.Clone(s.Metadata.Tags)
	if c := s.Metadata.Category; c != "" && !slices.Contains(tags, c) {
		tags = append(tags, c)
	}
	return tags
}

// defaultTimeoutMS is Harbor's default for verifiers, in milliseconds.
const defaultTimeoutMS = 600_000

// TimeoutMS is how long the verifier may run, in milliseconds.
func (s Settings) TimeoutMS() int64 {
	seconds := s.Verifier.TimeoutSec
	if !(seconds >= 0.001 && seconds <= math.MaxInt32/1000) { // also false for NaN
		return defaultTimeoutMS
	}
	return int64(seconds * 1000)
}

// Compose is a docker-compose.yaml.
type Compose struct {
	Services map[string]struct {
		Image string `yaml:"image"`
	} `yaml:"services"`
}

// ParseCompose parses a docker-compose.yaml.
func ParseCompose(text string) (c Compose, err error) {
	return c, yaml.Unmarshal([]byte(text), &c)
}

// DockerInstructions returns the instructions of a Dockerfile, each on one
// line: comments are left out, and continued lines are joined.
func DockerInstructions(text string) []string {
	var all []string
	continued := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			continued += rest + " "
			continue
		}
		all, continued = append(all, continued+line), ""
	}
	return all
}
