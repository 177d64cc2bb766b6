package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Reasons why a skill is not listed: hosts compare the frontmatter field by field
// with what their own parser reads, and refuse the skill on a difference.
var (
	// The texts follow "the skill is not listed: " and are shown to its publisher.
	errNoSkillFile = errors.New("it has no SKILL.md, in capitals, at its root")
	errFrontmatter = errors.New("its frontmatter is not valid YAML; values with a colon need quotes")
	errFence       = errors.New("its frontmatter has --- inside a value")
	errFeature     = errors.New("its frontmatter has anchors, aliases, tags or keys that are no text")
	errNumber      = errors.New("its frontmatter has a number that JSON does not have")
	errName        = errors.New("the name in its SKILL.md is not that of its entry")
	errReserved    = errors.New("its name is reserved in addresses")
)

const (
	// maxNodes and maxNesting bound a frontmatter.
	maxNodes   = 10_000
	maxNesting = 32
)

// frontmatter returns all fields of a SKILL.md as JSON, in their order and with
// their types. The error is one of those above. What skillpkg repairs or notes is
// refused here: other parsers do not repair it.
func frontmatter(skillMD []byte) (fields json.RawMessage, name string, err error) {
	parsed, err := skillpkg.ParseSkill(skillMD)
	if err != nil {
		return nil, "", errFrontmatter
	}
	for _, n := range parsed.Notes {
		if n.Code == skillpkg.CodeAmbiguousFence {
			return nil, "", errFence
		}
		if n.Code == skillpkg.CodeRepaired {
			return nil, "", errFrontmatter
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(fenced(string(skillMD))))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil || len(document.Content) != 1 ||
		document.Content[0].Kind != yaml.MappingNode {
		return nil, "", errFrontmatter
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, "", errFrontmatter
	}
	e := encoder{}
	if err := e.value(document.Content[0], 0); err != nil {
		return nil, "", err
	}
	return e.out.Bytes(), parsed.Name, nil
}

// fenced returns the lines between the fences of a SKILL.md that was parsed.
// skillpkg has found the fences already, so both are there.
func fenced(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	_, text, _ = strings.Cut(text, "\n")
	end := 0
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \t\n") == "---" {
			break
		}
		end += len(line)
	}
	return text[:end]
}

// An encoder writes nodes of YAML as JSON. The conversion is by hand, since decoding
// into Go values loses the order of keys and the difference between 1 and 1.0.
type encoder struct {
	out   bytes.Buffer
	nodes int
}

// value writes any node, and fails for what has no single meaning in JSON.
func (e *encoder) value(n *yaml.Node, depth int) error {
	if e.nodes++; e.nodes > maxNodes || depth > maxNesting {
		return errFrontmatter
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 {
		return errFeature
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return e.scalar(n)
	case yaml.SequenceNode:
		e.out.WriteByte('[')
		for i, child := range n.Content {
			if i > 0 {
				e.out.WriteByte(',')
			}
			if err := e.value(child, depth+1); err != nil {
				return err
			}
		}
		e.out.WriteByte(']')
		return nil
	case yaml.MappingNode:
		return e.mapping(n, depth)
	}
	return errFrontmatter
}

// mapping refuses a key that occurs twice: parsers disagree on which one wins.
func (e *encoder) mapping(n *yaml.Node, depth int) error {
	e.out.WriteByte('{')
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 || key.Value == "<<" {
			return errFeature
		}
		if seen[key.Value] {
			return errFrontmatter
		}
		seen[key.Value] = true
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.text(key.Value)
		e.out.WriteByte(':')
		if err := e.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	e.out.WriteByte('}')
	return nil
}

// text writes a string, escaped.
func (e *encoder) text(s string) {
	raw, _ := json.Marshal(s) // texts always marshal
	e.out.Write(raw)
}

// Plain scalars of the core schema of YAML 1.2. Others are text, such as dates, and
// yes and no, which parsers of YAML 1.1 read otherwise.
var (
	coreNull  = regexp.MustCompile(`^(?:null|Null|NULL|~|)$`)
	coreTrue  = regexp.MustCompile(`^(?:true|True|TRUE)$`)
	coreFalse = regexp.MustCompile(`^(?:false|False|FALSE)$`)
	coreInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreOther = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	coreFloat = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	coreNone  = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// scalar writes a plain scalar by the core schema, and a quoted one as text.
func (e *encoder) scalar(n *yaml.Node) error {
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		e.text(n.Value)
		return nil
	}
	switch text := n.Value; {
	case coreNull.MatchString(text):
		e.out.WriteString("null")
	case coreTrue.MatchString(text):
		e.out.WriteString("true")
	case coreFalse.MatchString(text):
		e.out.WriteString("false")
	case coreOther.MatchString(text):
		number, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return errNumber
		}
		e.out.WriteString(strconv.FormatUint(number, 10))
	// JSON has no plus sign and no leading zeros.
	case coreInt.MatchString(text):
		digits := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0")
		if digits == "" {
			digits = "0"
		} else if text[0] == '-' {
			digits = "-" + digits
		}
		if len(digits) > maxDigits {
			return errNumber
		}
		e.out.WriteString(digits)
	case coreFloat.MatchString(text):
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(number, 0) {
			return errNumber
		}
		raw, _ := json.Marshal(number) // a finite number always marshals
		e.out.Write(raw)
	case coreNone.MatchString(text):
		return errNumber
	default:
		e.text(text)
	}
	return nil
}

// maxDigits is how long an integer may be: more is no number in most languages.
const maxDigits = 15
