package transcripts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An entry is a line of a transcript. The format is internal to the agent and
// changes between versions, so only the fields that are used here must have
// the expected types.
type entry struct {
	Type             string     `json:"type"`
	UUID             string     `json:"uuid"`
	SessionID        string     `json:"sessionId"`
	PromptID         string     `json:"promptId"` // equals prompt.id of the agent's OTLP events
	Timestamp        string     `json:"timestamp"`
	CWD              string     `json:"cwd"`
	GitBranch        string     `json:"gitBranch"`
	Version          string     `json:"version"`
	IsSidechain      bool       `json:"isSidechain"`
	IsMeta           bool       `json:"isMeta"`
	IsCompactSummary bool       `json:"isCompactSummary"`
	RequestID        string     `json:"requestId"` // of the API; equals request_id of the OTLP events
	AttributionSkill string     `json:"attributionSkill"`
	ForkedFrom       *forkPoint `json:"forkedFrom"`
	Message          message    `json:"message"`
	Attachment       attachment `json:"attachment"`
	ToolEnd          toolEnd    `json:"toolUseResult"`

	at   time.Time
	line int

	// Of Codex: the skill whose text was shown to the model, and the one whose file
	// was read. Both are filled by parseRollout, never by JSON.
	loaded, read string
	command      *shellCall // of Codex: that has ended
}

// A forkPoint marks a line that was copied from another session when it was
// branched. The transcript of that session has it, too.
type forkPoint struct {
	SessionID string `json:"sessionId"`
}

// An attachment is what the agent's program adds to a prompt.
type attachment struct {
	Type  string   `json:"type"`
	Names []string `json:"names"` // of skill_listing: the skills that are shown to the model
}

type message struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content content `json:"content"`
	Usage   usage   `json:"usage"`
}

// synthetic is the model of messages that the agent's program wrote itself. Such messages, e.g.
// of API errors, cost nothing and are no answers.
const synthetic = "<synthetic>"

// usage has the tokens of a message. Each line of a message repeats it. Adding up all lines
// would count it several times.
type usage struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	Cache         struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// content is a list of blocks. A string is short for one block of text.
type content []block

type block struct {
	Type      string `json:"type"`
	Text      string `json:"text"`        // of text
	ID        string `json:"id"`          // of tool_use
	Name      string `json:"name"`        // of tool_use
	Input     input  `json:"input"`       // of tool_use
	ToolUseID string `json:"tool_use_id"` // of tool_result
	IsError   bool   `json:"is_error"`    // of tool_result
	Content   result `json:"content"`     // of tool_result
}

// result is what a tool answered.
type result struct {
	unknownSkill bool   // the agent has no skill of the name
	raw          string // JSON: a string, or a list of blocks
}

// input has the parameters of the tools Skill, Read and Bash. Other tools have the same names
// for other things; the name of the tool decides.
type input struct {
	Skill      string
	FilePath   string
	Command    string
	Background bool   // the command goes on
	raw        string // JSON of all parameters
}

// UnmarshalJSON accepts a string or a list of blocks; anything else is empty. raw is never
// empty: encoding/json calls it with a value.
func (c *content) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		*c = content{{Type: "text", Text: text}}
		return err
	case '[':
		var blocks []block
		err := json.Unmarshal(raw, &blocks)
		*c = blocks
		return err
	}
	return nil
}

// UnmarshalJSON ignores parameters of unexpected types: other tools have
// parameters with the same names.
func (i *input) UnmarshalJSON(raw []byte) error {
	var fields struct {
		Skill      any `json:"skill"`
		Command    any `json:"command"` // also the name of "skill" in older versions
		FilePath   any `json:"file_path"`
		Background any `json:"run_in_background"`
	}
	_ = json.Unmarshal(raw, &fields) // on an error all are empty
	i.FilePath, _ = fields.FilePath.(string)
	i.Command, _ = fields.Command.(string)
	i.Background, _ = fields.Background.(bool)
	name, ok := fields.Skill.(string)
	if !ok {
		name = i.Command
	}
	i.Skill, i.raw = name, string(raw)
	return nil
}

// UnmarshalJSON looks at the beginning only: results are long, and of any type.
func (r *result) UnmarshalJSON(raw []byte) error {
	r.raw = string(raw)
	r.unknownSkill = bytes.HasPrefix(raw, []byte(`"<tool_use_error>Unknown skill: `))
	return nil
}

// errIrrelevant means that a line is valid but has nothing to import.
var errIrrelevant = errors.New("irrelevant type of entry")

// parseEntry parses a line. A line of the wrong form is a problem for people only if its type
// is one that is imported.
func parseEntry(l line) (e entry, err error) {
	if l.long {
		return e, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
	}
	text := bytes.TrimSpace(l.text)
	if len(text) == 0 {
		return e, errIrrelevant
	}
	err = json.Unmarshal(text, &e)
	// Decode goes on after a field of another type, so e.Type is set if the line has one.
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && (!ok || e.Type == "") {
		return e, errors.New("the line is not a JSON object")
	}
	if e.Type != "user" && e.Type != "assistant" && !e.listsSkills() {
		return e, errIrrelevant
	}
	if err != nil {
		return e, fmt.Errorf("the line is not as transcripts are: %w", err)
	}
	e.line = l.number
	e.at, err = parseTime(e.Timestamp)
	return e, err
}

// parseTime parses the time of a line. Years outside of that range can't be encoded by
// time.Time.MarshalJSON, or are nonsense.
func parseTime(stamp string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if year := at.UTC().Year(); err != nil || year < 1970 || year > 9000 {
		return at, errors.New("the line has no time")
	}
	return at.UTC(), nil
}

// messageID identifies the message of a line within a transcript. Codex has no ids for some
// messages.
func (e entry) messageID() string { return cmp.Or(e.Message.ID, fmt.Sprintf("line %d", e.line)) }

// listsSkills reports whether a line shows the model which skills there are.
func (e entry) listsSkills() bool {
	return e.Type == "attachment" && e.Attachment.Type == "skill_listing"
}

// text joins the blocks of text, without those that the agent's program injected.
func (c content) text() string {
	var texts []string
	for _, b := range c {
		if b.Type == "text" && !strings.HasPrefix(b.Text, "<system-reminder>") && !strings.HasPrefix(b.Text, "<ide_") {
			texts = append(texts, b.Text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}

// hasResult reports whether it is the result of a tool.
func (c content) hasResult() bool {
	return slices.ContainsFunc(c, func(b block) bool { return b.Type == "tool_result" })
}
