package transcripts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
)

// maxLine is the longest line that is read. Longer ones hold what a tool gave
// back, not what is looked for here.
const maxLine = 64 << 20

// A point is the beginning of a turn in a transcript. Whatever comes before
// it is not going to change any more.
type point struct {
	Offset int64  `json:"offset"`
	Lines  int    `json:"lines"`
	Turns  int    `json:"turns"`
	Hash   string `json:"hash,omitempty"` // SHA-256 of all before
}

// A Problem is a line or a file that could not be read, or a record that the
// server did not take.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// An unreadableError is the fault of one file only.
type unreadableError struct{ error }

// A reading goes through one transcript.
type reading struct {
	file     *file
	withText bool
	emit     func(record) error
	problem  func(Problem)

	turn     *turn
	whole    bool // from the beginning
	sessions []*sessionRecord
	last     point
}

// read reads a transcript from a point to its end as it is now, and returns
// the point from which to go on when it has grown. If what comes before the
// point has changed, it reads from the beginning.
func (r *reading) read(ctx context.Context, content io.ReaderAt, size int64, from point) (point, error) {
	if hash, err := hashOf(content, from.Offset, size); err != nil || hash != from.Hash {
		from = point{}
	}
	r.whole, r.last, r.turn = from.Offset == 0, from, newTurn(r.file, from.Turns)
	lines := newLineReader(io.NewSectionReader(content, from.Offset, size-from.Offset), maxLine, from.Lines, from.Offset)
	for ctx.Err() == nil {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return r.end(content, size)
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

// end hands over what is left when all lines are read.
func (r *reading) end(content io.ReaderAt, size int64) (point, error) {
	if err := r.closeTurn(); err != nil {
		return r.last, err
	}
	for _, s := range r.sessions {
		if err := r.emit(*s); err != nil {
			return r.last, err
		}
	}
	hash, err := hashOf(content, r.last.Offset, size)
	if err != nil {
		return r.last, unreadableError{err}
	}
	r.last.Hash = hash
	return r.last, nil
}

// hashOf returns the hash of the first n bytes; that of none is empty.
func hashOf(content io.ReaderAt, n, size int64) (string, error) {
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

func (r *reading) line(l line) error {
	e, err := parseEntry(l)
	if errors.Is(err, errOther) {
		return nil
	}
	if err != nil {
		if l.ended || l.long { // else somebody is still writing it
			r.problem(Problem{File: r.file.path, Line: l.number, Message: err.Error()})
		}
		return nil
	}
	if e.ForkedFrom != nil || e.IsMeta || e.IsCompactSummary {
		return nil
	}
	if s, ok := r.prompt(e); ok {
		if err := r.closeTurn(); err != nil {
			return err
		}
		r.last.Offset, r.last.Lines, r.last.Turns = l.offset, l.number-1, r.turn.number
		r.turn = newTurn(r.file, r.turn.number+1)
		r.turn.begin(e, s)
	} else if e.Type == "assistant" {
		r.turn.answer(e)
	} else {
		r.turn.result(e)
	}
	r.noteSession(e)
	return nil
}

// prompt returns what a line asks, if that begins a turn. What a subagent is
// asked begins one in its own transcript only: in that of its session it is
// part of the turn there.
func (r *reading) prompt(e entry) (said, bool) {
	if e.Type != "user" || e.IsSidechain && !r.file.agent || e.Message.Content.hasResult() {
		return said{}, false
	}
	return listen(e.Message.Content.text())
}

func (r *reading) closeTurn() error {
	for _, record := range r.turn.records(r.withText) {
		if err := r.emit(record); err != nil {
			return err
		}
	}
	return nil
}

// noteSession keeps what a line tells of its session. Those of subagents tell
// of another model and another folder.
func (r *reading) noteSession(e entry) {
	if r.file.agent || e.IsSidechain {
		return
	}
	s := r.session(e)
	if e.at.After(s.EndedAt) {
		s.EndedAt = e.at
	}
	s.NormalizedAt = readAt(s.EndedAt, e.line)
	if e.Version != "" {
		s.AgentCLI = "claude-code/" + e.Version
	}
	if e.CWD != "" {
		s.WorkspacePath = e.CWD
	}
	if e.GitBranch != "" {
		s.Branch = e.GitBranch
	}
	if model := e.Message.Model; model != "" && model != "<synthetic>" {
		s.Model = model
	}
}

func (r *reading) session(e entry) *sessionRecord {
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
