package agents

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// Limits of what is kept of an agent's output.
const (
	maxOutput = 16 << 20
	maxCalls  = 10_000
	maxDetail = 1 << 10
	maxFinal  = 256 << 10
	maxShown  = 4 << 10 // of stdout and stderr
)

// splitLines returns the lines of an output whose beginning may be missing.
func splitLines(out sandbox.Output) [][]byte {
	all := out.Tail
	if out.Discarded > 0 {
		_, all, _ = bytes.Cut(all, []byte("\n"))
	}
	return bytes.Split(all, []byte("\n"))
}

// decode reads a line of JSON, and reports whether it is one.
func decode(line []byte, into any) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] == '{' && json.Unmarshal(line, into) == nil
}

func (t *transcript) say(message string) {
	if message != "" {
		t.final = text.Clean(text.Truncate(message, maxFinal))
	}
}

func (t *transcript) fail(kind FailureKind, message string) {
	t.failure = &Failure{kind, text.Ellipsis(text.PlainLine(message), 500)}
}

// skillFile finds the path of a SKILL.md in a text, e.g. in a shell command.
var skillFile = regexp.MustCompile(`[^\s"'` + "`" + `;|&<>()]*/SKILL\.md\b`)

// skillIn returns the skill whose SKILL.md a text names, or "".
func skillIn(s string) string {
	found := skillFile.FindString(s)
	if found == "" {
		return ""
	}
	return path.Base(strings.TrimSuffix(found, "/SKILL.md"))
}
