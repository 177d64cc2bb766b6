package hook

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// codexSettings is config.toml of Codex. Its setting notify is a program that Codex
// calls at the end of each turn; hooks, which it has as well, run only after a
// person has trusted them in its terminal. The file is edited as text, to keep comments.
type codexSettings struct{}

type codexConfig struct {
	Notify []string `toml:"notify"`
}

func (codexSettings) installed(content []byte) (string, error) {
	config, err := parseCodex(content)
	if err != nil || !config.isOurs() {
		return "", err
	}
	return config.Notify[2], nil
}

// isOurs reports whether Install wrote notify. The third of the four words is the command; see
// add.
func (c codexConfig) isOurs() bool { return len(c.Notify) == 4 && isCommandLine(c.Notify[2]) }

// add writes notify as the first line: below the header of a table it would belong
// to that.
func (codexSettings) add(content []byte, program string, flags []string) ([]byte, error) {
	config, err := parseCodex(content)
	if err != nil {
		return nil, err
	}
	if config.Notify != nil {
		return nil, fault.New(fault.Conflict, "The settings have notify = %q already, and Codex calls only one; remove it first, "+
			"or report sessions by OTLP", config.Notify)
	}
	// Codex appends the payload to the arguments; the one before it is $0.
	line := fmt.Sprintf("notify = [\"sh\", \"-c\", %s, \"whetstone\"]\n",
		tomlString(commandLine(program, Codex, `"$1"`, flags)))
	return append([]byte(line), content...), nil
}

// remove goes by lines. A notify that spans several was rewritten by somebody, and is an error.
func (codexSettings) remove(content []byte) ([]byte, error) {
	config, err := parseCodex(content)
	if err != nil || !config.isOurs() {
		return content, err
	}
	var kept []string
	for line := range strings.Lines(string(content)) {
		name, _, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != "notify" || !isCommandLine(line) {
			kept = append(kept, line)
		}
	}
	without := []byte(strings.Join(kept, ""))
	if config, err = parseCodex(without); err == nil && config.isOurs() {
		err = fault.New(fault.Conflict, "notify was rewritten by another program; remove it from the settings by hand")
	}
	return without, err
}

// equal compares the texts, since comments count, and remove undoes add exactly. Unlike JSON,
// there is nothing that remove deletes beside its own line.
func (codexSettings) equal(a, b []byte) bool { return bytes.Equal(a, b) }

func parseCodex(content []byte) (config codexConfig, err error) {
	err = toml.Unmarshal(content, &config)
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return config, broken("it is not valid TOML: "+e.Message, e.Position.Line)
	}
	if err != nil {
		return config, fault.New(fault.Malformed, "The settings are not those of Codex: %s; nothing was changed", err)
	}
	return config, nil
}

// tomlString quotes a text as a literal string where possible. A literal string needs no
// escapes, so a person can copy the command out of it.
func tomlString(text string) string {
	if !strings.Contains(text, "'") {
		return "'" + text + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
