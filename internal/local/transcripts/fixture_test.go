package transcripts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/local/transcripts"
)

const sessionID = "3f0c1f9e-0f5b-4c5e-9d0c-6f2f3b1a7c11"

// clock is where transcripts of the tests begin.
var clock = time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)

// A script writes the lines of a transcript, one second after the other.
type script struct {
	lines []string
	fork  string // the session that the lines are copied from
	side  bool
	with  object // fields of the lines that follow
}

type object = map[string]any

// add writes a line with the fields that all lines have.
func (s *script) add(fields object) *script {
	n := len(s.lines) + 1
	line := object{
		"uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "parentUuid": nil, "sessionId": sessionID,
		"timestamp": clock.Add(time.Duration(n) * time.Second).Format("2006-01-02T15:04:05.000Z"),
		"cwd":       "/home/ada/shop", "gitBranch": "main", "version": "2.1.30", "userType": "external", "isSidechain": s.side,
	}
	if s.fork != "" {
		line["forkedFrom"] = object{"sessionId": s.fork, "messageUuid": line["uuid"]}
	}
	maps.Copy(line, s.with)
	maps.Copy(line, fields)
	return s.raw(encode(line))
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// raw writes a line as it is.
func (s *script) raw(line string) *script {
	s.lines = append(s.lines, line)
	return s
}

// user writes a message of the user.
func (s *script) user(text string) *script {
	return s.add(object{"type": "user", "message": object{"role": "user", "content": text}})
}

// use writes a tool call of the agent, as message msg_N of the line.
func (s *script) use(id, tool string, input object) *script {
	return s.assistant(fmt.Sprintf("msg_%d", len(s.lines)+1), object{"type": "tool_use", "id": id, "name": tool, "input": input})
}

func (s *script) assistant(message string, blocks ...object) *script {
	return s.add(object{"type": "assistant", "requestId": "req_" + message, "message": object{
		"role": "assistant", "id": message, "model": "claude-opus-4-5", "content": blocks,
		"usage": object{
			"input_tokens": 3, "output_tokens": 20, "cache_creation_input_tokens": 100,
			"cache_read_input_tokens": 1000,
		},
	}})
}

func (s *script) result(id string, failed bool) *script {
	block := object{"type": "tool_result", "tool_use_id": id, "content": "done"}
	if failed {
		block["is_error"] = true
	}
	return s.add(object{"type": "user", "toolUseResult": "done", "message": object{"role": "user", "content": []object{block}}})
}

// ran writes how a command line of the shell ended, as Claude Code does.
func (s *script) ran(id string, status int, output string) *script {
	block := object{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": status != 0}
	end := any(object{"stdout": output, "stderr": "", "interrupted": false})
	if status != 0 {
		block["content"] = fmt.Sprintf("Exit code %d\n%s", status, output)
		end = "Error: " + block["content"].(string)
	}
	return s.add(object{"type": "user", "toolUseResult": end, "message": object{"role": "user", "content": []object{block}}})
}

func (s *script) skill(id, name string) *script { return s.use(id, "Skill", object{"skill": name}) }
func (s *script) read(id, path string) *script  { return s.use(id, "Read", object{"file_path": path}) }

func (s *script) String() string { return strings.Join(s.lines, "\n") + "\n" }

// A machine has transcripts and the state of imports.
type machine struct {
	t   testing.TB
	dir string
}

func newMachine(t testing.TB) machine {
	t.Helper()
	return machine{t, t.TempDir()}
}

func (m machine) projects() string { return filepath.Join(m.dir, "projects") }
func (m machine) state() string    { return filepath.Join(m.dir, "cache", "import.json") }

func (m machine) path(name string) string { return filepath.Join(m.projects(), "-home-ada-shop", name) }

// write writes a transcript.
func (m machine) write(name, text string) {
	m.t.Helper()
	path := m.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// newImport returns an import with everything set.
func (m machine) newImport(s *server) *transcripts.Import {
	m.t.Helper()
	state, err := transcripts.OpenState(m.state())
	if err != nil {
		m.t.Fatal(err)
	}
	return &transcripts.Import{Dir: m.projects(), Prompts: true, Owner: "ada", Version: "test", State: state, Push: s.push}
}

// run imports, which must succeed.
func (m machine) run(s *server) transcripts.Summary {
	m.t.Helper()
	summary, err := m.newImport(s).Run(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return summary
}

// A server stores pushes as the real one does: it deduplicates them, and merges
// the reports of a record, newest first. Of reports with the same version it keeps
// the first, which is the harder case.
type server struct {
	pushes  []string
	sizes   []int // in records
	records map[string]object
	failAt  int // the push that fails, counted from 1
}

func newServer() *server { return &server{records: map[string]object{}} }

func (s *server) push(ctx context.Context, body []byte) (transcripts.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return transcripts.Receipt{}, err
	}
	if s.failAt == len(s.pushes)+1 {
		return transcripts.Receipt{}, errRefused
	}
	var e struct {
		SchemaVersion string                       `json:"schema_version"`
		PushID        string                       `json:"push_id"`
		Canonical     map[string][]json.RawMessage `json:"canonical"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return transcripts.Receipt{}, err
	}
	duplicate := false
	for _, id := range s.pushes {
		duplicate = duplicate || id == e.PushID
	}
	s.pushes = append(s.pushes, e.PushID)
	size := 0
	for _, records := range e.Canonical {
		size += len(records)
		for _, raw := range records {
			if !duplicate {
				s.take(raw)
			}
		}
	}
	s.sizes = append(s.sizes, size)
	return transcripts.Receipt{Duplicate: duplicate}, nil
}

var errRefused = fmt.Errorf("the server is gone")

func (s *server) take(raw json.RawMessage) {
	var r object
	if err := json.Unmarshal(raw, &r); err != nil {
		panic(err)
	}
	key := naturalKey(r)
	old, known := s.records[key]
	if !known {
		s.records[key] = r
		return
	}
	newer, older := old, r
	if timeOf(r).After(timeOf(old)) {
		newer, older = r, old
	}
	merged := maps.Clone(older)
	maps.Copy(merged, newer)
	s.records[key] = merged
}

func naturalKey(r object) string {
	key := fmt.Sprint(r["record_kind"])
	switch key {
	case "session":
		return key + " " + fmt.Sprint(r["session_id"])
	case "execution_fact", "tool_call":
		return key + " " + fmt.Sprint(r["session_id"], " ", r[key+"_id"])
	case "model_request":
		return key + " " + fmt.Sprint(r["raw_source_ref"].(object)["path"], " ", r["request_id"])
	case "transcript":
		return key + " " + fmt.Sprint(r["prompt_id"], " ", r["tool_call_id"], " ", r["message_id"])
	case "outcome":
		return key + " " + fmt.Sprint(r["session_id"], " ", r["outcome"], " ", r["outcome_id"])
	case "skill_offer":
		return key + " " + fmt.Sprint(r["session_id"], " ", r["occurred_at"])
	}
	return key + " " + fmt.Sprint(r[key+"_id"])
}

func timeOf(r object) time.Time {
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r["normalized_at"]))
	if err != nil {
		panic(err)
	}
	return at
}

// of returns the records of a kind, by their ids.
func (s *server) of(kind string) map[string]object {
	found := map[string]object{}
	for key, r := range s.records {
		if r["record_kind"] == kind {
			found[strings.TrimPrefix(key, kind+" ")] = r
		}
	}
	return found
}
