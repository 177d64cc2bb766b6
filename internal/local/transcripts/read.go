package transcripts

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

// maxLine is the longest line that is parsed. Longer ones are results of tools. The limit
// bounds memory; their text is not needed.
const maxLine = 64 << 20

// A checkpoint is the beginning of the last turn of a transcript, from which
// reading resumes. What comes before it does not change any more: an append
// extends the last turn or adds new ones. Hash guards against files that were rewritten, e.g.
// compacted or restored.
type checkpoint struct {
	Offset int64  `json:"offset"`
	Lines  int    `json:"lines"`
	Turns  int    `json:"turns"`
	Hash   string `json:"hash,omitempty"` // SHA-256 of the file up to Offset
}

// A Problem is a file that could not be read, a malformed line or a rejected
// record.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// An unreadableError concerns one file; the import goes on with the others.
type unreadableError struct{ error }

// A scanner reads one transcript.
type scanner struct {
	file     *file
	withText bool
	emit     func(record) error
	problem  func(Problem)
	state    *State // which gets the commits; nil in a dry run

	turn     *turn
	began    time.Time // see firstTime
	whole    bool      // it reads from the beginning
	sessions []*sessionRecord
	last     checkpoint
}

// scan reads a transcript from a checkpoint up to size, and returns the next
// checkpoint. If the file has changed before the checkpoint, it is read from the
// beginning. Reading the same lines again gives the same records, with the same ids.
func (r *scanner) scan(ctx context.Context, content io.ReaderAt, size int64, from checkpoint) (checkpoint, error) {
	if hash, err := prefixHash(content, from.Offset, size); err != nil || hash != from.Hash {
		from = checkpoint{}
	}
	r.began = firstTime(io.NewSectionReader(content, 0, size))
	r.whole, r.last, r.turn = from.Offset == 0, from, newTurn(r.file, from.Turns)
	lines := newLineReader(io.NewSectionReader(content, from.Offset, size-from.Offset), maxLine, from.Lines, from.Offset)
	for ctx.Err() == nil {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return r.finish(content, size)
		}
		if err != nil {
			return from, unreadableError{err}
		}
		if err := r.line(l); err != nil {
			return from, err
		}
	}
	return from, ctx.Err()
}

// firstTime returns the time of the first line that has one. When a session is
// forked, the agent copies the lines of the old session into the new transcript,
// with the new session's id but their old times: a line that is older than the
// first one is such a copy, and the old transcript has it.
func firstTime(content io.Reader) time.Time {
	lines := newLineReader(content, maxLine, 0, 0)
	for {
		l, err := lines.next()
		if err != nil {
			return time.Time{}
		}
		var e struct {
			Timestamp time.Time `json:"timestamp"`
		}
		if !l.long && json.Unmarshal(l.text, &e) == nil && !e.Timestamp.IsZero() {
			return e.Timestamp.UTC()
		}
	}
}

// finish emits the last turn and the sessions when all lines are read. The checkpoint is the
// beginning of the last turn, not the end of the file: that turn may go on.
func (r *scanner) finish(content io.ReaderAt, size int64) (checkpoint, error) {
	if err := r.flushTurn(); err != nil {
		return r.last, err
	}
	for _, s := range r.sessions {
		if err := r.emit(*s); err != nil {
			return r.last, err
		}
		if r.state != nil {
			// The session goes on until now.
			for i, c := range r.state.content.Commits {
				if c.Session == s.SessionID && s.EndedAt.After(c.Ended) {
					r.state.content.Commits[i].Ended = s.EndedAt
					r.state.changed = true
				}
			}
		}
	}
	hash, err := prefixHash(content, r.last.Offset, size)
	if err != nil {
		return r.last, unreadableError{err}
	}
	r.last.Hash = hash
	return r.last, nil
}

// prefixHash returns the hash of the first n bytes; "" if n is 0.
func prefixHash(content io.ReaderAt, n, size int64) (string, error) {
	if n == 0 {
		return "", nil
	}
	if n > size {
		return "", io.ErrUnexpectedEOF
	}
	digest := sha256.New()
	_, err := io.Copy(digest, io.NewSectionReader(content, 0, n))
	return hex.EncodeToString(digest.Sum(nil)), err
}

// line adds a line to its turn, or ends the turn if it is a prompt.
func (r *scanner) line(l line) error {
	e, err := r.file.parse(l)
	if errors.Is(err, errIrrelevant) {
		return nil
	}
	if err != nil {
		if l.ended || l.long { // else it may still be being written
			r.problem(Problem{File: r.file.path, Line: l.number, Message: err.Error()})
		}
		return nil
	}
	if e.listsSkills() && e.ForkedFrom == nil {
		return r.offer(e)
	}
	if e.ForkedFrom != nil || e.at.Before(r.began) || e.IsMeta || e.IsCompactSummary {
		return nil
	}
	if s, ok := r.prompt(e); ok {
		if err := r.flushTurn(); err != nil {
			return err
		}
		r.last.Offset, r.last.Lines, r.last.Turns = l.offset, l.number-1, r.turn.number
		r.turn = newTurn(r.file, r.turn.number+1)
		r.turn.begin(e, s)
	} else {
		r.turn.add(e)
	}
	r.noteSession(e)
	return nil
}

// maxOffers is how many skills of a listing are sent.
const maxOffers = 1000

// offer emits the skills that a listing offers, without those that come with the
// agent. A listing that is older than its session was written a moment before the
// first line, or copied when the session was forked: both show it to the model
// since the session began.
func (r *scanner) offer(e entry) error {
	if e.at.Before(r.began) {
		e.at = r.began
	}
	var names []string
	for _, listed := range e.Attachment.Names {
		name, ok := cleanSkill(listed)
		if ok && len(names) < maxOffers && !builtin.Skill(r.file.program(), name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return r.emit(offerRecord{
		base: newBase(offerKind, r.file.sessionOf(e), e.at, r.file.source(e)), OccurredAt: e.at, SkillNames: names,
	})
}

// prompt returns the prompt of a line that begins a turn. The prompt of a subagent
// begins one in its own transcript only: in that of its session it is part of a
// turn.
func (r *scanner) prompt(e entry) (userMessage, bool) {
	if e.Type != "user" || e.IsSidechain && !r.file.agent || e.Message.Content.hasResult() {
		return userMessage{}, false
	}
	return classify(e.Message.Content.text())
}

// flushTurn emits what the turn has so far. A turn that goes on is sent again, and replaced.
func (r *scanner) flushTurn() error {
	for _, record := range r.turn.records(r.withText) {
		if err := r.emit(record); err != nil {
			return err
		}
	}
	if r.state != nil {
		// The session goes on at least until the last line of the turn.
		for i := range r.turn.commits {
			r.turn.commits[i].Ended = r.turn.last.at
		}
		// The turn's commits replace what is known of them.
		for _, c := range r.turn.commits {
			r.state.content.Commits = slices.DeleteFunc(r.state.content.Commits, func(o sessionCommit) bool {
				return o.ToolCall == c.ToolCall && o.Session == c.Session
			})
			r.state.content.Commits = append(r.state.content.Commits, c)
			r.state.changed = true
		}
		if more := len(r.state.content.Commits) - maxCommits; more > 0 {
			r.state.content.Commits = slices.Delete(r.state.content.Commits, 0, more)
		}
	}
	return nil
}

// noteSession updates the record of a line's session. Lines of subagents are
// ignored: they have another model and folder.
func (r *scanner) noteSession(e entry) {
	if r.file.agent || e.IsSidechain {
		return
	}
	s := r.session(e)
	if e.at.After(s.EndedAt) {
		s.EndedAt = e.at
	}
	s.NormalizedAt = versionAt(s.EndedAt, e.line)
	if e.Version != "" {
		s.AgentCLI = strings.ReplaceAll(string(r.file.program()), "_", "-") + "/" + e.Version
	}
	if e.CWD != "" {
		s.WorkspacePath = e.CWD
	}
	if e.GitBranch != "" {
		s.Branch = e.GitBranch
	}
	if model := e.Message.Model; model != "" && model != synthetic {
		s.Model = model
	}
}

// session returns the record of a line's session, adding it if necessary.
func (r *scanner) session(e entry) *sessionRecord {
	id := r.file.sessionOf(e)
	for _, s := range r.sessions {
		if s.SessionID == id {
			return s
		}
	}
	s := &sessionRecord{base: newBase(sessionKind, id, e.at, source{Path: r.file.stem + ".jsonl"})}
	if r.whole {
		s.StartedAt = e.at
	}
	r.sessions = append(r.sessions, s)
	return s
}

// A line is one line of a transcript.
type line struct {
	text   []byte // without the line break; valid until the next line is read
	number int    // counted from 1
	offset int64  // of its first byte in the file
	ended  bool   // it has its line break; else it may still be being written
	long   bool   // it is over the limit, and text is empty
}

// A lineReader reads lines of any length, but skips the text of those over the
// limit, to bound its memory.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	buffer []byte
	number int
	offset int64
}

// newLineReader returns a reader for the rest of a file, after number lines and
// offset bytes.
func newLineReader(r io.Reader, limit, number int, offset int64) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit, number: number, offset: offset}
}

// next returns the next line, or io.EOF. The last line may lack its line break: ended is false
// then, and err is nil.
func (r *lineReader) next() (line, error) {
	l := line{number: r.number + 1, offset: r.offset}
	r.buffer = r.buffer[:0]
	for {
		chunk, err := r.r.ReadSlice('\n')
		r.offset += int64(len(chunk))
		if err == nil {
			chunk, l.ended = chunk[:len(chunk)-1], true
		}
		if l.long = l.long || len(r.buffer)+len(chunk) > r.limit; !l.long {
			r.buffer = append(r.buffer, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && r.offset == l.offset:
			return l, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return l, err
		}
		r.number++
		if !l.long {
			l.text = r.buffer
		}
		return l, nil
	}
}
