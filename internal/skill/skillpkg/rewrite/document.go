package rewrite

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Document is a SKILL.md in the parts that can be changed, and the rest of it.
type Document struct {
	// Head is the frontmatter with its fences, as it is in the file.
	Head string
	// Description is the value of the field, whatever its form in YAML.
	Description string
	// Body has LF line ends; RawBody has those of the file.
	Body, RawBody string

	skill skillpkg.Skill
	crlf  bool // the lines of the file end with CR LF
}

// Parse reads a SKILL.md.
func Parse(skillMD string) (*Document, error) {
	skill, err := skillpkg.ParseSkill([]byte(skillMD))
	if err != nil {
		return nil, err
	}
	at := len(skillMD)
	if skill.Body != "" {
		at = 0
		for range skill.BodyLine - 1 {
			at += strings.IndexByte(skillMD[at:], '\n') + 1
		}
	}
	first := strings.IndexByte(skillMD, '\n')
	return &Document{
		Head: skillMD[:at], Description: LineFeeds(skill.Description), Body: skill.Body, RawBody: skillMD[at:],
		skill: skill, crlf: first > 0 && skillMD[first-1] == '\r',
	}, nil
}

// LineEnds returns a text with the line ends of the file.
func (d *Document) LineEnds(s string) string {
	if d.crlf {
		return strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

// With returns the file with another description and another raw body, which keeps
// a final newline, or none. Its error
// continues the sentence "makes a description that ...".
func (d *Document) With(description, rawBody string) (string, error) {
	rawBody = d.endLike(rawBody)
	gap := ""
	if rawBody != "" && !strings.HasSuffix(d.Head, "\n") { // the file ends with the fence
		gap = d.LineEnds("\n")
	}
	description = strings.TrimSpace(description)
	if description == d.Description {
		return d.Head + gap + rawBody, nil
	}
	if description == "" {
		return "", errors.New("is empty")
	}
	place, err := d.findDescription()
	if err != nil {
		return "", err
	}
	for _, form := range place.forms(description) {
		changed := d.Head[:place.start] + d.LineEnds(form) + d.Head[place.end:] + gap + rawBody
		if d.differsOnlyIn(changed, description, rawBody) {
			return changed, nil
		}
	}
	return "", errors.New("cannot be written as a value of the frontmatter")
}

// endLike returns a body with a final newline if and only if the file has one.
func (d *Document) endLike(rawBody string) string {
	whole := d.Head + d.RawBody
	trimmed := strings.TrimSuffix(strings.TrimSuffix(rawBody, "\n"), "\r")
	switch had := strings.HasSuffix(whole, "\n"); {
	case rawBody == "" || had == strings.HasSuffix(rawBody, "\n"):
		return rawBody
	case had:
		return rawBody + d.LineEnds("\n")
	default:
		return trimmed
	}
}

// differsOnlyIn reports whether a file has a description and a body, and all other
// fields as they were, without anything that a stricter parser would not accept and
// that was accepted before.
func (d *Document) differsOnlyIn(changed, description, rawBody string) bool {
	now, err := skillpkg.ParseSkill([]byte(changed))
	if err != nil || now.Description != description || len(now.Fields) != len(d.skill.Fields) ||
		now.Body != strings.ReplaceAll(rawBody, "\r\n", "\n") {
		return false
	}
	for i, was := range d.skill.Fields {
		is := now.Fields[i]
		if is.Key != was.Key || was.Key != "description" && !reflect.DeepEqual(is.Value, was.Value) {
			return false
		}
	}
	return !slices.ContainsFunc(now.Notes, func(n skillpkg.Note) bool {
		return !slices.ContainsFunc(d.skill.Notes, func(was skillpkg.Note) bool { return was.Code == n.Code })
	})
}

// descriptionKey matches the field up to its value, without its indentation.
var descriptionKey = regexp.MustCompile(`^(?:description|"description"|'description')[ \t]*:(?:[ \t]+|$)`)

// Elided is the frontmatter with "..." instead of the description, with LF line ends.
func (d *Document) Elided() string {
	head := d.Head
	if p, err := d.findDescription(); err == nil {
		head = head[:p.start] + "..." + head[p.end:]
	}
	return LineFeeds(head)
}

// findDescription finds the value of the field. It need not understand all of YAML:
// differsOnlyIn checks what becomes of it.
func (d *Document) findDescription() (place, error) {
	block, from := d.block()
	root := -1 // indentation of the fields
	at := from
	for line := range strings.Lines(block) {
		plain := strings.TrimRight(line, "\r\n")
		text := strings.TrimLeft(plain, " ")
		indent := len(plain) - len(text)
		if root < 0 && text != "" && text[0] != '#' {
			root = indent
		}
		if key := descriptionKey.FindString(text); key != "" && indent == root {
			return readPlace(d.Head[:from+len(block)], at+indent+len(key), root)
		}
		at += len(line)
	}
	return place{}, errors.New("replaces none in the frontmatter")
}

// block returns the lines between the fences, and where they begin in head.
func (d *Document) block() (string, int) {
	from := strings.IndexByte(d.Head, '\n') + 1
	inside := strings.TrimRight(d.Head[from:], "\r\n \t")
	return inside[:strings.LastIndexByte(inside, '\n')+1], from
}

// A place is the value of the description in the frontmatter.
type place struct {
	start, end int // bytes of head
	style      byte
	header     string // of a block scalar, e.g. ">-"
	indent     string // of lines after the first
	width      int    // of the longest line
	lines      int
}

// readPlace finds the end of the value that begins at a position of the
// frontmatter, or on the line after it. All further lines of a value are indented
// more than the fields.
func readPlace(head string, start, root int) (place, error) {
	for start < len(head) && (strings.ContainsRune("\r\n", rune(head[start])) || head[start] == ' ') {
		start++
	}
	if start == len(head) {
		return place{}, errors.New("replaces an empty one")
	}
	p := place{start: start, style: head[start]}
	switch p.style {
	case '&', '*', '!', '[', '{':
		return place{}, errors.New("cannot replace a value that uses anchors, tags or lists of YAML")
	case '"', '\'':
		p.end = endOfQuoted(head, start)
		return p, nil
	case '|', '>':
	default:
		p.style = 0
	}
	p.end = start
	at := start
	for line := range strings.Lines(head[start:]) {
		text := strings.TrimRight(line, " \t\r\n")
		indent := len(text) - len(strings.TrimLeft(text, " "))
		isFirst := at == start
		if !isFirst && text != "" && (indent <= root || p.style == 0 && text[indent] == '#') {
			break
		}
		comment := -1
		if p.style == 0 {
			comment = strings.Index(text, " #")
		}
		switch {
		case isFirst && p.style != 0:
			p.header = text
		case !isFirst && p.indent == "":
			p.indent = text[:indent]
		}
		if comment >= 0 {
			text = strings.TrimRight(text[:comment], " \t")
		}
		if text != "" {
			p.end = at + len(text)
			p.width = max(p.width, len([]rune(text)))
			p.lines++
		}
		if comment >= 0 {
			break
		}
		at += len(line)
	}
	return p, nil
}

// endOfQuoted returns the position after the closing quote.
func endOfQuoted(head string, start int) int {
	quote := head[start]
	for i := start + 1; i < len(head); i++ {
		switch {
		case quote == '"' && head[i] == '\\':
			i++
		case head[i] != quote:
		case quote == '\'' && i+1 < len(head) && head[i+1] == '\'':
			i++
		default:
			return i + 1
		}
	}
	return len(head)
}

// forms returns the ways to write a description, the one that is most like the
// present one first. Not all of them are right for every text.
func (p place) forms(description string) (forms []string) {
	switch {
	case p.style == '|' && !strings.ContainsAny(p.header, "0123456789"):
		forms = append(forms, p.header+"\n"+p.indented(strings.Split(description, "\n")))
	case p.style == '>' && !strings.ContainsAny(p.header, "0123456789"):
		forms = append(forms, p.header+"\n"+p.indented(fold(description, p.width-len(p.indent))))
	case p.style == 0 && isPlain(description) && p.lines > 1:
		forms = append(forms, strings.TrimLeft(p.indented(fold(description, p.width-len(p.indent))), " "))
	case p.style == 0 && isPlain(description):
		forms = append(forms, description)
	}
	comment := ""
	if at := strings.Index(p.header, " #"); at >= 0 {
		comment = p.header[at:]
	}
	if p.style != '"' && !strings.Contains(description, "\n") {
		forms = append(forms, "'"+strings.ReplaceAll(description, "'", "''")+"'"+comment)
	}
	return append(forms, doubleQuoted(description)+comment)
}

// isPlain reports whether YAML reads a text as it is, without quotes: "yes" is a
// boolean, and "a: b" a mapping.
func isPlain(s string) bool {
	var value any
	err := yaml.Unmarshal([]byte(strings.ReplaceAll(s, "\n", " ")), &value)
	_, isText := value.(string)
	return err == nil && isText
}

// indented joins lines, and indents those with text.
func (p place) indented(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if line != "" {
			b.WriteString(p.indent + line)
		}
	}
	return b.String()
}

// minWidth is the shortest length to which lines are wrapped.
const minWidth = 60

// fold breaks a text into lines as YAML folds them: a single line break is a space,
// and each empty line is a line break.
func fold(s string, width int) (lines []string) {
	width = max(width, minWidth)
	for i, paragraph := range strings.Split(s, "\n") {
		if i > 0 {
			lines = append(lines, "")
		}
		line := ""
		for _, word := range strings.Split(paragraph, " ") {
			if line != "" && word != "" && len([]rune(line))+1+len([]rune(word)) > width && !strings.HasSuffix(line, " ") {
				lines = append(lines, line)
				line = word
				continue
			}
			if line != "" || word == "" {
				line += " "
			}
			line += word
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// doubleQuoted writes a text as a double-quoted scalar of YAML.
func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// LineFeeds returns a text with LF line ends.
func LineFeeds(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}
