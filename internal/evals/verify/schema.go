package verify

import (
	"bytes"
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
	// maxSteps bounds how many schemas are held against values in one check:
	// references can make a small schema ask for more steps than a machine can do.
	maxSteps = 200_000
)

var (
	errForeign    = errors.New("other documents are not loaded; put what is referred to under $defs")
	errTooComplex = errors.New("the schema takes too many steps on this output")
)

// nothing is a loader that loads nothing. The metaschemas are built in.
type nothing struct{}

// Load makes nothing a jsonschema.URLLoader.
func (nothing) Load(string) (any, error) { return nil, errForeign }

// Schema passes the output that is JSON and fits a JSON Schema, draft 2020-12
// unless it names another. Nothing is fetched for it.
func Schema(raw json.RawMessage) (Check, error) {
	c := &schemaCheck{}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nothing{})
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "urn:case:steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return c, nil },
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if c.schema, err = compiler.Compile(schemaURL); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return c.check, nil
}

// schemaCheck counts the steps of one validation at a time: the library gives
// its extensions no place of their own for it.
type schemaCheck struct {
	schema *jsonschema.Schema

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // of the validation that holds mu
	steps int
}

// stopped carries the reason for giving up through the library.
type stopped struct{ err error }

// Validate is called by the library for every schema that it holds against a
// value. It accepts all of them, until there were too many.
func (c *schemaCheck) Validate(*jsonschema.ValidatorContext, any) {
	c.steps++
	if c.steps > maxSteps {
		panic(stopped{errTooComplex})
	}
	if c.steps%1000 == 0 && c.ctx.Err() != nil {
		panic(stopped{c.ctx.Err()})
	}
}

func (c *schemaCheck) check(ctx context.Context, s Sample) (Result, error) {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(s.Output))
	if err != nil {
		return fail("the output is not JSON: %s", jsonProblem(err))
	}
	err = c.validate(ctx, value)
	if err == nil {
		return pass("the output fits the schema")
	}
	if problem, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return fail("%s", problems(problem))
	}
	return Result{}, err
}

func (c *schemaCheck) validate(ctx context.Context, value any) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.steps = ctx, 0
	defer func() {
		if p := recover(); p != nil {
			s, ours := p.(stopped)
			if !ours {
				panic(p)
			}
			err = s.err
		}
	}()
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
	printer := message.NewPrinter(language.English)
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			where := strings.TrimPrefix(e.SchemaURL, schemaURL)
			for _, keyword := range e.ErrorKind.KeywordPath() {
				where += "/" + keyword
			}
			all = append(all, fmt.Sprintf("at %s (schema %s): %s", pointer(e.InstanceLocation), where,
				cut(e.ErrorKind.LocalizedString(printer), 4*maxQuote)))
		}
	}
	visit(e)
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], fmt.Sprintf("and %d more", more))
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
