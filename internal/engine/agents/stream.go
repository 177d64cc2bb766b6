package agents

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// Limits of what is kept of an agent's output.
const (
	maxOutput = 4 << 20
	maxCalls  = 10_000
	maxDetail = 1 << 10
	maxFinal  = 256 << 10
	maxShown  = 4 << 10 // of stdout and stderr
)

// lastText returns the end of an output, which is shown with a failed trial. A few bytes more are
// taken at first, since the cut may fall into a character.
func lastText(out sandbox.Output) string {
	return text.Clean(text.Tail(string(out.Tail[max(0, len(out.Tail)-maxShown-utf8.UTFMax):]), maxShown))
}

// decode reads a line of JSON, and reports whether it is one.
func decode(line []byte, into any) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] == '{' && json.Unmarshal(line, into) == nil
}

// say replaces the final message: the last one counts.
func (t *transcript) say(message string) {
	if message != "" {
		t.final = text.Clean(text.Truncate(message, maxFinal))
	}
}

// fail records why the agent failed. The message may come from the model's server, so it is cleaned
// and truncated.
func (t *transcript) fail(kind FailureKind, message string) {
	t.failure = &Failure{kind, text.Ellipsis(text.PlainLine(message), 500)}
}

// skillFile finds the path of a SKILL.md in a text, e.g. in a shell command. Quotation marks and
// operators of the shell end the path.
var skillFile = regexp.MustCompile(`[^\s"'` + "`" + `;|&<>()]*/SKILL\.md\b`)

// skillIn returns the skill whose SKILL.md a text names, or "".
func skillIn(s string) string {
	found := skillFile.FindString(s)
	if found == "" {
		return ""
	}
	return path.Base(strings.TrimSuffix(found, "/SKILL.md"))
}
