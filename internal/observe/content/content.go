// Package content stores the text of agents' sessions, if the organisation has switched
// that on and the sender opted in. Texts are redacted, bounded and sealed. Its owner and people with the permission
// evidence:read can read it, and every reading is recorded in the audit log. The
// package owns the tables evidence_settings, evidence_sessions and evidence_texts.
package content

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Role is who said something.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// A Message is the text of one event of a session.
type Message struct {
	Role Role      `json:"role"`
	At   time.Time `json:"at"`
	Text string    `json:"text,omitempty"` // of a user or an assistant

	// Of a tool call.
	Tool   string `json:"tool,omitempty"`
	OK     *bool  `json:"ok,omitempty"` // nil if it is unknown
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
}

// A Text is a message that is to be kept, redacted.
type Text struct {
	Session string // as the agent calls it
	EventID string // of the session's event that it belongs to
	Message

	// length is that of the message as it was sent. Of two reports of one event
	// the longer one is kept: a transcript is often read before a message is
	// complete.
	length int
}

const (
	// maxRead is how much of a text is redacted, in bytes. The expressions of redact
	// take up to a second for it.
	maxRead = 256 << 10
	// maxSecret is the longest secret that redact recognises at once.
	maxSecret = 4 << 10
	// maxText is how much of a text is kept, in bytes; of a tool call, of its input
	// and of its output.
	maxText = 32 << 10
	// maxSession is how much of a session is kept, in bytes.
	maxSession = 8 << 20
	// maxTexts is how many texts of a session are kept: as many as it has events.
	maxTexts = 20_000
)

// NewText redacts a message of a session and cuts what is too long.
func NewText(session, eventID string, m Message) Text {
	t := Text{Session: session, EventID: eventID, Message: m}
	for _, part := range t.parts() {
		t.length += len(*part)
		*part = cut(clean(*part), maxText)
	}
	return t
}

// parts returns the texts of a message.
func (m *Message) parts() []*string { return []*string{&m.Text, &m.Input, &m.Output} }

// size is the length of the texts in bytes.
func (m *Message) size() (n int) {
	for _, part := range m.parts() {
		n += len(*part)
	}
	return n
}

// clean redacts a text. Of a very long one it leaves out the end, which may be half
// a secret that redact does not recognise.
func clean(s string) string {
	if len(s) <= maxRead {
		return Redact(text.Clean(s))
	}
	s = Redact(text.Clean(text.Truncate(s, maxRead)))
	return text.Truncate(s, max(0, len(s)-maxSecret)) + mark
}

// mark is the end of a text that was cut.
const mark = "\n[cut]"

// cut shortens a text to a number of bytes, and marks it.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Truncate(s, max(0, limit-len(mark))) + mark
}

// limit cuts the longest parts of messages first, so that all together have at most
// a number of bytes.
func limit(texts []*Text, room int) {
	var parts []*string
	for _, t := range texts {
		for _, part := range t.parts() {
			if *part != "" {
				parts = append(parts, part)
			}
		}
	}
	most := longest(parts, room)
	for _, part := range parts {
		*part = cut(*part, most)
	}
}

// longest returns the greatest length to which all parts can be cut so that they
// fit.
func longest(parts []*string, room int) int {
	low, high := 0, maxText
	for low < high {
		middle := (low + high + 1) / 2
		total := 0
		for _, part := range parts {
			total += min(len(*part), middle)
		}
		if total <= room {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// String returns the message as the timeline of a session shows it.
func (m Message) String() string {
	if m.Role != Tool {
		return m.Text
	}
	return strings.TrimSpace(m.Input + "\n\n" + m.Output)
}

func (m Message) encode() []byte {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and times of this century always marshal
	}
	return raw
}
