package lint

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

const (
	longReference = 300 // lines
	// contentsWithin is where a list of contents must begin.
	contentsWithin = 60
	minContents    = 3
	maxLinkLine    = 16 << 10
)

var (
	codeSpan   = regexp.MustCompile("`+[^`]*`+")
	inlineLink = regexp.MustCompile(`\]\(\s*(<[^>]*>|[^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?:\s+["'(][^)]*)?\s*\)`)
	linkTarget = regexp.MustCompile(`^\s{0,3}\[[^\]^]+\]:\s+(<[^>]*>|\S+)`)
	scheme     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)
	drive      = regexp.MustCompile(`^[A-Za-z]:[/\\]`)
)

// checkMarkdown checks the links of a document, and whether a long one has a
// table of contents.
func (c *check) checkMarkdown(d document) {
	t := tracker{document: d}
	jumps, listed := 0, false
	for rest, more := d.text, true; more; {
		var text string
		text, rest, more = strings.Cut(rest, "\n")
		l := t.step(strings.TrimSuffix(text, "\r"), rest)
		if t.number <= contentsWithin {
			jumps += strings.Count(l.text, "](#")
			listed = listed || isContents(l.text)
		}
		if l.fenced || len(l.text) > maxLinkLine || !strings.Contains(l.text, "](") && !strings.Contains(l.text, "]:") {
			continue
		}
		if c.budget -= len(l.text); c.budget < 0 {
			continue
		}
		for _, target := range targets(codeSpan.ReplaceAllString(l.text, "")) {
			c.checkLink(d, l.number, target)
		}
	}
	if strings.HasPrefix(d.path, "references/") && t.number > longReference && !listed && jumps < minContents {
		c.found.add(remark{
			code: "qual.reference.no_toc", path: d.path,
			message: fmt.Sprintf("The reference has %d lines and no list of contents.", t.number),
		})
	}
}

// isContents reports whether a line is the heading of a list of contents.
func isContents(text string) bool {
	switch strings.ToLower(strings.Trim(text, "#*_:[] \t")) {
	case "contents", "table of contents", "toc":
		return true
	}
	return false
}

// targets returns what a line links to.
func targets(text string) []string {
	var all []string
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Trim(m[1], "<>"))
	}
	if m := linkTarget.FindStringSubmatch(text); m != nil {
		all = append(all, strings.Trim(m[1], "<>"))
	}
	return all
}

// checkLink checks a link to a file. Agents resolve it relative to the root of
// the skill, renderers relative to the folder of the document: both are accepted.
func (c *check) checkLink(d document, number int, target string) {
	name, ok := linkedFile(target)
	r := remark{path: d.path, line: number, evidence: target}
	switch {
	case drive.MatchString(target) || strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "//"):
		r.code = "qual.link.absolute"
	case !ok:
		return
	default:
		fromHere, fromRoot := path.Join(path.Dir(d.path), name), path.Clean(name)
		switch {
		case c.files[fromHere]:
			name = fromHere
		case c.files[fromRoot]:
			name = fromRoot
		case leaves(fromHere) && leaves(fromRoot):
			r.code = "qual.link.escapes_root"
		case fromHere == ".":
			return
		default:
			r.code = "qual.link.broken"
		}
	}
	if r.code == "" && d.path == c.pkg.SkillPath && strings.Count(name, "/") > 1 {
		r.code = "qual.link.too_deep"
	}
	if r.code != "" {
		c.found.add(r)
	}
}

func leaves(name string) bool { return name == ".." || strings.HasPrefix(name, "../") }

// linkedFile returns the path in a link; ok is false for a URL or a placeholder.
func linkedFile(target string) (_ string, ok bool) {
	if scheme.MatchString(target) || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "{}$*<>|") {
		return "", false
	}
	name, _, _ := strings.Cut(target, "#")
	name, _, _ = strings.Cut(name, "?")
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return strings.TrimSuffix(name, "/"), strings.ContainsAny(name, "./")
}
