// Package transcripts reads what Claude Code keeps of its sessions, and tells
// a server what the skills did in them: records of the canonical schema, in
// batches, each line's once however often it is read. It knows no server: who
// uses it gives it a function that pushes.
package transcripts

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// A file is a transcript on disk.
type file struct {
	path  string
	stem  string // name without its ending
	agent bool   // the transcript of a subagent, beside that of its session
}

func newFile(path string) *file {
	stem := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	inFolder := filepath.Base(filepath.Dir(path)) == "subagents"
	return &file{path: path, stem: stem, agent: inFolder || strings.HasPrefix(stem, "agent-")}
}

// sessionOf returns the session of a line. Lines of a subagent name the
// session that started it; the folder does so, too.
func (f *file) sessionOf(e entry) string {
	switch {
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

// found is a file that an import looks at.
type found struct {
	path string
	info fs.FileInfo
}

// resolve returns the one path by which a folder is known.
func resolve(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// find lists the transcripts in a folder, and what could not be looked at.
func find(root string) (all []found, unreadable []string, err error) {
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
			all = append(all, found{path, info})
		case path == root:
			return err
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			unreadable = append(unreadable, path)
		}
		return nil
	})
	return all, unreadable, err
}
