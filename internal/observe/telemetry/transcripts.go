package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Content is what became of the transcripts of a push.
type Content struct {
	Kept    int    // texts that are now there
	Dropped int    // those that were not stored
	Message string // why, "" if none were dropped
}

// readTranscripts reads the text of sessions. If the organisation doesn't keep it, the
// text goes no further than here.
func (s *Service) readTranscripts(ctx context.Context, c access.Caller, r *reader, said json.RawMessage) (*Content, error) {
	on, err := s.Evidence.Enabled(ctx, c.OrgID)
	switch {
	case err != nil:
		return nil, err
	case !on:
		return &Content{Dropped: countTranscripts(said), Message: contentOff}, nil
	case len(said) > maxTranscriptBytes:
		return &Content{Dropped: countTranscripts(said), Message: transcriptsTooLarge}, nil
	}
	readAs((*reader).transcript)(r, kind{array: transcriptsKey, name: "transcript"}, said)
	return &Content{}, nil
}

// keep stores texts, unless the organisation has stopped keeping them meanwhile.
func (s *Service) keep(ctx context.Context, tx *store.Tx, c access.Caller, texts []content.Text, became *Content) (err error) {
	became.Kept, became.Dropped, err = s.Evidence.Keep(ctx, tx, c, texts)
	switch {
	case became.Dropped > 0 && became.Kept == 0:
		became.Message = contentOff
	case became.Dropped > 0:
		became.Message = tooManyTexts
	}
	return err
}

// A transcriptRecord is the text of one event of a session. It names the event
// by the ids of its own record: a prompt, a tool call or a model request.
type transcriptRecord struct {
	requestRecord
	Role       *string `json:"role"`
	Text       *string `json:"text"`
	PromptID   *string `json:"prompt_id"`
	ToolCallID *string `json:"tool_call_id"`
	ToolName   *string `json:"tool_name"`
	Success    *bool   `json:"success"`
	Input      *string `json:"input"`
	Output     *string `json:"output"`
}

// transcript reads the text of an event, and notes that the event happened.
func (r *reader) transcript(c transcriptRecord, _ json.RawMessage) error {
	at, err := r.parseTime("occurred_at", c.OccurredAt)
	if err != nil {
		return err
	}
	session, err := r.sessionOf(c.base)
	if err != nil {
		return err
	}
	m := content.Message{Role: content.Role(optional(c.Role)), At: at}
	e := sessions.Event{Session: session, At: at}
	switch m.Role {
	case content.User:
		e.Kind, e.ID, m.Text = sessions.Prompt, cmp.Or(optional(c.SourcePromptID), optional(c.PromptID)), optional(c.Text)
	case content.Tool:
		e.Kind, e.ID, e.Name, e.OK = sessions.Tool, optional(c.ToolCallID), optional(c.ToolName), c.Success
		m.Tool, m.OK, m.Input, m.Output = e.Name, e.OK, optional(c.Input), optional(c.Output)
	case content.Assistant:
		q, err := r.requestOf(c.requestRecord, session)
		if err != nil {
			return err
		}
		m.Text = optional(c.Text)
		r.touchSession(c.base, at, false)
		r.batch.texts = append(r.batch.texts, content.NewText(session, q.ID, m))
		return nil
	default:
		return errors.New("role must be user, assistant or tool")
	}
	if e.ID == "" {
		return errors.New("prompt_id, or of a tool tool_call_id, is required")
	}
	r.touchSession(c.base, at, false)
	r.batch.events = append(r.batch.events, e)
	r.batch.texts = append(r.batch.texts, content.NewText(session, sessions.EventID(e.Kind, e.ID), m))
	return nil
}
