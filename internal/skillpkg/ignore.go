package skillpkg

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// ignoreFile names the file of a skill's folder that says what not to pack.
const ignoreFile = ".skillignore"

// maxIgnoreFile is far more than anyone writes by hand.
const maxIgnoreFile = 64 << 10

// A rule is one line of an ignore file.
type rule struct {
	segments   []string
	include    bool // the line began with "!"
	folderOnly bool // the line ended in "/"
}

// defaultIgnores are never worth shipping, or secret. A line of .skillignore
// that begins with "!" brings one back.
func defaultIgnores() []rule {
	var rules []rule
	for _, name := range []string{".git", "node_modules", ".env*", ".DS_Store", "__pycache__", "__MACOSX"} {
		rules = append(rules, rule{segments: []string{"**", name}})
	}
	return rules
}

// readIgnores returns the rules for packing a folder, the deciding ones last.
func readIgnores(fsys fs.FS) (_ []rule, err error) {
	rules := defaultIgnores()
	f, err := fsys.Open(ignoreFile)
	if errors.Is(err, fs.ErrNotExist) {
		return rules, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(io.LimitReader(f, maxIgnoreFile+1))
	read := 0
	for lines.Scan() {
		if read += len(lines.Bytes()) + 1; read > maxIgnoreFile {
			return nil, refuse(CodeIgnoreFile, ignoreFile, "the file is longer than %d bytes; use fewer patterns", maxIgnoreFile)
		}
		r, ok, err := parseRule(lines.Text())
		if err != nil {
			return nil, err
		}
		if ok {
			rules = append(rules, r)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, refuse(CodeIgnoreFile, ignoreFile, "a line is too long; use shorter patterns")
	}
	return rules, lines.Err()
}

// parseRule reads one line; ok is false if it holds no pattern.
func parseRule(line string) (_ rule, ok bool, _ error) {
	pattern := strings.TrimRight(line, " \t\r")
	if pattern == "" || pattern[0] == '#' {
		return rule{}, false, nil
	}
	var r rule
	pattern, r.include = strings.CutPrefix(pattern, "!")
	pattern, r.folderOnly = strings.CutSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	// path.Match writes the negation of a class in another way.
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	for segment := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		if _, err := path.Match(segment, ""); err != nil || segment == "" {
			return rule{}, false, refuse(CodeIgnoreFile, ignoreFile, "the pattern %s is not valid; see the documentation of patterns", quote(line))
		}
		r.segments = append(r.segments, segment)
	}
	return r, true, nil
}

// ignored reports whether the rules leave out a path; the last that matches
// decides.
func ignored(rules []rule, p string, folder bool) bool {
	segments := strings.Split(p, "/")
	out := false
	for _, r := range rules {
		if r.folderOnly && !folder || !r.match(segments) {
			continue
		}
		out = !r.include
	}
	return out
}

// match reports whether the pattern covers all of the path. It keeps the set
// of pattern positions that the path so far can have reached, so that many
// "**" cost no more than one.
func (r rule) match(segments []string) bool {
	reached := r.skip(map[int]bool{0: true})
	for _, segment := range segments {
		next := map[int]bool{}
		for at := range reached {
			if at == len(r.segments) {
				continue
			}
			if r.segments[at] == "**" {
				next[at] = true
			}
			if ok, _ := path.Match(r.segments[at], segment); ok { // parseRule has checked the pattern
				next[at+1] = true
			}
		}
		reached = r.skip(next)
	}
	return reached[len(r.segments)]
}

// skip adds the positions behind each "**", which may stand for no folder at
// all; only one at the end must stand for something.
func (r rule) skip(reached map[int]bool) map[int]bool {
	for at := range len(r.segments) - 1 {
		if reached[at] && r.segments[at] == "**" {
			reached[at+1] = true
		}
	}
	return reached
}
