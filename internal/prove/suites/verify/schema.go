package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	schemaURL = "urn:case:schema"
	// maxSchema bounds a schema in bytes, and maxSubschemas in subschemas: the
	// library compiles in quadratic time.
	maxSchema     = 128 << 10
	maxSubschemas = 5_000
	// maxPrograms bounds all its patterns together.
	maxPrograms = 5 * maxProgram
)

// errForeign is shown to the author of a schema.
var errForeign = errors.New("other documents are not loaded; put what is referred to under $defs")

// noLoader refuses every reference to another document, so that nothing is
// fetched (SSRF). The metaschemas are built in.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errForeign }

// CheckSchema returns why a text can't be the schema of a case, or nil: it isn't JSON,
// is too large, or has numbers out of range. It is much quicker than Schema, which
// finds all errors.
func CheckSchema(raw json.RawMessage) error {
	_, err := parseSchema(raw)
	return err
}

func parseSchema(raw json.RawMessage) (any, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("schema: it is larger than %d KiB", maxSchema>>10)
	}
	doc, _, err := parseValue(string(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if parts := countSubschemas(doc); parts > maxSubschemas {
		return nil, fmt.Errorf("schema: it has %d objects and booleans, and %d are allowed", parts, maxSubschemas)
	}
	return doc, nil
}

// countSubschemas counts the values of a document that may be schemas. It is an upper
// bound.
func countSubschemas(doc any) (n int) {
	switch v := doc.(type) {
	case bool:
		return 1
	case []any:
		for _, member := range v {
			n += countSubschemas(member)
		}
	case map[string]any:
		n = 1
		for _, member := range v {
			n += countSubschemas(member)
		}
	}
	return n
}

// Schema returns a check that passes outputs that are JSON and valid against a JSON
// Schema, of draft 2020-12 unless the schema names another.
func Schema(raw json.RawMessage) (Check, error) {
	c, err := newSchemaCheck(raw)
	if err != nil {
		return nil, err
	}
	return c.check, nil
}

// newSchemaCheck compiles a schema. The vocabulary without keywords is a hook: it is
// called for every subschema, to which a meter is added afterwards.
func newSchemaCheck(raw json.RawMessage) (*schemaCheck, error) {
	doc, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	c := &schemaCheck{patterns: map[string]*pattern{}}
	var all []*jsonschema.Schema
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(c.compilePattern)
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:case:all",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			all = append(all, ctx.Enqueue(nil)) // the schema that is being compiled
			return nil, nil                     //nolint:nilnil // the vocabulary has no keywords
		},
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if c.schema, err = compiler.Compile(schemaURL); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	for _, s := range all {
		c.meter(s, len(all))
	}
	return c, nil
}

// A schemaCheck validates one output at a time: the library passes no context to our
// hooks, so they find the budget of the current validation here.
type schemaCheck struct {
	schema   *jsonschema.Schema
	patterns map[string]*pattern
	programs int64 // size of all patterns

	mu     sync.Mutex
	budget *budget
	depth  int64 // of the output
}

// aborted is the panic by which a validation is aborted through the library.
type aborted struct{ err error }

// spend charges the budget, and aborts the validation when it is used up.
func (c *schemaCheck) spend(cost int64) {
	if err := c.budget.spend(cost); err != nil {
		panic(aborted{err})
	}
}

// compilePattern compiles a pattern of the schema. The library asks for the same
// pattern several times.
func (c *schemaCheck) compilePattern(text string) (jsonschema.Regexp, error) {
	if known, ok := c.patterns[text]; ok {
		return meteredPattern{known, c}, nil
	}
	p, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	if c.programs += p.size; c.programs > maxPrograms {
		return nil, errors.New("the regular expressions of the schema are too large together")
	}
	c.patterns[text] = p
	return meteredPattern{p, c}, nil
}

// A meteredPattern charges its matches to the budget of the current validation.
type meteredPattern struct {
	*pattern
	check *schemaCheck
}

// MatchString implements jsonschema.Regexp.
func (p meteredPattern) MatchString(text string) bool {
	found, err := p.match(p.check.budget, text)
	if err != nil {
		panic(aborted{err})
	}
	return found
}

func (c *schemaCheck) check(ctx context.Context, s Sample) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, stop := newBudget(ctx)
	defer stop()
	return c.evaluate(b, s)
}

func (c *schemaCheck) evaluate(b *budget, s Sample) (Result, error) {
	value, depth, err := parseValue(s.Output)
	if err != nil {
		return fail("the output is not JSON: %s", jsonProblem(err))
	}
	err = c.validate(b, value, depth)
	if err == nil {
		return pass("the output fits the schema")
	}
	if problem, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return fail("%s", problems(problem))
	}
	return Result{}, fmt.Errorf("schema: %w", err)
}

// validate turns the panic by which a validation is aborted into an error.
func (c *schemaCheck) validate(b *budget, value any, depth int) (err error) {
	c.budget, c.depth = b, int64(depth)
	defer func() {
		if p := recover(); p != nil {
			s, ours := p.(aborted)
			if !ours {
				panic(p)
			}
			err = s.err
		}
	}()
	// Fails at once if the context is done.
	c.spend(0)
	return c.schema.Validate(value)
}

func jsonProblem(err error) string {
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	return truncate(err.Error(), 2*maxQuote)
}

// maxProblems bounds how many problems of an output are shown.
const maxProblems = 5

// problems lists the validation errors, each with its path in the output, its path in
// the schema and the message.
func problems(e *jsonschema.ValidationError) string {
	var all []string
	more := -maxProblems
	printer := message.NewPrinter(language.English)
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		if more++; more <= 0 {
			where := strings.TrimPrefix(e.SchemaURL, schemaURL)
			for _, keyword := range e.ErrorKind.KeywordPath() {
				where += "/" + keyword
			}
			all = append(all, fmt.Sprintf("at %s (schema %s): %s", pointer(e.InstanceLocation), where,
				truncate(e.ErrorKind.LocalizedString(printer), 4*maxQuote)))
		}
	}
	visit(e)
	if more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns a JSON pointer, except that the whole value is "/" rather than "".
func pointer(path []string) string {
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + pointerEscapes.Replace(step))
	}
	if b.Len() == 0 {
		return "/"
	}
	return truncate(b.String(), 2*maxQuote)
}
