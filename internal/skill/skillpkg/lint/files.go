package lint

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	largeFile = 5_000_000
	manyFiles = 100
	// headBytes is how much of a file is read to detect its type.
	headBytes = 8 << 10
)

// checkFile checks the type of a file, and its text if it has any.
func (c *check) checkFile(ctx context.Context, f skillpkg.File, content []byte) error {
	if f.Size > largeFile {
		c.found.add(remark{
			code: "sec.file.oversized", path: f.Path,
			message: fmt.Sprintf("The file has %.1f MB.", float64(f.Size)/1e6),
		})
	}
	extension := strings.ToLower(path.Ext(f.Path))
	if !c.checkForm(f.Path, extension, content) {
		return nil
	}
	d := newDocument(f.Path, content)
	if d.lang != noLang && isHidden(f.Path) {
		c.found.add(remark{code: "sec.file.hidden_code", path: f.Path})
	}
	if c.skill != nil {
		c.checkEvalFile(f.Path, content)
	}
	if c.skill != nil && d.markdown {
		c.checkMarkdown(d)
	}
	return c.scanText(ctx, d)
}

// checkForm reports findings about a file's type, and returns whether to read it
// as text.
func (c *check) checkForm(name, extension string, content []byte) bool {
	head := content[:min(len(content), headBytes)]
	binary := bytes.IndexByte(head, 0) >= 0
	what := program(extension, head, binary)
	switch {
	case what != "":
		c.found.add(remark{
			code: "sec.file.executable_binary",
			path: name, message: fmt.Sprintf("The file is %s, which cannot be reviewed.", what),
		})
		return false
	case isArchive(extension, head):
		c.found.add(remark{code: "sec.file.nested_archive", path: name})
		return false
	case !fits(extension, head):
		c.found.add(remark{
			code: "sec.file.magic_mismatch",
			path: name, message: fmt.Sprintf("The file ends in %s but its content does not begin like one.", extension),
		})
	case binary && isTextName(extension) && name != c.pkg.SkillPath:
		c.found.add(remark{
			code: "sec.file.magic_mismatch",
			path: name, message: fmt.Sprintf("The file ends in %s but holds binary data.", extension),
		})
	}
	return !binary || isTextName(extension)
}

// program names the kind of compiled program that a file is, or returns "".
func program(extension string, head []byte, binary bool) string {
	for _, p := range []struct{ magic, what string }{
		{"\x7fELF", "a Linux program"},
		{"\xfe\xed\xfa\xce", "a macOS program"},
		{"\xfe\xed\xfa\xcf", "a macOS program"},
		{"\xce\xfa\xed\xfe", "a macOS program"},
		{"\xcf\xfa\xed\xfe", "a macOS program"},
		{"\xca\xfe\xba\xbe", "a compiled class or a macOS program"},
		{"\x00asm", "a WebAssembly module"},
	} {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return p.what
		}
	}
	if binary && bytes.HasPrefix(head, []byte("MZ")) {
		return "a Windows program"
	}
	switch extension {
	case ".exe", ".dll", ".so", ".dylib", ".pyc", ".pyo", ".class", ".wasm":
		return "a compiled " + extension + " file"
	}
	return ""
}

// isArchive reports whether a file is an archive. Office documents are archives,
// too, but do not contain code for agents.
func isArchive(extension string, head []byte) bool {
	switch extension {
	case ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".jar", ".whl", ".skill":
		return true
	case "", ".bin", ".dat", ".data":
	default:
		return false
	}
	for _, magic := range []string{"PK\x03\x04", "\x1f\x8b", "7z\xbc\xaf\x27\x1c", "Rar!", "BZh", "\xfd7zXZ"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return len(head) > 262 && string(head[257:262]) == "ustar"
}

// fits reports whether the content has the magic bytes of its extension.
func fits(extension string, head []byte) bool {
	var magics []string
	switch extension {
	case ".png":
		magics = []string{"\x89PNG"}
	case ".jpg", ".jpeg":
		magics = []string{"\xff\xd8\xff"}
	case ".gif":
		magics = []string{"GIF8"}
	case ".webp", ".wav":
		magics = []string{"RIFF"}
	case ".pdf":
		magics = []string{"%PDF"}
	case ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".dotx", ".xltx", ".potx":
		magics = []string{"PK"}
	case ".woff":
		magics = []string{"wOFF"}
	case ".woff2":
		magics = []string{"wOF2"}
	}
	for _, magic := range magics {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return len(magics) == 0 || len(head) == 0
}

// isTextName reports whether files with the extension are read as text, whatever
// they contain: a NUL byte must not hide a script.
func isTextName(extension string) bool {
	if languages(extension) != noLang || isMarkdown(extension) {
		return true
	}
	switch extension {
	case ".txt", ".rst", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".csv", ".tsv", ".xml",
		".html", ".htm", ".css", ".svg", ".sql":
		return true
	}
	return false
}

// settingsFile matches configuration that is code by its extension, e.g.
// ".eslintrc.js".
var settingsFile = regexp.MustCompile(`^\.\w+rc\.[cm]?js$`)

func isHidden(name string) bool {
	if settingsFile.MatchString(path.Base(name)) {
		return false
	}
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}
