package lint

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// A lang is a language that patterns are written for; several form a set.
type lang uint8

const (
	noLang lang = 0
	shell  lang = 1 << iota
	python
	script // JavaScript and its kin
	otherCode
)

// languages returns the language of a file by its extension.
func languages(extension string) lang {
	switch extension {
	case ".sh", ".bash", ".zsh", ".ksh":
		return shell
	case ".py", ".pyw":
		return python
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return script
	case ".rb", ".pl", ".ps1", ".psm1", ".bat", ".cmd", ".php", ".lua", ".go", ".rs", ".java", ".c", ".cpp",
		".cs", ".swift", ".kt", ".r":
		return otherCode
	}
	return noLang
}

// fenceLang returns the language of a fenced block by its info string.
func fenceLang(info string) lang {
	word, _, _ := strings.Cut(strings.ToLower(strings.Trim(info, " {}.")), " ")
	switch word {
	case "bash", "sh", "shell", "zsh", "console", "shell-session", "terminal":
		return shell
	case "python", "python3", "py":
		return python
	case "js", "javascript", "node", "jsx", "ts", "typescript", "tsx":
		return script
	}
	return noLang
}

// A document is a text file of a skill.
type document struct {
	path     string
	text     string
	lang     lang
	markdown bool
	// lower is the number of steps by which the severity of findings is lowered.
	lower int
}

func newDocument(name string, content []byte) document {
	extension := strings.ToLower(path.Ext(name))
	d := document{
		path: name, text: strings.ToValidUTF8(string(content), "\ufffd"),
		lang: languages(extension), markdown: isMarkdown(extension),
	}
	if d.lang == noLang {
		d.lang = languageByContent(path.Base(name), content)
	}
	if d.isExample() {
		d.lower = 1
	}
	return d
}

func isMarkdown(extension string) bool {
	return slices.Contains([]string{".md", ".markdown", ".mdx"}, extension)
}

// languageByContent returns the language by the shebang, or by a few file names.
func languageByContent(base string, content []byte) lang {
	if base == "Makefile" || base == "Dockerfile" || base == "Justfile" {
		return shell
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	if !bytes.HasPrefix(first, []byte("#!")) {
		return noLang
	}
	switch {
	case bytes.Contains(first, []byte("python")):
		return python
	case bytes.Contains(first, []byte("node")), bytes.Contains(first, []byte("deno")), bytes.Contains(first, []byte("bun")):
		return script
	case bytes.Contains(first, []byte("sh")):
		return shell
	}
	return otherCode
}

// isExample reports whether the file is documentation, an example or a test, and
// not part of what the skill does. Code in references/ is not an example.
func (d document) isExample() bool {
	for folder := range strings.SplitSeq(path.Dir(d.path), "/") {
		switch strings.ToLower(folder) {
		case "docs", "examples", "tests", "evals":
			return true
		case "references":
			return d.lang == noLang
		}
	}
	return false
}

// A line is one line of a document with its context.
type line struct {
	number int
	text   string
	lang   lang
	// fenced reports that it is in a fenced block of Markdown.
	fenced bool
	// commented reports that an HTML comment is open where the line begins.
	commented bool
	// intro is the last line of prose before the fenced block.
	intro string
	// note is the last comment above the line in its fenced block.
	note string
	// next is the line that follows, if both are prose.
	next string
	// quote is the string of Python that is open where the line begins, or "".
	quote string
	// prior and rest are the document before and after the line.
	prior, rest string
}

// isCode reports whether the line is code.
func (l line) isCode() bool { return l.lang != noLang }

// isComment reports whether the whole line is a comment of its language.
func (l line) isComment() bool {
	text := strings.TrimSpace(l.text)
	switch l.lang {
	case noLang:
		return false
	case script:
		return strings.HasPrefix(text, "//") || strings.HasPrefix(text, "*") || strings.HasPrefix(text, "/*")
	default:
		return strings.HasPrefix(text, "#") || strings.HasPrefix(text, "//")
	}
}

// A tracker follows the context of the lines of a document. It is a small part
// of a Markdown parser: a whole one takes longer, and hostile documents can make
// it take much longer.
type tracker struct {
	document  document
	number    int
	fence     string // the opening fence of the block, or ""
	lang      lang
	commented bool
	intro     string
	note      string
	quote     string
}

// step returns the next line with its context; rest is the document after it.
func (t *tracker) step(text, rest string) line {
	t.number++
	l := line{number: t.number, text: text, lang: t.document.lang, rest: rest}
	l.prior = t.document.text[:max(0, len(t.document.text)-len(rest)-len(text)-1)]
	if !t.document.markdown {
		t.trackQuote(&l)
		return l
	}
	mark, info := fenceMark(text)
	switch {
	case t.fence == "" && mark != "" && !t.commented:
		t.fence, t.lang, t.note, t.quote = mark, fenceLang(info), "", ""
		return l
	case t.fence != "" && mark != "" && info == "" && mark[0] == t.fence[0] && len(mark) >= len(t.fence):
		t.fence = ""
		return l
	case t.fence != "":
		l.fenced, l.lang, l.intro = true, t.lang, t.intro
		switch trimmed := strings.TrimSpace(text); {
		case trimmed == "":
			t.note = ""
		case strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "//"):
			t.note = trimmed
		}
		l.note = t.note
		t.trackQuote(&l)
		return l
	}
	l.commented = t.commented
	t.commented = commentedAt(text, rest, t.commented, len(text))
	if strings.TrimSpace(text) != "" {
		t.intro = text
	}
	return l
}

// fenceMark returns the marks of a fence, e.g. "```", and its info string; mark is
// "" if the line is not a fence.
func fenceMark(text string) (mark, info string) {
	text = strings.TrimLeft(text, " \t>-*+0123456789.")
	if !strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") {
		return "", ""
	}
	rest := strings.TrimLeft(text, text[:1])
	return text[:len(text)-len(rest)], strings.TrimSpace(rest)
}

// trackQuote follows the strings of Python that span lines.
func (t *tracker) trackQuote(l *line) {
	if l.lang == python {
		l.quote = t.quote
		_, t.quote = l.stringAt(len(l.text))
	}
}
