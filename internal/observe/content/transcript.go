package content

import (
	"context"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// maxTranscript is how much of a session a judge gets to read, in bytes. The longest
// texts are cut first.
const maxTranscript = 256 << 10

// Transcript returns the messages of a session, oldest first, as text for a judge.
// The session is given by its pseudonym, see skills.SessionHash. It reports false if
// nothing is kept of it, or the organisation has switched the keeping of content
// off. The reading is recorded in the audit log.
func (s *Service) Transcript(ctx context.Context, orgID, sessionID string) (_ string, ok bool, err error) {
	defer fault.Wrap(&err, "transcript")
	if on, err := s.Enabled(ctx, orgID); err != nil || !on {
		return "", false, err
	}
	one, err := sessionByID(ctx, s.DB, orgID, sessionID)
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	rows, err := textsOfSession(ctx, s.DB, one)
	if err != nil {
		return "", false, err
	}
	texts := make([]*Text, len(rows))
	for i, r := range rows {
		m, err := s.open(r)
		if err != nil {
			return "", false, err
		}
		texts[i] = &Text{Message: m}
	}
	limit(texts, maxTranscript)
	var b strings.Builder
	for _, t := range texts {
		t.write(&b)
	}
	return strings.TrimSpace(b.String()), true, s.recordReading(ctx, one, len(texts))
}

// write writes a message under a heading, e.g. "## tool Bash, failed". What was said
// is indented, so that no text can forge a heading and with it who said something.
func (m Message) write(b *strings.Builder) {
	if m.Role != Tool {
		fmt.Fprintf(b, "## %s\n\n%s\n\n", m.Role, indent(m.Text))
		return
	}
	outcome := ""
	if m.OK != nil {
		outcome = map[bool]string{true: ", worked", false: ", failed"}[*m.OK]
	}
	name := strings.Join(strings.Fields(m.Tool), " ")
	fmt.Fprintf(b, "## tool %s%s\n\nInput:\n\n%s\n\nOutput:\n\n%s\n\n", name, outcome, indent(m.Input), indent(m.Output))
}

var indenter = strings.NewReplacer("\r\n", "\n    ", "\r", "\n    ", "\n", "\n    ")

func indent(said string) string { return "    " + indenter.Replace(said) }
