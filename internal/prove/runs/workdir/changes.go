package workdir

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// A Change is what happened to a file.
type Change string

// The changes.
const (
	Added    Change = "added"
	Modified Change = "modified"
	Deleted  Change = "deleted"
)

// A File is a file that a program added, modified or deleted.
type File struct {
	Path   string `json:"path"`
	Change Change `json:"change"`
	Size   int64  `json:"size"` // 0 if it was deleted
	// SHA256 is lower-case hex; "" if the file was deleted, is unreadable or too large.
	SHA256 string `json:"sha256,omitempty"`
	// Text is the beginning of a text file, nil for other files. Diff is the unified
	// diff of a small text file that was modified, or "".
	Text *string `json:"text,omitempty"`
	Diff string  `json:"diff,omitempty"`
	// Truncated means that Text isn't all of it.
	Truncated bool `json:"truncated,omitempty"`
}

// Limits of what is compared and returned. They bound the memory that a trial takes.
const (
	maxWalked  = 50_000
	maxBefore  = 32 << 10 // of a text that is kept to compare with
	maxBefores = 4 << 20
	maxChanged = 500
	maxText    = 16 << 10 // of a returned text or diff
	maxTexts   = 256 << 10
	maxHashed  = 64 << 20 // bytes of all files
)

// A Snapshot is the state of a folder before a program changes it.
type Snapshot struct {
	// below is the folder under dir in an overlay, or "".
	dir, below string
	files      map[string]state
	textLeft   int // of befores, then of the returned texts
	hashLeft   int64
}

// state is what a snapshot knows of a file.
type state struct {
	size     int64
	modified time.Time
	text     *string // nil of files that are no text or too large
}

// Take takes a snapshot of a folder. below, if not "", is the folder under it in an
// overlay: its files count as existing.
func Take(dir, below string) (_ *Snapshot, err error) {
	s := &Snapshot{dir: dir, below: below, files: map[string]state{}, textLeft: maxBefores}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	_, err = walk(root, func(p string, info fs.FileInfo) {
		if info.Mode().IsRegular() {
			s.files[p] = s.stateOf(root, p, info)
		}
	})
	return s, err
}

// walk visits everything but folders, and reports whether that was all. Git
// repositories are left out, whose objects tell people nothing, and so are unreadable
// folders.
func walk(root *os.Root, visit func(p string, info fs.FileInfo)) (complete bool, err error) {
	n := 0
	err = fs.WalkDir(root.FS(), ".", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is left out
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if n++; n > maxWalked {
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil {
			visit(p, info)
		}
		return nil
	})
	return n <= maxWalked, err
}

// stateOf keeps the text of a file as long as there is room for it. Without it only a
// new size or time shows that the file was changed.
func (s *Snapshot) stateOf(root *os.Root, p string, info fs.FileInfo) state {
	st := state{size: info.Size(), modified: info.ModTime()}
	if st.size > maxBefore || st.size > int64(s.textLeft) {
		return st
	}
	if content, ok := readText(root, p, maxBefore); ok {
		s.textLeft -= len(content)
		st.text = &content
	}
	return st
}

// readText reads up to limit bytes of a text file. ok is false for files that are
// binary or unreadable.
func readText(root *os.Root, p string, limit int) (content string, ok bool) {
	f, err := root.Open(p)
	if err != nil {
		return "", false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil || bytes.IndexByte(head, 0) >= 0 {
		return "", false
	}
	content = text.Truncate(string(head), limit)
	return content, text.Valid(content)
}

// Changes returns the files that differ from the snapshot, sorted by path, and whether
// those are all.
func (s *Snapshot) Changes() (files []File, complete bool, err error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	s.textLeft, s.hashLeft = maxTexts, maxHashed
	unseen := maps.Clone(s.files)
	complete, err = walk(root, func(p string, info fs.FileInfo) {
		before, known := s.before(p)
		delete(unseen, p)
		switch {
		case info.Mode()&fs.ModeCharDevice != 0 && known: // a whiteout, by which an overlay deletes
			files = append(files, File{Path: p, Change: Deleted})
		case info.Mode().IsRegular() && len(files) <= maxChanged: // one more tells that they are not all
			if f, changed := s.compare(root, p, info, before, known); changed {
				files = append(files, f)
			}
		}
	})
	for p := range unseen {
		if _, err := root.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			files = append(files, File{Path: p, Change: Deleted})
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if len(files) > maxChanged {
		files, complete = files[:maxChanged], false
	}
	return files, complete, err
}

// before returns the state of a file before the program ran, from the snapshot or the
// folder below.
func (s *Snapshot) before(p string) (state, bool) {
	if st, ok := s.files[p]; ok || s.below == "" {
		return st, ok
	}
	root, err := os.OpenRoot(s.below)
	if err != nil {
		return state{}, false
	}
	defer root.Close()
	info, err := root.Lstat(p)
	if err != nil {
		return state{}, false
	}
	st := state{size: info.Size(), modified: info.ModTime()}
	if content, ok := readText(root, p, maxBefore); ok && info.Mode().IsRegular() && st.size <= maxBefore {
		st.text = &content
	}
	return st, true
}

// compare describes a file after the program ran, and reports whether it was changed:
// by its text if that is known, else by size and time.
func (s *Snapshot) compare(root *os.Root, p string, info fs.FileInfo, before state, known bool) (f File, changed bool) {
	f = File{Path: p, Change: Added, Size: info.Size()}
	if known {
		f.Change = Modified
	}
	content, isText := readText(root, p, maxBefore)
	whole := isText && f.Size <= maxBefore
	switch {
	case !known:
	case before.text != nil && whole:
		if *before.text == content {
			return f, false
		}
		f.Diff = s.keep(string(compare.Texts(p, *before.text, content)))
	case before.size == f.Size && before.modified.Equal(info.ModTime()):
		return f, false
	}
	if isText {
		kept := s.keep(content)
		f.Text, f.Truncated = &kept, int64(len(kept)) < f.Size
	}
	f.SHA256 = s.sum(root, p, f.Size)
	return f, true
}

// keep returns as much of a text as there is room for.
func (s *Snapshot) keep(content string) string {
	content = text.Truncate(content, min(maxText, s.textLeft))
	s.textLeft -= len(content)
	return content
}

// sum returns the SHA-256 of a file, or "" once maxHashed bytes were hashed.
func (s *Snapshot) sum(root *os.Root, p string, size int64) string {
	if s.hashLeft -= size; s.hashLeft < 0 {
		s.hashLeft += size
		return ""
	}
	f, err := root.Open(p)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, size)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Merge joins the changes of two programs that worked on a folder one after the other:
// e.g. a file that was added and then deleted isn't changed at all.
func Merge(first, second []File) []File {
	all := map[string]File{}
	for _, f := range first {
		all[f.Path] = f
	}
	for _, f := range second {
		before, twice := all[f.Path]
		switch {
		case !twice:
		case before.Change == Added && f.Change == Deleted:
			delete(all, f.Path)
			continue
		case before.Change == Added:
			f.Change, f.Diff = Added, ""
		case before.Change == Deleted:
			f.Change = Modified
		}
		all[f.Path] = f
	}
	files := slices.SortedFunc(maps.Values(all), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files[:min(len(files), maxChanged)]
}
