package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// claudeEvents are the events of Claude Code that the hook is called for: the end
// of each turn, and that of the session. Stop alone would miss what happens after the last
// answer; SessionEnd alone, sessions that are killed.
var claudeEvents = []string{"Stop", "SessionEnd"}

// claudeSettings is settings.json of Claude Code, which has matchers with hooks by
// event:
//
//	{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "..."}]}]}}
//
// The file is edited as text, since encoding it again would lose the user's layout and order.
type claudeSettings struct{}

type claudeMatcher struct {
	Hooks []claudeHook `json:"hooks"`
}

type claudeHook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"` // seconds
}

func (claudeSettings) installed(content []byte) (string, error) {
	root, err := parseSettings(content)
	if err != nil {
		return "", err
	}
	for _, event := range claudeEvents {
		if path := findOurs(content, root, event); path != nil {
			return commandOf(content, path[len(path)-1]), nil
		}
	}
	return "", nil
}

// add parses the content anew after each insertion, because all offsets have changed.
func (claudeSettings) add(content []byte, program string, flags []string) ([]byte, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		content = []byte("{}\n")
	}
	matcher := claudeMatcher{[]claudeHook{{"command", commandLine(program, ClaudeCode, "", flags), 10}}}
	for _, event := range claudeEvents {
		root, err := parseSettings(content)
		if err != nil {
			return nil, err
		}
		hooks, ok := root.member("hooks")
		if !ok {
			content = insertMember(content, root, "hooks", map[string][]claudeMatcher{event: {matcher}})
			continue
		}
		if hooks.kind != '{' {
			return nil, broken("hooks must be an object", lineAt(content, hooks.start))
		}
		matchers, ok := hooks.member(event)
		switch {
		case !ok:
			content = insertMember(content, hooks, event, []claudeMatcher{matcher})
		case matchers.kind != '[':
			return nil, broken("hooks."+event+" must be an array", lineAt(content, matchers.start))
		default:
			// Add an item to an array, after the others.
			indent, compact := matchers.indent(content)
			content = insertText(content, matchers, marshal(matcher, indent, compact))
		}
	}
	return content, nil
}

// remove deletes what becomes empty with the hook: its matcher, the event, all
// hooks. Hooks of the user's in the same matcher stay, and so does an event that has others.
func (claudeSettings) remove(content []byte) ([]byte, error) {
	for i := 0; i < len(claudeEvents); {
		root, err := parseSettings(content)
		if err != nil {
			return nil, err
		}
		path := findOurs(content, root, claudeEvents[i])
		if path == nil {
			i++
			continue
		}
		at := len(path) - 1 // of the hook
		if len(path[at-1].children) == 1 {
			at -= 2 // of the matcher
		}
		for at > 1 && at < len(path)-1 && len(path[at-1].children) == 1 {
			at--
		}
		// Two values of one text never begin at the same place.
		c := path[at]
		content = deleteChild(content, path[at-1], slices.IndexFunc(path[at-1].children,
			func(other value) bool { return other.start == c.start }))
	}
	return content, nil
}

// equal ignores that remove deletes what is empty. Otherwise a user's empty "hooks": {} would
// look like a change of ours.
func (claudeSettings) equal(a, b []byte) bool {
	mean := func(content []byte) (meaning map[string]any) {
		if json.Unmarshal(content, &meaning) != nil && len(bytes.TrimSpace(content)) > 0 {
			return map[string]any{"invalid": string(content)}
		}
		if hooks, ok := meaning["hooks"].(map[string]any); ok {
			for event, matchers := range hooks {
				if all, ok := matchers.([]any); ok && len(all) == 0 {
					delete(hooks, event)
				}
			}
			if len(hooks) == 0 {
				delete(meaning, "hooks")
			}
		}
		return meaning
	}
	x, y := mean(a), mean(b)
	return len(x)+len(y) == 0 || reflect.DeepEqual(x, y)
}

// findOurs returns our hook of an event with all that it lies in, from the root
// down; nil if there is none.
func findOurs(content []byte, root value, event string) []value {
	hooks, _ := root.member("hooks")
	matchers, _ := hooks.member(event)
	for _, matcher := range matchers.children {
		inner, _ := matcher.member("hooks")
		for _, h := range inner.children {
			if isCommandLine(commandOf(content, h)) {
				return []value{root, hooks, matchers, matcher, inner, h}
			}
		}
	}
	return nil
}

// commandOf returns the command of a hook, "" if it is another kind of hook. A hook of a newer
// form is left alone.
func commandOf(content []byte, v value) string {
	var hook claudeHook
	if json.Unmarshal(content[v.start:v.end], &hook) != nil {
		return ""
	}
	return hook.Command
}

// parseSettings takes an empty file as an empty object, as the agent does.
func parseSettings(content []byte) (value, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return value{kind: '{'}, nil
	}
	root, err := parseJSON(content)
	if err == nil && root.kind != '{' {
		err = broken("the settings must be an object", lineAt(content, root.start))
	}
	return root, err
}

// marshal renders a value that stands at an indentation. It undoes the escapes of encoding/json
// for HTML, which would make a shell command hard to read.
func marshal(v any, indent string, compact bool) string {
	raw, err := json.Marshal(v)
	if !compact {
		raw, err = json.MarshalIndent(v, indent, "  ")
	}
	if err != nil {
		panic(fault.New(fault.Internal, "%s", err)) // they are structs of texts
	}
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(raw))
}

// insertMember adds a member to an object, after the others.
func insertMember(content []byte, object value, name string, v any) []byte {
	indent, compact := object.indent(content)
	colon := ": "
	if compact {
		colon = ":"
	}
	return insertText(content, object, fmt.Sprintf("%q%s%s", name, colon, marshal(v, indent, compact)))
}
