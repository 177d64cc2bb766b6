package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// judgeModel is the name of the judge's model among those that agents may ask. An operator's
// model can't take it; see checkModels.
const judgeModel = "judge"

// modelName is also the model in requests.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$`)

// Models returns the models that agents may ask: those of the settings by name,
// then the judge's. The builtin judge is no model on a server, so it has no entry.
func (c *Config) Models() []gateway.Model {
	var all []gateway.Model
	for _, name := range slices.Sorted(maps.Keys(c.Model)) {
		all = append(all, gateway.Model{
			Name: name, API: gateway.API(c.ModelAPI[name]), URL: string(c.Model[name]), Key: string(c.ModelKey[name]),
		})
	}
	if c.JudgeAPI != judge.Builtin && c.JudgeURL != "" {
		all = append(all, gateway.Model{
			Name: judgeModel, ID: c.JudgeModel, API: gateway.API(c.JudgeAPI), URL: string(c.JudgeURL), Key: string(c.JudgeKey),
		})
	}
	return all
}

// AgentCommands returns the agents of the operator's own. The error is Malformed.
func (c *Config) AgentCommands() (map[string]agents.Command, error) {
	all := map[string]agents.Command{}
	for name, raw := range c.AgentCommand {
		command, err := agents.ParseCommand(name, raw)
		if err != nil {
			return nil, err
		}
		all[name] = command
	}
	return all, nil
}

// checkModels reports problems by setting. gateway.New is asked last, since its message can't
// name one.
func (c *Config) checkModels() (issues []fault.Issue) {
	bad := func(setting, format string, args ...any) {
		issues = append(issues, fault.At(setting, setting+" "+format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Model)) {
		if !modelName.MatchString(name) || name == judgeModel {
			bad("model", "must be NAME=URL, where NAME is the model in requests, and not judge; %q is none", name)
		}
		if u := c.Model[name]; !u.hasScheme("http", "https") {
			bad("model", "must have a URL like https://... for %s", name)
		}
		if !slices.Contains(gateway.APIs(), gateway.API(c.ModelAPI[name])) {
			var names []string
			for _, api := range gateway.APIs() {
				names = append(names, string(api))
			}
			bad("model-api", "must give %s one of the wire formats %s", name, strings.Join(names, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.ModelAPI)) {
		if _, ok := c.Model[name]; !ok {
			bad("model-api", "must name a model of --model; %q is none", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.ModelKey)) {
		if _, ok := c.Model[name]; !ok {
			bad("model-key", "must name a model of --model; %q is none", name)
		}
	}
	if len(issues) > 0 {
		return issues
	}
	if _, err := gateway.New(gateway.Options{Models: c.Models()}); err != nil {
		bad("model", "must be usable: %s", err)
	}
	if _, err := c.AgentCommands(); err != nil {
		bad("agent-command", "must be right: %s", err)
	}
	return issues
}
