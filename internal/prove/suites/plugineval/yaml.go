package plugineval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxNodes and maxNesting limit what aliases and brackets can expand to (a
	// "billion laughs" attack).
	maxNodes   = 50_000
	maxNesting = 32
	// maxFile bounds a file, as Claude Code does.
	maxFile = 1 << 20
)

// decodeYAML decodes a document that must be a mapping, to values as encoding/json has
// them; an empty one is nil.
func decodeYAML(text string) (none map[string]any, err error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it is over the limit of %d bytes", maxFile)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document yaml.Node
	err = decoder.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0 {
		return none, nil // an empty document has no fields
	}
	if err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document")
	}
	value, err := (&converter{}).value(document.Content[0], 0)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return none, nil // an empty document has no fields
	case map[string]any:
		return v, nil
	}
	return nil, errors.New("it must be a YAML object")
}

// A converter turns YAML nodes into JSON values, and counts them.
type converter struct{ nodes int }

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if c.nodes++; c.nodes > maxNodes || depth > maxNesting {
		return nil, errors.New("the YAML is too large or too deeply nested")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.MappingNode:
		all := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				return nil, fmt.Errorf("line %d: the keys must be plain", key.Line)
			}
			if _, twice := all[key.Value]; twice {
				return nil, fmt.Errorf("line %d: the key %q is there twice", key.Line, key.Value)
			}
			value, err := c.value(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			all[key.Value] = value
		}
		return all, nil
	case yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i, item := range n.Content {
			value, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			all[i] = value
		}
		return all, nil
	case yaml.ScalarNode:
		return scalar(n), nil
	}
	return nil, fmt.Errorf("line %d: the YAML cannot be read", n.Line)
}

// scalar returns a JSON value; a date is a string, as in YAML 1.2.
func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		var number float64
		if n.Decode(&number) == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return json.Number(strconv.FormatFloat(number, 'f', -1, 64))
		}
	}
	return n.Value
}
