package suites

import (
	"fmt"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
)

// settings reads task.toml and refuses what no sandbox here can give.
func (t *task) settings() (s taskfile.Settings, err error) {
	text, _, err := t.read(taskfile.Manifest)
	if err != nil {
		return s, err
	}
	s, problem := taskfile.ParseManifest(text)
	if problem != nil {
		t.refuse("its task.toml cannot be read: " + problem.Error())
		return s, nil
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

// env are the variables that a case may set. Harbor fills ${NAME} from the
// machine of whoever starts it, which a service does not.
func (t *task) env(given map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, ok := taskfile.ExpandDefaults(given[name])
		reason := taskfile.RefusedVariable(name)
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
