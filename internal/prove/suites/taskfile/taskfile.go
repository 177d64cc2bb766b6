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
	StepsDir       = "steps/"

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
		// Carry are folders of the image, beside the working folders, that the verifier
		// finds as the solution left them.
		Carry []string `toml:"carry"`
	}
	Agent struct {
		TimeoutSec any `toml:"timeout_sec"`
	}
	Environment struct {
		DockerImage string            `toml:"docker_image"`
		BuildSec    any               `toml:"build_timeout_sec"`
		WorkDir     string            `toml:"workdir"`
		Env         map[string]string `toml:"env"`
		GPUs        int64             `toml:"gpus"`
		MCPServers  []map[string]any  `toml:"mcp_servers"`
		// Numbers of any type, or sizes like "4G" in older tasks.
		CPUs      any `toml:"cpus"`
		MemoryMB  any `toml:"memory_mb"`
		Memory    any `toml:"memory"`
		StorageMB any `toml:"storage_mb"`
		Storage   any `toml:"storage"`
	}
	Steps []Step
	// Strategy says how the rewards of the steps become that of the task: "mean",
	// which is the default, or "final".
	Strategy string
}

// A Step is a part of a task with an instruction and a verifier of its own. Its files
// are in the folder of StepsDir that has its name.
type Step struct {
	Name string `toml:"name"`
	// MinReward is a number, or numbers by metric. The task ends with a step whose
	// reward is lower.
	MinReward any `toml:"min_reward"`
	Agent     struct {
		TimeoutSec any `toml:"timeout_sec"`
	} `toml:"agent"`
	Verifier struct {
		TimeoutSec any               `toml:"timeout_sec"`
		Env        map[string]string `toml:"env"`
	} `toml:"verifier"`
}

// Continues reports whether the next step may begin, given the reward and the metrics
// of this one.
func (s Step) Continues(reward float64, metrics map[string]float64) bool {
	least, ok := s.MinReward.(map[string]any)
	if !ok {
		return reward >= number(s.MinReward)
	}
	for name, value := range least {
		if metrics[name] < number(value) {
			return false
		}
	}
	return true
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
		Agent       *toml.Primitive `toml:"agent"`
		Environment *toml.Primitive `toml:"environment"`
		Steps       *toml.Primitive `toml:"steps"`
		Strategy    *toml.Primitive `toml:"multi_step_reward_strategy"`
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
		{file.Agent, &s.Agent},
		{file.Environment, &s.Environment},
		{file.Steps, &s.Steps},
		{file.Strategy, &s.Strategy},
	} {
		if section.from != nil {
			err = cmp.Or(err, md.PrimitiveDecode(*section.from, section.into))
		}
	}
	return s, err
}

// Title returns the name of the task, or "".
func (s Settings) Title() string {
	if s.Task.Name != "" {
		return s.Task.Name
	}
	return s.Name
}

// Tags returns the tags of the task, and its category as another one.
func (s Settings) Tags() []string {
	tags := slices.Clone(s.Metadata.Tags)
	if c := s.Metadata.Category; c != "" && !slices.Contains(tags, c) {
		tags = append(tags, c)
	}
	return tags
}

// defaultTimeoutMS is Harbor's default for verifiers, in milliseconds.
const defaultTimeoutMS = 600_000

// TimeoutMS returns how long the verifier may run, in milliseconds.
func (s Settings) TimeoutMS() int64 {
	seconds := s.Verifier.TimeoutSec
	if !(seconds >= 0.001 && seconds <= math.MaxInt32/1000) { // also false for NaN
		return defaultTimeoutMS
	}
	return int64(seconds * 1000)
}

// Compose is a docker-compose.yaml.
type Compose struct {
	Services map[string]Service `yaml:"services"`
}

// Image returns the image of the only service, unless it is built; else "".
func (c Compose) Image() string {
	if len(c.Services) != 1 {
		return ""
	}
	for _, s := range c.Services {
		if !s.Builds() {
			return s.Image
		}
	}
	return ""
}

// A Service of a docker-compose.yaml is a container.
type Service struct {
	Image       string           `yaml:"image"`
	Build       *Build           `yaml:"build"`
	WorkingDir  string           `yaml:"working_dir"`
	Environment ServiceVariables `yaml:"environment"`
}

// Builds reports whether a Dockerfile makes the image: the service says so, or its
// image is a variable, which is how Harbor names an image that it builds.
func (s Service) Builds() bool {
	return s.Build != nil || s.Image == "" || strings.Contains(s.Image, "$")
}

// Build says how the image of a service is built.
type Build struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile"`
}

// UnmarshalYAML also accepts the short form, the path of the context.
func (b *Build) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&b.Context)
	}
	type plain Build
	return node.Decode((*plain)(b))
}

// IsDefault reports whether environment/Dockerfile makes the image, in its own folder.
// Harbor has that folder in the variable CONTEXT_DIR.
func (b *Build) IsDefault() bool {
	if b == nil {
		return true
	}
	folder, file := strings.TrimSuffix(b.Context, "/"), strings.TrimPrefix(b.Dockerfile, "./")
	return (folder == "" || folder == "." || strings.HasPrefix(folder, "${CONTEXT_DIR")) && (file == "" || file == "Dockerfile")
}

// ServiceVariables are the environment variables of a service.
type ServiceVariables map[string]string

// UnmarshalYAML accepts a map, or a list of NAME=VALUE. A variable without a value
// comes from the machine that starts the task, so it becomes ${NAME} (see
// ExpandDefaults).
func (v *ServiceVariables) UnmarshalYAML(node *yaml.Node) error {
	all := map[string]string{}
	if node.Kind != yaml.SequenceNode {
		if err := node.Decode(&all); err != nil {
			return err
		}
		*v = all
		return nil
	}
	var list []string
	if err := node.Decode(&list); err != nil {
		return err
	}
	for _, variable := range list {
		name, value, given := strings.Cut(variable, "=")
		if !given {
			value = "${" + name + "}"
		}
		all[name] = value
	}
	*v = all
	return nil
}

// ParseCompose parses a docker-compose.yaml.
func ParseCompose(text string) (c Compose, err error) {
	return c, yaml.Unmarshal([]byte(text), &c)
}

// ImageName returns the name of an image reference without the registry's default,
// the tag and the digest, e.g. "python" for "docker.io/library/python:3.12@sha256:...".
func ImageName(image string) string {
	image = strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(image, ":")
	return image
}
