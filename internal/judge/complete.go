package judge

import (
	"context"
	"errors"
	"fmt"
)

// A Prompt is what a model is asked.
type Prompt struct {
	Version string // names the text in the record
	System  string
	User    string
	// Schema is the form of the answer; nil asks for text.
	Schema *Schema
	// Check refuses an answer that is not usable; with a schema it gets the
	// first JSON object of the answer. Its error is shown to the model, so it
	// must not repeat the answer. It may be nil.
	Check func(answer string) error
	// Redraw makes the prompt anew for the second try, if what is random in it
	// could be why the first answer was not usable. It may be nil.
	Redraw func() Prompt
	// MaxTokens bounds the answer; 0 means the judge's limit.
	MaxTokens int
}

// A Completion is a usable answer: text, or the JSON object that was asked for.
type Completion struct {
	Text   string
	Record Record
}

// Complete sends a prompt and returns the answer. An answer that is not usable
// is asked for once more. Its error is an *Error, or the context's if the
// caller has cancelled.
func (j *Judge) Complete(ctx context.Context, p Prompt) (Completion, error) {
	if j.model == nil {
		return Completion{}, errRouteOnly("answer prompts")
	}
	rec := j.newRecord(p.Version, "")
	return j.model.complete(ctx, p, rec)
}

func (m *model) complete(ctx context.Context, p Prompt, rec Record) (Completion, error) {
	if p.Schema != nil {
		rec.SchemaVersion = p.Schema.Version
	}
	text, err := m.ask(ctx, p, &rec)
	m.count(rec, err != nil)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Record = rec
	}
	return Completion{Text: text, Record: rec}, err
}

// ask makes an exchange, and a second one if the first answer is not usable.
func (m *model) ask(ctx context.Context, p Prompt, rec *Record) (string, error) {
	c := call{model: m.name, system: p.System, user: p.User, schema: p.Schema, maxTokens: p.MaxTokens}
	if c.maxTokens == 0 {
		c.maxTokens = m.maxTokens
	}
	var trouble error
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
		trouble = err
		if p.Redraw != nil {
			p = p.Redraw()
			c.user = p.User
		}
		c.system = p.System + p.repairNote(err)
		if r.cutOff {
			c.maxTokens *= 2
		}
	}
	return "", &Error{Code: Unusable, Message: trouble.Error(), cause: trouble}
}

// accept returns the usable part of a reply.
func (p Prompt) accept(r reply) (string, error) {
	if r.problem != "" {
		return "", r.problem
	}
	text := withoutThoughts(r.text)
	if p.Schema != nil {
		object, ok := firstObject(text)
		if !ok {
			return "", problem("the answer holds no complete JSON object")
		}
		text = object
	}
	if p.Check == nil {
		return text, nil
	}
	return text, p.Check(text)
}

// repairNote tells the model what was wrong. It follows the system prompt, so
// that neither the material nor the bad answer is sent again, and the user's
// turn stays as it is. A model that was asked for text is asked again without
// it: the text is what is examined.
func (p Prompt) repairNote(trouble error) string {
	if p.Schema == nil {
		return ""
	}
	return fmt.Sprintf(repairPrompt, trouble, p.Schema.JSON)
}
