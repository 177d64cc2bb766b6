package judge

import (
	"context"
	"errors"
	"fmt"
)

// A Prompt is a request to a model.
type Prompt struct {
	Version string // of the prompt's text, for the record
	System  string
	User    string
	// Schema is the JSON schema of the answer; nil asks for text.
	Schema *Schema
	// Check validates the answer; with a schema it gets the first JSON value in
	// it, and the next ones while it returns a formProblem. Its error is sent to
	// the model, so it must not quote the answer. It may be nil.
	Check func(answer string) error
	// Redraw makes a new prompt for the second attempt, where something random
	// in it could be why the first answer was not usable. It may be nil.
	Redraw func() Prompt
	// MaxTokens limits the answer; 0 means the judge's limit.
	MaxTokens int
}

// A Completion is a usable answer: text, or a JSON value of the schema, as the
// model wrote it. Redact it before it is stored or logged.
type Completion struct {
	Text   string
	Record Record
}

// Complete sends a prompt and returns the answer. If the answer is not usable,
// it asks once more. Its error is an *Error, or the context's if the caller has
// cancelled.
func (j *Judge) Complete(ctx context.Context, p Prompt) (Completion, error) {
	rec := j.newRecord(p.Version, "")
	switch {
	case j.model == nil && j.about.RouteOnly:
		return Completion{}, errRouteOnly("answer prompts")
	case j.model == nil:
		return j.recorded.complete(p, rec)
	}
	return j.model.complete(ctx, p, rec)
}

// complete is Complete with a record that the caller has begun, e.g. with its seed. The record is
// complete also if it fails: a failed call has used tokens.
func (m *model) complete(ctx context.Context, p Prompt, rec Record) (Completion, error) {
	if p.Schema != nil {
		rec.SchemaVersion = p.Schema.Version
	}
	text, err := m.ask(ctx, p, &rec)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Record = rec
	}
	return Completion{Text: text, Record: rec}, err
}

// ask makes an exchange, and a second one with a repair note if the first answer
// is not usable.
func (m *model) ask(ctx context.Context, p Prompt, rec *Record) (string, error) {
	c := call{model: m.name, system: p.System, user: p.User, schema: p.Schema, maxTokens: p.MaxTokens}
	if c.maxTokens == 0 {
		c.maxTokens = m.maxTokens
	}
	var unusable error
	for _, repair := range []bool{false, true} {
		if repair {
			rec.Repaired = true
		}
		r, err := m.exchange(ctx, c, rec)
		if err != nil {
			return "", err
		}
		text, err := p.accept(r)
		if err == nil {
			return text, nil
		}
		unusable = err
		// Bad luck, e.g. a control that happens to fit the material, must not strike twice.
		if p.Redraw != nil {
			p = p.Redraw()
			c.user = p.User
		}
		// The repair note follows the system prompt, so that neither the
		// material nor the bad answer is sent again. A prompt for text gets
		// none: the text that a model writes to this prompt is what is graded.
		c.system = p.System
		if p.Schema != nil {
			c.system += fmt.Sprintf(repairPrompt, err, p.Schema.JSON)
		}
		// A truncated answer would be truncated again.
		if r.truncated {
			c.maxTokens *= 2
		}
	}
	return "", &Error{Code: Unusable, Message: unusable.Error(), cause: unusable}
}

// accept returns the usable part of a reply.
func (p Prompt) accept(r reply) (string, error) {
	if r.problem != "" {
		return "", r.problem
	}
	check := p.Check
	if check == nil {
		check = func(string) error { return nil }
	}
	if p.Schema == nil {
		text := stripThinking(r.text)
		return text, check(text)
	}
	var refused error = problem("the answer holds no complete JSON object")
	// A value of another form may be part of the prose or a draft, so the next one is tried. Any
	// other problem is a final verdict on the answer.
	for value := range jsonAnswers(r.text) {
		err := check(value)
		if err == nil {
			return value, nil
		}
		refused = err
		if _, otherForm := errors.AsType[formProblem](err); !otherForm {
			break
		}
	}
	return "", refused
}
