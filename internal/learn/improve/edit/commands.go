package edit

import (
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// address matches URLs, mail addresses, and host names with and without a scheme. Schemes are
// matched in general, host names by a list of common endings: "config.json" must not count as one.
var address = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s<>"'` + "`" + `)\]]+|\b(?:mailto|javascript|data):[^\s<>"'` +
	"`" + `)\]]+|` +
	`[\w.+-]*@?\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|ai|app|co|info|biz|xyz|ru|cn|de|uk|me|sh|link|site|online|tech|cloud|page|top|tk)\b(?:[:/][^\s<>"'` + "`" + `)\]]*)?|` +
	`\b\d{1,3}(?:\.\d{1,3}){3}\b(?:[:/][^\s<>"'` + "`" + `)\]]*)?`)

// urls lists the addresses of a text.
func urls(s string) (all []string) {
	for _, found := range address.FindAllString(s, -1) {
		all = append(all, strings.ToLower(strings.TrimRight(found, ".,;:!?*_")))
	}
	return all
}

var comment = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)

// comments lists the HTML comments of a text.
func comments(s string) []string { return comment.FindAllString(s, -1) }

// addedCommands returns which forms of commands the text has that it did not have
// before. An agent runs what its skill shows as a command, and Claude Code runs
// what follows an exclamation mark before the model has read it. Forms are compared and not places:
// moving a command within the text adds nothing.
func addedCommands(before, after skillpkg.Skill) (problems []string) {
	old := unitsOf(before)
	known := map[unit]bool{}
	for _, u := range old {
		known[u] = true
	}
	now := commands{}
	// Units that the text had before are skipped as a whole, so that the regular expressions only
	// run on what changed.
	for _, u := range unitsOf(after) {
		if !known[u] {
			now.addUnit(u)
		}
	}
	if len(now) == 0 {
		return nil
	}
	was := commands{}
	for _, u := range old {
		was.addUnit(u)
	}
	for _, form := range []struct{ name, problem string }{
		{"injection", "a command that is run when the skill is loaded was added"},
		{"fence", "code was added"},
		{"inline", "a command was added"},
		{"tool", "the name of a tool was added"},
	} {
		for text := range now[form.name] {
			if !was[form.name][text] {
				problems = append(problems, form.problem)
				break
			}
		}
	}
	return problems
}

// commands are what a text has of each form. The value is a set of the commands in one spelling,
// white space collapsed.
type commands map[string]map[string]bool

func (c commands) add(form, s string) {
	if c[form] == nil {
		c[form] = map[string]bool{}
	}
	c[form][strings.Join(strings.Fields(s), " ")] = true
}

// A unit is a part of Markdown in which commands are looked for: a paragraph, since
// a command may go on in the next line, or a line in a fence.
type unit struct {
	kind unitKind
	text string
}

type unitKind int

const (
	prose unitKind = iota
	code           // a line in a fence
	data           // a line in a fence of a language in which nothing can be run
	runs           // the beginning of a fence whose content is run
)

var (
	inlineCode = regexp.MustCompile("`+([^`\n]+)`+")
	injection  = regexp.MustCompile("!`[^`\n]*`?")

	// shellLike matches what only a shell understands, in inline code.
	shellLike = regexp.MustCompile(`\$\(|&&|\|\||\|\s*(?:ba|z)?sh\b|^\s*\$ |(?:^|\s)--?[a-zA-Z][\w-]*|>>|\s>\s*\S*[./]|` +
		`^\.{0,2}/\S|^~/|\.(?:sh|bash|py|js|mjs|ts|rb|pl|ps1|exe|bat)\b`)

	// bare matches a program without arguments, in inline code.
	bare = regexp.MustCompile(`^(?:sudo|bash|sh|zsh|curl|wget|rm|chmod|dd|nc|ssh|scp|git|gh|npm|npx|pip3?|docker|kubectl|powershell|eval|base64)$`)

	// program matches a program with arguments, where a line begins or asks to run
	// it.
	program = regexp.MustCompile(`(?i)(?:^|\b(?:run|execute|invoke|call|type|enter|use|via|with|and|then)\s+|[|;&(]\s*)["'` +
		"`" + `*]*` +
		`(?:sudo\s+)?(?:(?:ba|z|k|da|fi)?sh|curl|wget|rm|rmdir|mv|cp|cat|echo|env|printenv|export|find|sed|awk|grep|tee|xargs|ls|cd|touch|` +
		`chmod|chown|dd|mkfs|kill|pkill|nc|ncat|netcat|ssh|scp|rsync|ftp|telnet|git|gh|npm|npx|yarn|pnpm|bun|bunx|deno|node|pip3?|pipx|uvx?|` +
		`python[0-9.]*|perl|ruby|php|java|go|cargo|make|docker|podman|kubectl|helm|terraform|aws|gcloud|az|powershell|pwsh|cmd|iex|iwr|irm|` +
		`eval|exec|source|base64|xxd|openssl|crontab|systemctl|apt(?:-get)?|brew|osascript|launchctl)` +
		`\s+(?:-\S|/|~|\./|\$|https?:|(?:install|run|exec|push|pull|clone|add|commit|apply|config|checkout|reset|status)\b|[\w.-]+[/.]\w)`)

	// tool matches the names of tools of agents. Those that are common words count
	// only where they cannot be words.
	tool = regexp.MustCompile(`\b(?:Bash|BashOutput|KillShell|MultiEdit|NotebookEdit|NotebookRead|TodoWrite|WebFetch|WebSearch|SlashCommand|` +
		`run_shell_command|run_terminal_cmd|execute_command|read_file|write_file|edit_file|apply_patch|mcp__\w+)\b|` +
		`\b(?:Read|Write|Edit|Glob|Grep|Task|Agent|Skill|LS|Shell|Terminal)(?:\(|\s+tool\b|` + "`" + `)`)
)

// unitsOf splits the description and the body of a skill. It is a rough reader of Markdown, not a
// parser: where in doubt, text counts as code, which only refuses an edit.
func unitsOf(s skillpkg.Skill) (units []unit) {
	fence, inside := "", code
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			units = append(units, unit{prose, strings.Join(paragraph, "\n")})
		}
		paragraph = nil
	}
	for line := range strings.Lines(s.Description + "\n\n" + s.Body) {
		line = strings.TrimRight(line, "\n")
		mark, info := fenceMark(line)
		switch {
		case mark != "" && fence == "":
			flush()
			fence, inside = mark, code
			if isData(info) {
				inside = data
			}
			if strings.HasPrefix(info, "!") {
				units = append(units, unit{runs, line})
			}
		case fence != "" && mark != "" && info == "" && mark[0] == fence[0] && len(mark) >= len(fence):
			fence = ""
		case strings.TrimSpace(line) == "":
			flush()
		case fence != "":
			units = append(units, unit{inside, line})
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return units
}

// fenceMark returns the marks of a fence and its info string; mark is "" if the line
// is not a fence. Marks inside of lists and quotations count as well.
func fenceMark(line string) (mark, info string) {
	line = strings.TrimLeft(line, " \t>*+-.0123456789")
	if !strings.HasPrefix(line, "```") && !strings.HasPrefix(line, "~~~") {
		return "", ""
	}
	rest := strings.TrimLeft(line, line[:1])
	return line[:len(line)-len(rest)], strings.ToLower(strings.TrimSpace(rest))
}

// addUnit finds the commands in a unit.
func (c commands) addUnit(u unit) {
	switch u.kind {
	case runs:
		c.add("injection", u.text)
		return
	case code:
		c.add("fence", u.text)
	case data, prose:
	}
	for line := range strings.SplitSeq(u.text, "\n") {
		if u.kind == prose && isIndentedCode(line) {
			c.add("fence", line)
		}
		// Only at the beginning of a line a program needs no word that asks to run it.
		// List marks, quotation marks and prompts before a command don't hide it.
		start := strings.TrimLeft(line, " \t>*+-.0123456789$#")
		if at := program.FindStringIndex(start); at != nil && at[0] == 0 {
			c.add("inline", clause(start))
		}
	}
	// A command may go on in the next line of its paragraph.
	c.addProse(strings.ReplaceAll(u.text, "\n", " "))
}

// addProse finds tools and commands inside of a line.
func (c commands) addProse(s string) {
	for _, name := range tool.FindAllString(s, -1) {
		c.add("tool", strings.Trim(name, "(`"))
	}
	for _, run := range injection.FindAllString(s, -1) {
		c.add("injection", run)
	}
	for _, code := range inlineCode.FindAllStringSubmatch(s, -1) {
		if program.MatchString(code[1]) || shellLike.MatchString(code[1]) || bare.MatchString(code[1]) {
			c.add("inline", code[1])
		}
	}
	for _, at := range program.FindAllStringIndex(s, -1) {
		if at[0] > 0 {
			c.add("inline", clause(s[at[0]:]))
		}
	}
}

// endOfClause matches what ends a command in prose. A full stop inside of a word, as in a file
// name, ends nothing.
var endOfClause = regexp.MustCompile("`|[.,;:]\\s|$")

// clause returns a command in prose, as far as it goes.
func clause(s string) string {
	quoted := strings.IndexByte(s, '`')
	from := 0
	if quoted >= 0 && program.FindStringIndex(s)[1] > quoted { // the command is in inline code
		from = quoted + 1
	}
	return s[:from+endOfClause.FindStringIndex(s[from:])[0]]
}

// isIndentedCode reports whether a line is indented so far that Markdown shows it
// as code, and looks like a command.
func isIndentedCode(line string) bool {
	return (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")) && shellLike.MatchString(strings.TrimSpace(line))
}

// isData reports whether the info string of a fence names a language in which
// nothing can be run.
func isData(info string) bool {
	language, _, _ := strings.Cut(info, " ")
	switch language {
	case "json", "jsonc", "yaml", "yml", "toml", "csv", "tsv", "xml", "html", "markdown", "md", "text", "txt", "diff",
		"mermaid", "latex", "tex":
		return true
	}
	return false
}
