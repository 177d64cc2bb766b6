package community

import (
	"bytes"
	_ "embed" // for the schema
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// bundleSchema is the published JSON Schema of bundles.
//
//go:embed bundle.schema.json
var bundleSchema []byte

// compiledSchema is compiled once, on first use.
var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	const name = "urn:whetstone:contribution-bundle"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bundleSchema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing, neither files nor URLs
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: checkTime})
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	return c.Compile(name)
})

// checkTime accepts the times that time.Time can hold. JSON Schema's own
// "date-time" allows more: leap seconds (":60") and lower-case letters.
func checkTime(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil // the schema's type rule reports it
	}
	_, err := time.Parse(time.RFC3339Nano, text)
	return err
}

// maxIssues bounds the answer to a bundle with many mistakes.
const maxIssues = 100

// longLists are the fields whose elements are validated one by one, because the
// validator makes an error of 2 KiB for every mistake.
var longLists = []string{"positive_queries", "eval_entries", "unmatched_queries", "pending_proposals"}

// decodeBundle decodes a bundle and validates it with the schema. The lists are validated as empty
// ones first and then element by element, which bounds the errors to maxIssues.
func decodeBundle(raw []byte) (map[string]any, error) {
	schema, err := compiledSchema()
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err // httpapi has decoded it before
	}
	document, isObject := value.(map[string]any)
	if !isObject {
		return nil, fault.Issues(issuesOf(schema.Validate(value), "bundle")...)
	}
	if err := checkLengths(document); err != nil {
		return nil, err
	}
	fields := maps.Clone(document)
	for _, name := range longLists {
		if _, isList := fields[name].([]any); isList {
			fields[name] = []any{}
		}
	}
	issues := issuesOf(schema.Validate(fields), "bundle")
	for _, name := range longLists {
		list, _ := document[name].([]any)
		element := schema.Properties[name].Items2020
		for i := 0; i < len(list) && len(issues) < maxIssues; i++ {
			issues = append(issues, issuesOf(element.Validate(list[i]), "bundle", name, strconv.Itoa(i))...)
		}
	}
	if len(issues) == 0 {
		return document, nil
	}
	// Sorted by path, so that the answer doesn't depend on the order of maps.
	slices.SortStableFunc(issues, func(a, b fault.Issue) int { return slices.Compare(a.Path, b.Path) })
	return nil, fault.Issues(issues[:min(len(issues), maxIssues)]...)
}

// maxElements is the maxItems of every list in the schema.
const maxElements = 10_000

// checkLengths refuses a list that is too long before any of its elements is
// validated.
func checkLengths(document map[string]any) error {
	lists := map[string]any{}
	for _, name := range longLists {
		lists["bundle."+name] = document[name]
	}
	metrics, _ := document["session_metrics"].(map[string]any)
	lists["bundle.session_metrics.top_tools"] = metrics["top_tools"]
	var issues []fault.Issue
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		if list, _ := lists[path].([]any); len(list) > maxElements {
			name := path[strings.LastIndex(path, ".")+1:]
			issues = append(issues, fault.At(path, "%s must have at most %d elements", name, maxElements))
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// issuesOf returns the innermost errors of the validation of the value at a path.
func issuesOf(err error, path ...string) []fault.Issue {
	if err == nil {
		return nil
	}
	e, is := errors.AsType[*jsonschema.ValidationError](err)
	if !is {
		return []fault.Issue{{Path: path, Message: "cannot be validated: " + err.Error()}}
	}
	return causesOf(e, path)
}

// causesOf descends to the leaves of a validation error: only those say what is wrong with a value.
// The messages have the API's own words instead of the library's.
func causesOf(e *jsonschema.ValidationError, root []string) []fault.Issue {
	path := slices.Concat(root, e.InstanceLocation)
	if required, is := e.ErrorKind.(*kind.Required); is {
		var issues []fault.Issue
		for _, name := range required.Missing {
			issues = append(issues, fault.Issue{Path: append(slices.Clone(path), name), Message: name + " is required"})
		}
		return issues
	}
	if len(e.Causes) == 0 {
		name := path[len(path)-1]
		if _, err := strconv.Atoi(name); err == nil { // an index says little without its list, e.g. "eval_entries.3"
			name = path[len(path)-2] + "." + name
		}
		return []fault.Issue{{Path: path, Message: name + " " + requirement(e.ErrorKind)}}
	}
	var issues []fault.Issue
	for _, cause := range e.Causes {
		issues = append(issues, causesOf(cause, root)...)
	}
	return issues
}

// typeNames are the types of JSON in messages.
var typeNames = map[string]string{
	"object": "an object", "array": "an array", "string": "text", "number": "a number", "boolean": "true or false",
	"null": "null",
}

// requirement says what a value must be, e.g. "must be text or null".
func requirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		names := make([]string, len(k.Want))
		for i, want := range k.Want {
			names[i] = typeNames[want]
		}
		return "must be " + strings.Join(names, " or ")
	case *kind.Enum:
		return "must be one of " + strings.ReplaceAll(strings.Trim(fmt.Sprint(k.Want), "[]"), " ", ", ")
	case *kind.Format:
		return "must be a " + k.Want
	case *kind.MinLength:
		return "must not be empty"
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	}
	return "does not fit the schema"
}
