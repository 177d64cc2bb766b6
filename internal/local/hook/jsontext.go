package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// A value is a JSON value with its place in the text, so that it can be edited and
// the rest stays as it is. Offsets are in bytes, end exclusive.
type value struct {
	kind       byte // '{', '[', or 0 for all others
	start, end int
	children   []value // members or items
	name       string  // of a member
	nameStart  int     // of a member; of an item its start
}

// parseJSON parses a text with one value. It is strict JSON: comments are refused rather than
// lost.
func parseJSON(content []byte) (value, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	p := &jsonParser{content, decoder}
	v, err := p.value()
	if err == nil {
		if _, extra := decoder.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("there is text after the end")
		}
	}
	if err == nil {
		return v, nil
	}
	offset := int(decoder.InputOffset())
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = int(syntax.Offset)
	}
	message := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		message, offset = "the text ends too early", len(content)
	}
	return v, broken("it is not valid JSON: "+message, lineAt(content, offset))
}

// A jsonParser adds places to a Decoder, whose InputOffset is the end of the last token only.
type jsonParser struct {
	content []byte
	*json.Decoder
}

// next returns the offset of the next token, after white space and separators.
func (p *jsonParser) next() int {
	at := int(p.InputOffset())
	for at < len(p.content) && strings.IndexByte(" \t\r\n,:", p.content[at]) >= 0 {
		at++
	}
	return at
}

func (p *jsonParser) value() (v value, err error) {
	v.start = p.next()
	token, err := p.Token()
	if err != nil {
		return v, err
	}
	if d, ok := token.(json.Delim); ok {
		v.kind = byte(d)
		for p.More() {
			child, err := p.child(v.kind == '{')
			if err != nil {
				return v, err
			}
			v.children = append(v.children, child)
		}
		if _, err := p.Token(); err != nil {
			return v, err
		}
	}
	v.end = int(p.InputOffset())
	return v, nil
}

// child parses a member of an object, or an item of an array.
func (p *jsonParser) child(member bool) (value, error) {
	start, name := p.next(), ""
	if member {
		token, err := p.Token()
		if err != nil {
			return value{}, err
		}
		name, _ = token.(string) // Token accepts nothing else
	}
	v, err := p.value()
	v.name, v.nameStart = name, start
	return v, err
}

// member returns the member of an object with a name, if there is one. If the name is there
// twice, the first one counts.
func (v value) member(name string) (value, bool) {
	i := slices.IndexFunc(v.children, func(c value) bool { return v.kind == '{' && c.name == name })
	if i < 0 {
		return value{}, false
	}
	return v.children[i], true
}

// indent returns the indentation of the children of a container, and whether it is
// written on one line. Children of an empty container get two spaces more than its own line.
func (v value) indent(content []byte) (indent string, compact bool) {
	if len(v.children) > 0 {
		return leading(content, v.children[0].nameStart)
	}
	if !bytes.Contains(content, []byte("\n")) && len(content) > len("{}\n") {
		return "", true
	}
	outer, _ := leading(content, v.start)
	return outer + "  ", false
}

// leading returns the white space before an offset on its line, and whether there
// is something else.
func leading(content []byte, offset int) (space string, more bool) {
	line := content[bytes.LastIndexByte(content[:offset], '\n')+1 : offset]
	trimmed := bytes.TrimLeft(line, " \t")
	return string(line[:len(line)-len(trimmed)]), len(trimmed) > 0
}

// insertText adds a child to a container, after the others. The text is already indented, but
// for its first line.
func insertText(content []byte, container value, text string) []byte {
	indent, compact := container.indent(content)
	if n := len(container.children); n > 0 {
		separator := ",\n" + indent
		if compact {
			separator = ","
		}
		return splice(content, container.children[n-1].end, container.children[n-1].end, separator+text)
	}
	if compact {
		return splice(content, container.start+1, container.end-1, text)
	}
	outer, _ := leading(content, container.start)
	return splice(content, container.start+1, container.end-1, "\n"+indent+text+"\n"+outer)
}

// deleteChild removes a child of a container with its separator. The white space of the
// neighbours stays, so what is left looks as before.
func deleteChild(content []byte, container value, i int) []byte {
	children := container.children
	switch {
	case i > 0:
		return splice(content, children[i-1].end, children[i].end, "")
	case len(children) > 1:
		return splice(content, children[0].nameStart, children[1].nameStart, "")
	}
	return splice(content, container.start+1, container.end-1, "")
}

// splice replaces content[from:to] in a copy.
func splice(content []byte, from, to int, text string) []byte {
	return slices.Concat(content[:from], []byte(text), content[to:])
}
