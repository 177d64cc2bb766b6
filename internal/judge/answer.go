package judge

import (
	"context"
	"fmt"
	"strings"
)

// An AnswerRequest asks a model what an agent would say.
type AnswerRequest struct {
	Prompt string
	// SkillName and Skill, the text of SKILL.md, are loaded if Skill is not
	// empty.
	SkillName string
	Skill     string
}

// Answer sends a prompt to the model, with the skill loaded or without any.
// A refusal, and an answer that is cut off, is an unusable answer. Its error
// is that of Complete.
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
	return j.Complete(ctx, Prompt{Version: AnswerPromptVersion, System: system, User: r.Prompt})
}
