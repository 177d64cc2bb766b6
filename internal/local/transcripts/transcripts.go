// Package transcripts parses the transcripts of Claude Code and Codex and pushes
// what skills did in them: records of the canonical schema, in batches. It is
// incremental, since a State remembers how far each file was read, and
// idempotent, since ids depend on the transcripts only: the server deduplicates
// what is sent twice. The package knows no server: its caller supplies the
// function that pushes.
package transcripts

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/builtin"
)

// A file is a transcript on disk.
type file struct {
	path  string
	stem  string // name without its extension
	agent bool   // the transcript of a subagent, beside that of its session
	codex string // the session of Codex, "" for a transcript of Claude Code
	// content is whether what was said is sent.
	content bool
}

func newFile(path string) *file {
	stem := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	inFolder := filepath.Base(filepath.Dir(path)) == "subagents"
	f := &file{path: path, stem: stem, agent: inFolder || strings.HasPrefix(stem, "agent-")}
	if name := rolloutName.FindStringSubmatch(stem); name != nil {
		f.codex = name[1]
	}
	return f
}

// program is the agent that wrote the file.
func (f *file) program() builtin.Agent {
	if f.codex != "" {
		return builtin.Codex
	}
	return builtin.ClaudeCode
}

// parse parses a line.
func (f *file) parse(l line) (entry, error) {
	if f.codex != "" {
		return parseRollout(l)
	}
	return parseEntry(l)
}

// sessionOf returns the session of a line. Lines of a subagent name the session
// that started it, and so does the folder, e.g. <session>/subagents/agent-1.jsonl.
func (f *file) sessionOf(e entry) string {
	switch {
	case f.codex != "":
		return f.codex
	case e.SessionID != "":
		return e.SessionID
	case f.agent && filepath.Base(filepath.Dir(f.path)) == "subagents":
		return filepath.Base(filepath.Dir(filepath.Dir(f.path)))
	}
	return f.stem
}

func (f *file) source(e entry) source {
	return source{Path: f.stem + ".jsonl", Line: e.line, EventType: e.Type, RawID: e.UUID}
}

// A candidate is a file that an import considers.
type candidate struct {
	path string
	info fs.FileInfo
}

// find lists the transcripts in a folder, and the paths that cannot be read.
func find(root string) (all []candidate, unreadable []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (!d.Type().IsRegular() || filepath.Ext(path) != ".jsonl") {
			return nil
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		switch {
		case err == nil:
			all = append(all, candidate{path, info})
		case path == root:
			return err
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			unreadable = append(unreadable, path)
		}
		return nil
	})
	return all, unreadable, err
}
