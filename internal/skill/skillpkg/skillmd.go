package skillpkg

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxFrontmatter is the size limit of the block between the fences. All fields
// of the specification together stay far below it.
const maxFrontmatter = 64 << 10

// A Skill is a parsed SKILL.md. It is not validated: the name may be missing or
// invalid.
type Skill struct {
	Name          string // trimmed and in normal form NFKC
	Description   string
	License       string
	Compatibility string
	// AllowedTools is separated by spaces, also if the file has a list.
	AllowedTools string
	// Metadata has every value as text; nested values are JSON.
	Metadata map[string]string
	// Fields are all fields of the frontmatter as written, in their order.
	Fields []Field
	// Body is what follows the frontmatter, with LF line ends.
	Body string
	// BodyLine is the line of the file that Body begins on.
	BodyLine int
	// Notes are about what a stricter parser would not accept.
	Notes []Note
}

// A Field is one field of the frontmatter. Its value is a string, a []any or
// a map[string]any of the same; numbers, dates and the like stay text.
type Field struct {
	Key   string
	Value any
	Line  int
}

// A Note is about a problem with which a SKILL.md can still be parsed.
type Note struct {
	Code   Code
	Line   int
	Detail string
}

// ParseSkill parses a SKILL.md leniently. It returns an *Error if the file is
// not UTF-8, or has no valid frontmatter.
func ParseSkill(raw []byte) (Skill, error) {
	var s Skill
	if !utf8.Valid(raw) {
		return Skill{}, skillError(CodeNotUTF8, 0, "SKILL.md is not valid UTF-8; save it as UTF-8")
	}
	text, bom := strings.CutPrefix(string(raw), "\ufeff")
	if bom {
		s.note(CodeBOM, 1, "remove the byte-order mark")
	}
	// Before anything is split, so that a file saved on Windows parses the same.
	text = strings.ReplaceAll(text, "\r\n", "\n")
	block, body, err := splitFences(text)
	if err != nil {
		return Skill{}, err
	}
	s.Body = body
	s.BodyLine = strings.Count(text[:len(text)-len(body)], "\n") + 1
	// A parser that splits at any "---" would end the frontmatter early.
	if first, _, _ := strings.Cut(text, "\n"); strings.Contains(first[len("---"):]+"\n"+block, "---") {
		s.note(CodeAmbiguousFence, 1, "--- inside a value; some readers stop there")
	}
	if err := s.parseBlock(block); err != nil {
		return Skill{}, err
	}
	s.assign()
	return s, nil
}

// Extra returns the fields that are not in the specification.
func (s *Skill) Extra() []Field {
	var extra []Field
	for _, f := range s.Fields {
		switch f.Key {
		case "name", "description", "license", "compatibility", "allowed-tools", "metadata":
		default:
			extra = append(extra, f)
		}
	}
	return extra
}

func (s *Skill) note(code Code, line int, detail string) {
	s.Notes = append(s.Notes, Note{Code: code, Line: line, Detail: detail})
}

// splitFences returns the text between the fences and after them.
func splitFences(text string) (block, body string, _ error) {
	first, rest, _ := strings.Cut(text, "\n")
	if !isFence(first) {
		return "", "", skillError(CodeNoFrontmatter, 1,
			"SKILL.md does not begin with a line ---; add a frontmatter block")
	}
	start := 0
	for start < len(rest) {
		line, _, _ := strings.Cut(rest[start:], "\n")
		if isFence(line) {
			// Before the YAML parser sees it.
			if start > maxFrontmatter {
				return "", "", skillError(CodeFrontmatterTooLong, 1,
					"the frontmatter of SKILL.md is longer than 64 KiB; move text to the body")
			}
			return rest[:start], strings.TrimPrefix(rest[start+len(line):], "\n"), nil
		}
		start += len(line) + 1
	}
	return "", "", skillError(CodeUnclosed, 1, "the frontmatter of SKILL.md is never closed; add a line ---")
}

func isFence(line string) bool { return strings.TrimRight(line, " \t") == "---" }

// assign sets the fields of the specification.
func (s *Skill) assign() {
	for _, f := range s.Fields {
		value, isText := f.Value.(string)
		value = strings.TrimSpace(value)
		switch f.Key {
		case "name":
			// Full-width letters and ligatures would be another name than the one
			// that people read.
			s.Name = norm.NFKC.String(value)
		case "description":
			s.Description = value
		case "license":
			s.License = value
		case "compatibility":
			s.Compatibility = value
			if !isText {
				s.note(CodeCompatNotString, f.Line, "compatibility must be text")
			}
		case "allowed-tools":
			s.AllowedTools = value
			if !isText {
				s.AllowedTools = joinTools(f.Value)
				s.note(CodeToolsNotString, f.Line, "allowed-tools must be one space-separated text")
			}
		case "metadata":
			s.assignMetadata(f)
		}
	}
}

// assignMetadata keeps nested values as JSON instead of dropping them: agents' own
// extensions are often nested.
func (s *Skill) assignMetadata(f Field) {
	values, ok := f.Value.(map[string]any)
	if !ok {
		s.note(CodeMetadataNotStrings, f.Line, "metadata must be a map of text to text")
		return
	}
	s.Metadata = make(map[string]string, len(values))
	nested := false
	for key, value := range values {
		text, isText := value.(string)
		if !isText {
			nested = true
			text = asJSON(value)
		}
		s.Metadata[key] = text
	}
	if nested {
		s.note(CodeMetadataNotStrings, f.Line, "metadata values must be text")
	}
}

// joinTools accepts the list that some agents document for allowed-tools.
func joinTools(value any) string {
	list, ok := value.([]any)
	if !ok {
		return ""
	}
	var tools []string
	for _, v := range list {
		if tool, ok := v.(string); ok {
			tools = append(tools, strings.TrimSpace(tool))
		}
	}
	return strings.Join(tools, " ")
}

// skillError is an error about a line of SKILL.md; line 0 means the file as a whole.
func skillError(code Code, line int, format string, args ...any) *Error {
	e := refuse(code, "", format, args...)
	e.Path, e.Line = quote("SKILL.md"), line
	return e
}
