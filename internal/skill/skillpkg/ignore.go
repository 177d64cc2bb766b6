package skillpkg

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/glob"
)

// ignoreFile lists patterns of files that are not packed, with the rules of
// .gitignore.
const ignoreFile = ".skillignore"

// The limits of an ignore file are far above files that people write. Every
// pattern is tried on every path.
const (
	maxIgnoreFile  = 64 << 10
	maxIgnoreRules = 1000
)

// A rule is one line of an ignore file.
type rule struct {
	pattern    glob.Pattern
	include    bool // the line began with "!"
	folderOnly bool // the line ended in "/"
}

// readIgnores returns the rules for packing a folder. The last match decides.
func readIgnores(fsys fs.FS) (_ []rule, err error) {
	// A line of .skillignore that begins with "!" includes one again.
	var rules []rule
	for _, name := range []string{".git", "node_modules", ".env*", ".DS_Store", "__pycache__", "__MACOSX"} {
		// At any depth, as .gitignore does with names without a slash.
		pattern, _ := glob.Parse("**/" + name) // valid patterns
		rules = append(rules, rule{pattern: pattern})
	}
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
		// One more byte was allowed than is accepted, so that reaching it is an
		// error and not a silently truncated list: that could pack a secret.
		if read += len(lines.Bytes()) + 1; read > maxIgnoreFile {
			return nil, refuse(CodeIgnoreFile, ignoreFile,
				"the file is longer than %d bytes; use fewer patterns", maxIgnoreFile)
		}
		r, ok, err := parseRule(lines.Text())
		if err != nil {
			return nil, err
		}
		if ok {
			rules = append(rules, r)
		}
		if len(rules) > maxIgnoreRules {
			return nil, refuse(CodeIgnoreFile, ignoreFile,
				"the file holds more than %d patterns; use fewer", maxIgnoreRules)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, refuse(CodeIgnoreFile, ignoreFile, "a line is too long; use shorter patterns")
	}
	return rules, lines.Err()
}

// parseRule parses one line; ok is false if it contains no pattern.
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
	parsed, err := glob.Parse(strings.TrimPrefix(pattern, "/"))
	if err != nil {
		return rule{}, false, refuse(CodeIgnoreFile, ignoreFile,
			"the pattern %s is not valid; see the documentation of patterns", quote(line))
	}
	r.pattern = parsed
	return r, true, nil
}

// ignored reports whether the rules exclude a path; the last match decides.
func ignored(rules []rule, p string, folder bool) bool {
	// A file in an ignored folder cannot be included again, as in git: Pack does not
	// even read that folder.
	out := false
	for _, r := range rules {
		if r.folderOnly && !folder || !r.pattern.Match(p) {
			continue
		}
		out = !r.include
	}
	return out
}

// macOS keeps the extended attributes of a file in a second one, in the format
// AppleDouble, whose name begins with "._". Its tar adds one for nearly every
// file and folder, without its user seeing any of them.
const appleDouble = "._"

// rootAppleDouble is the name of the one for the packed folder itself, as in
// "tar -czf skill.tar.gz .". It ends in a dot, so no file may have it.
const rootAppleDouble = appleDouble + "."

// OmitAppleDouble removes the AppleDouble files that a manifest leaves out: its
// author did not see them, and nothing reads them. One that the manifest names
// is a file like any other. The archive itself still has them.
func (p *Package) OmitAppleDouble(manifest []ManifestEntry) {
	listed := map[string]bool{}
	for _, e := range manifest {
		listed[e.Path] = true
	}
	omitted := func(f File) bool {
		return strings.HasPrefix(path.Base(f.Path), appleDouble) && !listed[f.Path]
	}
	for _, f := range p.Files {
		if omitted(f) {
			p.UnpackedSize -= f.Size
		}
	}
	p.Files = slices.DeleteFunc(p.Files, omitted)
	p.installed = slices.DeleteFunc(p.installed, omitted)
}
