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
	// maxSchema bounds a schema in bytes, and maxSubschemas in parts: the
	// library compiles in quadratic time.
	maxSchema     = 128 << 10
	maxSubschemas = 5_000
	// maxPrograms bounds all its patterns together.
	maxPrograms = 5 * maxProgram
)

var errForeign = errors.New("other documents are not loaded; put what is referred to under $defs")

// nothing is a loader that loads nothing. The metaschemas are built in.
type nothing struct{}

// Load makes nothing a jsonschema.URLLoader.
func (nothing) Load(string) (any, error) { return nil, errForeign }

// CheckSchema says why a text can be no schema of a case, or nil: it is no
// JSON, too large, or holds numbers that nothing can be compared with. It is
// much quicker than Schema, which finds all that is wrong.
func CheckSchema(raw json.RawMessage) error {
	_, err := readSchema(raw)
	return err
}

func readSchema(raw json.RawMessage) (any, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("schema: it is larger than %d KiB", maxSchema>>10)
	}
	doc, _, err := readValue(string(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if parts := subschemas(doc); parts > maxSubschemas {
		return nil, fmt.Errorf("schema: it has %d objects and booleans, and %d are allowed", parts, maxSubschemas)
	}
	return doc, nil
}

// subschemas counts what may be a schema in a document.
func subschemas(doc any) (n int) {
	switch v := doc.(type) {
	case bool:
		return 1
	case []any:
		for _, member := range v {
			n += subschemas(member)
		}
	case map[string]any:
		n = 1
		for _, member := range v {
			n += subschemas(member)
		}
	}
	return n
}

// Schema passes the output that is JSON and fits a JSON Schema, draft 2020-12
// unless it names another. Nothing is fetched for it.
func Schema(raw json.RawMessage) (Check, error) {
	c, err := newSchemaCheck(raw)
	if err != nil {
		return nil, err
	}
	return c.check, nil
}

func newSchemaCheck(raw json.RawMessage) (*schemaCheck, error) {
	doc, err := readSchema(raw)
	if err != nil {
		return nil, err
	}
	c := &schemaCheck{patterns: map[string]*pattern{}}
	var all []*jsonschema.Schema
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nothing{})
	compiler.UseRegexpEngine(c.compilePattern)
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:case:all",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			all = append(all, ctx.Enqueue(nil)) // the one that is being compiled
			return nil, nil                     //nolint:nilnil // it has no keywords of its own
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

// schemaCheck holds the budget of one validation at a time: the library gives
// its hooks no place of their own for it.
type schemaCheck struct {
	schema   *jsonschema.Schema
	patterns map[string]*pattern
	programs int64 // size of all patterns

	mu     sync.Mutex
	budget *budget
	depth  int64 // of the output
}

// stopped carries the reason for giving up through the library.
type stopped struct{ err error }

// spend ends the validation when its budget is spent.
func (c *schemaCheck) spend(cost int64) {
	if err := c.budget.spend(cost); err != nil {
		panic(stopped{err})
	}
}

// compilePattern compiles a pattern of the schema. The library asks for each
// several times.
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

// A meteredPattern is matched at the cost of the validation under way.
type meteredPattern struct {
	*pattern
	check *schemaCheck
}

// MatchString makes it a jsonschema.Regexp.
func (p meteredPattern) MatchString(text string) bool {
	found, err := p.match(p.check.budget, text)
	if err != nil {
		panic(stopped{err})
	}
	return found
}

func (c *schemaCheck) check(ctx context.Context, s Sample) (Result, error) {
	value, depth, err := readValue(s.Output)
	if err != nil {
		return fail("the output is not JSON: %s", jsonProblem(err))
	}
	err = c.validate(ctx, value, depth)
	if err == nil {
		return pass("the output fits the schema")
	}
	if problem, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return fail("%s", problems(problem))
	}
	return Result{}, fmt.Errorf("schema: %w", err)
}

func (c *schemaCheck) validate(ctx context.Context, value any, depth int) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stop context.CancelFunc
	c.budget, stop = newBudget(ctx)
	defer stop()
	c.depth = int64(depth)
	defer func() {
		if p := recover(); p != nil {
			s, ours := p.(stopped)
			if !ours {
				panic(p)
			}
			err = s.err
		}
	}()
	c.spend(0)
	return c.schema.Validate(value)
}

func jsonProblem(err error) string {
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	return cut(err.Error(), 2*maxQuote)
}

// maxProblems is how many problems of an output are told.
const maxProblems = 5

// problems tells where an output does not fit: the place in it, the place in
// the schema, and what is wrong.
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
				cut(e.ErrorKind.LocalizedString(printer), 4*maxQuote)))
		}
	}
	visit(e)
	if more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer is a JSON pointer as people read it: the whole value is "/".
func pointer(path []string) string {
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + pointerEscapes.Replace(step))
	}
	if b.Len() == 0 {
		return "/"
	}
	return cut(b.String(), 2*maxQuote)
}
