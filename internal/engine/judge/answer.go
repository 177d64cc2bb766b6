package judge

import (
	"context"
	"fmt"
	"strings"
)

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
