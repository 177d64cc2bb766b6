package sourcestest

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A Prompt is what a user asked for while a skill was available.
type Prompt struct {
	Text, Skill string
	Kind        string // user if empty
	Triggered   bool
	Mode        string
	Grade       *float64 // of the session
	At          time.Time
}

// Push reports prompts, each in a session of its own.
func (c *Client) Push(all ...Prompt) {
	c.T.Helper()
	var prompts, invocations, gradings []apptest.Object
	for _, a := range all {
		session := uuid.NewString()
		if a.At.IsZero() {
			a.At = time.Now()
		}
		at := a.At.UTC().Format(time.RFC3339Nano)
		kind := a.Kind
		if kind == "" {
			kind = "user"
		}
		prompts = append(prompts, apptest.Object{
			"prompt_id": session + ":p0", "session_id": session, "occurred_at": at, "prompt_text": a.Text, "prompt_kind": kind,
		})
		invocation := apptest.Object{
			"skill_invocation_id": session + ":s", "session_id": session, "occurred_at": at, "skill_name": a.Skill,
			"matched_prompt_id": session + ":p0", "triggered": a.Triggered, "confidence": 0.5,
		}
		if a.Mode != "" {
			invocation["invocation_mode"] = a.Mode
		}
		invocations = append(invocations, invocation)
		if a.Grade != nil {
			gradings = append(gradings, apptest.Object{
				"grading_id": session + ":g", "session_id": session, "skill_name": a.Skill, "graded_at": at,
				"pass_rate": *a.Grade,
			})
		}
	}
	c.Post("/api/v1/push", apptest.Object{"push_id": uuid.NewString(), "canonical": apptest.Object{
		"prompts": prompts, "skill_invocations": invocations, "grading_results": gradings,
	}}).Want(http.StatusCreated)
}
