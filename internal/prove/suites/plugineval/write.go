package plugineval

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Written returns the files of a case that was imported from a folder and may have
// been changed since: the same files if it was not, else a case.yaml with all that
// the folder said and the case does not.
func (c Case) Written(name string, imported Folder) (Folder, error) {
	definition := map[string]any{"schema_version": schemaVersion}
	if before, err := merge(name, imported); err == nil && len(imported) > 0 {
		if was, err := parse(before); err == nil && was.same(c) {
			return imported, nil
		}
		definition = before
	}
	return c.write(definition)
}

// same reports whether two cases have the same fields, whatever their files look like.
func (c Case) same(other Case) bool {
	return reflect.DeepEqual(c.fields(), other.fields())
}

// fields returns the fields of a case as JSON values, by their names in case.yaml.
func (c Case) fields() map[string]any {
	var graders any
	d := json.NewDecoder(bytes.NewReader(c.Graders))
	d.UseNumber()
	_ = d.Decode(&graders) // they were parsed before
	return map[string]any{
		"name": c.Name, "description": c.Description, "tags": append([]string{}, c.Tags...),
		"expected_outcome": c.ExpectedOutcome,
		"prompt":           c.Prompt, "max_turns": c.MaxTurns, "timeout_seconds": c.TimeoutS, "graders": graders,
	}
}

// write encodes the case as a case.yaml, keeping the other keys of a definition.
func (c Case) write(d map[string]any) (Folder, error) {
	d = maps.Clone(d)
	execution, _ := d["execution"].(map[string]any)
	execution = maps.Clone(execution)
	if execution == nil {
		execution = map[string]any{}
	}
	for key, value := range c.fields() {
		switch {
		case key == "prompt" || key == "max_turns" || key == "timeout_seconds":
			execution[key] = value
		case value == "" || key == "tags" && len(c.Tags) == 0:
			delete(d, key)
		default:
			d[key] = value
		}
	}
	d["execution"] = execution
	root, err := toNode(d, 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return Folder{caseFile: b.String()}, encoder.Close()
}

// keyOrder is the usual order of keys in a case.yaml; other keys follow.
var keyOrder = []string{
	"schema_version", "name", "type", "description", "tags", "plugins", "runs", "weight", "arm", "context", "execution", "prompt",
	"graders",
}

// toNode encodes a JSON value as YAML, with keys in the usual order.
func toNode(value any, depth int) (*yaml.Node, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("the case is too deeply nested")
	}
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		keys := slices.Sorted(maps.Keys(v))
		slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
		for _, key := range keys {
			item, err := toNode(v[key], depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, item)
		}
		return n, nil
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, element := range v {
			item, err := toNode(element, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	}
	n := &yaml.Node{}
	return n, n.Encode(value)
}

func rank(key string) int {
	if i := slices.Index(keyOrder, key); i >= 0 {
		return i
	}
	return len(keyOrder)
}

// A Member is a case of an archive.
type Member struct {
	Dir   string // preferred; another one is used if it is taken or not a safe path
	Name  string
	Files Folder
}

// Archive writes a zip of cases below the folder evals. It is reproducible: the same
// cases give the same bytes.
func Archive(members []Member) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	var taken []string
	for i, m := range members {
		dir := folderOf(m, i)
		if slices.ContainsFunc(taken, func(other string) bool { return overlap(dir, other) }) {
			dir = fmt.Sprintf("case-%d", i+1)
		}
		taken = append(taken, dir)
		for _, name := range slices.Sorted(maps.Keys(m.Files)) {
			f, err := w.Create(path.Join("evals", dir, name))
			if err != nil {
				return nil, err
			}
			if _, err := f.Write([]byte(m.Files[name])); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// overlap reports whether one folder is within the other, whatever the case of letters,
// which some file systems ignore. A folder within that of a case isn't a case.
func overlap(a, b string) bool {
	a, b = strings.ToLower(a)+"/", strings.ToLower(b)+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

var (
	plainPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._ -]*(/[A-Za-z0-9][A-Za-z0-9._ -]*)*$`)
	notPlain  = regexp.MustCompile(`[^a-z0-9]+`)
)

// folderOf returns the folder of a case in an archive. What a case asks for may come
// from anyone, so only a plain relative path is accepted (zip slip).
func folderOf(m Member, index int) string {
	if len(m.Dir) <= 200 && plainPath.MatchString(m.Dir) && fs.ValidPath(m.Dir) && !isReserved(m.Dir) {
		return m.Dir
	}
	name := strings.Trim(notPlain.ReplaceAllString(strings.ToLower(m.Name), "-"), "-")
	if name == "" || len(name) > 100 || isReserved(name) || strings.HasPrefix(name, "case-") {
		return fmt.Sprintf("case-%d", index+1)
	}
	return name
}

// isReserved reports whether Claude Code would read a folder as something else.
func isReserved(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
		return slices.Contains([]string{"mocks", "results", "graders", "node_modules"}, name)
	})
}

// Definitions returns the files of a case as an API client may have sent them, or nil
// if they aren't files that define a case.
func Definitions(files map[string]string) Folder {
	for name, text := range files {
		if !IsDefinition(name) || !fs.ValidPath(name) || strings.ContainsAny(name, "\\:\x00") || !utf8.ValidString(name+text) {
			return nil
		}
	}
	return files
}
