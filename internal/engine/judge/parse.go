package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// endOfThinking ends the reasoning in the text of models like DeepSeek R1 and Qwen.
const endOfThinking = "</think>"

// stripThinking removes the reasoning that some local models write before their
// answer, up to </think>. Some servers swallow the opening <think>.
func stripThinking(text string) string {
	text = strings.TrimSpace(text)
	thoughts, answer, ok := strings.Cut(text, endOfThinking)
	if ok && !strings.Contains(strings.TrimPrefix(thoughts, "<think>"), "<think>") {
		return strings.TrimSpace(answer)
	}
	return text
}

// maxValues bounds how many beginnings of a JSON value are tried in an answer.
const maxValues = 64

// jsonValues returns the JSON objects and arrays in a text, without the code
// fence and the prose around them. The values inside a value follow it.
func jsonValues(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range maxValues {
			start := strings.IndexAny(text, "{[")
			if start < 0 {
				return
			}
			text = text[start:]
			var value json.RawMessage
			err := json.NewDecoder(strings.NewReader(text)).Decode(&value)
			// Broken JSON is skipped by one character, and so are the values inside a value.
			if err == nil && !yield(string(value)) {
				return
			}
			text = text[1:]
		}
	}
}

// jsonAnswers returns the JSON values that may be the answer. Those before the
// last </think> are drafts, unless the mark is inside a value, e.g. in a quotation.
func jsonAnswers(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		answer := text
		if at := strings.LastIndex(text, endOfThinking); at >= 0 {
			answer = text[at+len(endOfThinking):]
		}
		for value := range jsonValues(answer) {
			if !yield(value) {
				return
			}
		}
		if len(answer) == len(text) {
			return
		}
		for value := range jsonValues(text) {
			if strings.Contains(value, endOfThinking) && !yield(value) {
				return
			}
		}
	}
}

// A formProblem says that a JSON value is not the answer: it is part of the
// prose, or the model did not follow the schema. A value with the right form that
// has another problem is final: a model must not get a verdict by giving several.
type formProblem string

func (p formProblem) Error() string { return string(p) }

const errForm = formProblem("the answer does not have the form of the schema")

// An AnswerRequest asks a model to answer a prompt as an agent would.
type AnswerRequest struct {
	Prompt string
	// SkillName and Skill, the text of SKILL.md, are put into the system prompt
	// if Skill is not empty.
	SkillName string
	Skill     string
}

// Answer sends a prompt to the model, with the skill loaded or without any. A
// refusal, or an answer truncated at the token limit, is Unusable. Its errors
// are those of Complete.
func (j *Judge) Answer(ctx context.Context, r AnswerRequest) (Completion, error) {
	if j.model == nil {
		return Completion{}, errRouteOnly("answer prompts")
	}
	if strings.TrimSpace(r.Prompt) == "" {
		return Completion{}, rejected("the prompt is empty")
	}
	system := plainPrompt
	if r.Skill != "" {
		system = fmt.Sprintf(skillPrompt, r.SkillName, r.Skill)
	}
	// The prompt goes without a schema and without Check: any text is an answer here, and a grading
	// decides later whether it is a good one.
	return j.Complete(ctx, Prompt{Version: AnswerPromptVersion, System: system, User: r.Prompt})
}
