package skillpkg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxNodes and maxNesting limit what aliases and brackets can expand to (a
	// "billion laughs" attack).
	maxNodes   = 10_000
	maxNesting = 32
)

// parseBlock parses the text between the fences into s.Fields. A value with an
// unquoted colon, the most common mistake, is repaired.
func (s *Skill) parseBlock(block string) error {
	root, err := parseYAML(block)
	if err != nil {
		repaired, line := quoteColons(block)
		if line == 0 {
			return yamlError(err)
		}
		var again error
		if root, again = parseYAML(repaired); again != nil {
			// The original error: it is about what the author wrote, not about our
			// repair.
			return yamlError(err)
		}
		s.note(CodeRepaired, line, "the value needs quotes")
	}
	if root.Kind != yaml.MappingNode {
		return skillError(CodeNotMapping, 1, "the frontmatter of SKILL.md must be key: value lines")
	}
	// Values are converted by hand, not decoded into an any: that would turn a
	// version 1.0 into a number and a date into a time.
	c := &converter{}
	if s.Fields, err = c.fields(root); err != nil {
		return err
	}
	if c.feature != 0 {
		s.note(CodeYAMLFeature, c.feature, "anchors, aliases, tags and flow style are refused by strict readers")
	}
	return nil
}

// parseYAML returns the root of the one document in a block, or the zero Node if
// it is empty. A line is added for the opening fence, so that line numbers are
// those of the file.
func parseYAML(block string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader("\n" + block))
	var document, next yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return &yaml.Node{}, nil
	}
	if err != nil {
		return nil, err
	}
	// E.g. after a line "...": some readers would see the next document, others not.
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("yaml: more than one document")
	}
	if len(document.Content) == 0 {
		return &yaml.Node{}, nil
	}
	return document.Content[0], nil
}

// yamlError returns the parser's error with its line, which may be the one
// before.
func yamlError(err error) *Error {
	detail := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if n, _ := fmt.Sscanf(detail, "line %d:", &line); n == 0 {
		line = 1
	}
	return skillError(CodeYAMLInvalid, line, "the frontmatter of SKILL.md is not valid YAML: %s", detail)
}

// plainPair matches a line with a key and a plain value: text without quotes.
var plainPair = regexp.MustCompile(`^( *[A-Za-z0-9_.-]+:[ \t]+)([^\s"'\[{|>&*!#%@` + "`" + `].*)$`)

// blockHead matches the head of a block scalar: deeper lines are text, not YAML.
var blockHead = regexp.MustCompile(`:[ \t]+[|>][-+0-9]*[ \t]*(#.*)?$`)

// quoteColons makes YAML of what many people write, e.g. "description: Use when:
// always". It quotes the values of a block that contain a colon, and returns the
// line in the file of the first one, or 0 if there is none.
func quoteColons(block string) (string, int) {
	lines := strings.Split(block, "\n")
	first := 0
	text := -1 // indentation of the current block scalar's key, or -1
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if text >= 0 && (indent > text || strings.TrimSpace(line) == "") {
			continue
		}
		text = -1
		if blockHead.MatchString(line) {
			text = indent
			continue
		}
		pair := plainPair.FindStringSubmatch(line)
		if pair == nil || !strings.Contains(pair[2]+" ", ": ") {
			continue
		}
		// Single quotes, in which only the quote itself needs escaping, by doubling
		// it.
		lines[i] = pair[1] + "'" + strings.ReplaceAll(strings.TrimSpace(pair[2]), "'", "''") + "'"
		if first == 0 {
			// Lines of the file are counted from 1, and the opening fence is the
			// first.
			first = i + 2
		}
	}
	return strings.Join(lines, "\n"), first
}

// A converter turns YAML nodes into values in which every scalar is text.
type converter struct {
	nodes   int
	feature int // line of the first anchor, alias, tag or flow style, or 0
}

// fields returns the top level in the order of the file, which Fields promises.
func (c *converter) fields(mapping *yaml.Node) ([]Field, error) {
	c.noteFeature(mapping)
	var fields []Field
	seen := map[string]bool{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, err := c.key(mapping.Content[i], seen)
		if err != nil {
			return nil, err
		}
		value, err := c.value(mapping.Content[i+1], 1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, Field{Key: key, Value: value, Line: mapping.Content[i].Line})
	}
	return fields, nil
}

// key returns the text of a mapping's key, which must be new to seen.
func (c *converter) key(n *yaml.Node, seen map[string]bool) (string, error) {
	c.noteFeature(n)
	if n.Kind != yaml.ScalarNode {
		return "", skillError(CodeYAMLInvalid, n.Line, "a key of the frontmatter is not text; write key: value")
	}
	if seen[n.Value] {
		return "", skillError(CodeYAMLInvalid, n.Line,
			"the frontmatter of SKILL.md has the key %s twice; keep one", quote(n.Value))
	}
	seen[n.Value] = true
	return n.Value, nil
}

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	c.noteFeature(n)
	// Every visit counts, also of a node that an alias repeats: ten aliases of ten
	// aliases would be small in the file and huge in memory.
	if c.nodes++; c.nodes > maxNodes || depth > maxNesting {
		return nil, skillError(CodeYAMLInvalid, n.Line,
			"the frontmatter of SKILL.md is nested too deeply or repeats itself; simplify it")
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := []any{}
		for _, child := range n.Content {
			v, err := c.value(child, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return c.mapping(n, depth)
	}
	return nil, skillError(CodeYAMLInvalid, n.Line,
		"the frontmatter of SKILL.md cannot be understood; write key: value lines")
}

// mapping converts a nested mapping, where the order of keys means nothing.
func (c *converter) mapping(n *yaml.Node, depth int) (any, error) {
	values := map[string]any{}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := c.key(n.Content[i], seen)
		if err != nil {
			return nil, err
		}
		if values[key], err = c.value(n.Content[i+1], depth+1); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// noteFeature records the first use of a feature that strict parsers refuse.
func (c *converter) noteFeature(n *yaml.Node) {
	fancy := n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&(yaml.TaggedStyle|yaml.FlowStyle) != 0
	if fancy && c.feature == 0 {
		c.feature = n.Line
	}
}

// asJSON encodes a nested value as text. It is for metadata, whose values the
// specification wants to be text.
func asJSON(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}
