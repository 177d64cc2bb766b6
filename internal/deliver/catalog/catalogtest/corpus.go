// Package catalogtest has skills that were made to break clients of catalogs: names,
// versions, descriptions, frontmatter and files for paths, JSON, YAML, git, zip,
// URLs, headers, terminals, HTML, shells, JavaScript objects and the file systems of
// Windows and macOS. Every protocol is tested with them.
package catalogtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Skill is pushed to the registry.
type Skill struct {
	Why           string // what it attacks
	Name, Version string
	// Description is sent beside the archive; without one, that of the frontmatter holds.
	Description *string
	Files       map[string]string
}

// Paths lists the files, sorted.
func (s Skill) Paths() []string { return slices.Sorted(maps.Keys(s.Files)) }

// A Refusal is a skill that the registry does not accept, and the field that it
// names then.
type Refusal struct {
	Skill
	Field string
}

const (
	goodVersion = "1.0.0"
	skillFile   = "SKILL.md"
)

// frontmatter is a SKILL.md with a quoted description, which is printable in YAML.
func frontmatter(name, description string) string {
	return "---\nname: " + strconv.QuoteToASCII(name) + "\ndescription: " + strconv.QuoteToASCII(description) + "\n---\n# Demo\n"
}

// a is a harmless skill.
func a(why, name string) Skill {
	return Skill{Why: why, Name: name, Version: goodVersion, Files: map[string]string{skillFile: frontmatter(name, "Does "+name+".")}}
}

// numbered makes skills of values, with harmless names of their own.
func numbered(why, prefix string, values []string, change func(s *Skill, value string)) []Skill {
	skills := make([]Skill, len(values))
	for i, value := range values {
		skills[i] = a(why, fmt.Sprintf("%s-%d", prefix, i))
		change(&skills[i], value)
	}
	return skills
}

func named(why string, names ...string) []Skill {
	skills := make([]Skill, len(names))
	for i, name := range names {
		skills[i] = a(why, name)
	}
	return skills
}

func versioned(why, prefix string, versions ...string) []Skill {
	return numbered(why, prefix, versions, func(s *Skill, v string) { s.Version = v })
}

func described(why, prefix string, descriptions ...string) []Skill {
	return numbered(why, prefix, descriptions, func(s *Skill, d string) { s.Files[skillFile] = frontmatter(s.Name, d) })
}

func announced(why, prefix string, descriptions ...string) []Skill {
	return numbered(why, prefix, descriptions, func(s *Skill, d string) { s.Description = &d })
}

// written are skills with these as SKILL.md.
func written(why, prefix string, texts ...string) []Skill {
	return numbered(why, prefix, texts, func(s *Skill, text string) { s.Files[skillFile] = text })
}

// filed are skills with one more file each.
func filed(why, prefix string, paths ...string) []Skill {
	return numbered(why, prefix, paths, func(s *Skill, path string) { s.Files[path] = "evil\n" })
}

// Listed returns skills that the registry accepts and every catalog shows.
func Listed() []Skill {
	return slices.Concat(
		named("is a word of a route", "api", "o", "v", "mcp", "well-known", "marketplace", "skills", "index", "search", "download", "resolve", "whoami",
			"plugins", "registry", "clawhub", "versions", "install", "static", "login", "device", "settings", "metrics", "healthz"),
		named("is a reserved plugin or marketplace", "everything", "whetstone", "whetstone-hostile", "claude-plugins-official", "agent-skills", "npm",
			"github", "inline", "builtin", "skills-dir", "anthropic-plugins"),
		named("is a property of a JavaScript object", "constructor", "prototype", "length", "then"),
		named("is another type in YAML or JSON", "null", "true", "no", "on", "y", "0", "007", "1e5", "0x10", "2026-11-16", "nan", "undefined"),
		named("is a word of git", "head", "main", "refs", "git", "git-1"),
		named("is a command or an option", "rm", "latest", "all", "default", "skill-md", "con-x", strings.Repeat("a", 64)),
		versioned("leaves its folder", "v-path", "..", ".", "...", `..\..\x`, `\`, "%2e%2e", "%2f", "%00", "~", "C:", "a:b", ".git", "con", "NUL.txt", "aux",
			"1.0.0.", "1..0", "1.0.0 ", " 1", "com1"),
		versioned("is an option or a command", "v-shell", "-", "--force", "-rf", "$(id)", "`id`", ";id", "|id", "&id", "'; DROP TABLE x", "${x}", "{{x}}", "!x"),
		versioned("breaks a format", "v-text", `"><svg onload=x>`, "<!--", "]]>", `{"a":1}`, `"`, "'", "1.0.0#x", "1.0.0?x=y", "1&version=2", "a b", "a,b", "---",
			"__proto__", "constructor", "null", "1.0.0.lock", "HEAD", "größe", "日本", "１.０.０", "1.0.0\u0301", "🙂"),
		versioned("is no plain semantic version", "v-semver", "latest", "1", "v1", "1.0", "01.2.3", "0.0.0-repohost.0123456", "1.0.0-rc.1", "1.0.0+build", "^1.0.0", "*",
			">=1", "99999999999999999999.0.0", strings.Repeat("1", 128), "1.0.0-"+strings.Repeat("a", 58), "1.0.0-"+strings.Repeat("a", 59)),
		described("controls a terminal", "d-terminal", "\x1b[2J\x1b]0;pwned\x07 x", "\x1b]52;c;cm0gLXJm\x07x", "a\rb\bc", "a\u009b31mb", "\x1b]8;;http://evil.example\x1b\\x"),
		described("looks like something else", "d-bidi", "a\u202etxt.exe", "a\u2066b\u2069", "a\u200bb", "\ufeffa", "p\u0430ypal", "a\u0300\u0300\u0300\u0300\u0300\u0300b", "a\u2028b", "a\u0085b"),
		described("breaks a format", "d-text", "</script><script>alert(1)</script>", `"},{"name":"evil"`, "a\nb: c\n---\n# x", "- x", "& *x !!y", "{{7*7}} ${7*7} <%= 7 %>",
			"![x](http://127.0.0.1/x)", "a\r\nSet-Cookie: x=y", "=cmd|' /C calc'!A0", "%s%n", "\\u0000", "\U0001f468\u200d\U0001f469", strings.Repeat("x", 1024),
			strings.Repeat("ü", 3000)),
		announced("is not that of the file", "d-sent", "\x1b[31mred", "</script>", `\`, "a\nb"),
		written("has another name in its frontmatter", "f-name", frontmatter("../../../../evil", "A."), frontmatter("/tmp/evil", "A."), frontmatter("..", "A."),
			frontmatter("__proto__", "A."), frontmatter("con", "A."), frontmatter("api", "A."), frontmatter("a\nb", "A."), frontmatter("\x1b[2J", "A."),
			frontmatter("-rf", "A."), frontmatter("a/../../b", "A."), frontmatter(`..\..\evil`, "A."), frontmatter(strings.Repeat("x", 300), "A."), frontmatter("p\u0434f", "A.")),
		written("is hard to parse", "f-yaml", "---\r\nname: x\r\ndescription: A.\r\n---\r\nx", "---\n{name: x, description: A.}\n---\n",
			"---\nname: &a x\ndescription: *a\n---\n", "---\n__proto__: {admin: true}\nconstructor: 1\nname: x\ndescription: A.\n---\n",
			"---\nname: x\ndescription: |\n  A\n  ---\n  b\n---\n", "---\nname: x\ndescription: A.\nhooks: {Stop: [{hooks: [{type: command, command: id}]}]}\n---\n",
			"---\nname: x\ndescription: A.\nmetadata: {version: ../../x, requires: ../../y}\n---\n", "---\nname: x\ndescription: a: b: c\n---\n",
			"---\nname: x\ndescription: A.\n---\n</script>\x1b[2J\u202e\x00"),
		filed("is a command or an option", "file-shell", "-rf", "--help", "~", "~root", "$HOME/x", "$(id)", "`id`", "a;b", "a|b", "a&b", "a b", " lead", "a'b", `a"b`, "a<b>",
			"a*b", "!x", "@x", "=x", "{a,b}", "[a]"),
		filed("leaves its folder when decoded", "file-path", "%2e%2e/x", "%2e%2e%2fx", "..%2fx", "...x", "..x", "a%00b", "a%", "a#b", "a?b=c", "a+b", "a%20b", "con-x", "x/..x"),
		filed("has a meaning to a client", "file-client", ".gitmodules", ".gitattributes", "GIT~1/config", ".npmrc", "package.json", "plugin.json", ".clawhub/origin.json",
			".clawhub/lock.json", "_meta.json", "skills-lock.json", ".claude/settings.json", "docs/SKILL.md", "__proto__", "constructor/prototype", "index.html", "x.svg",
			"desktop.ini", "marketplace.json", "skill-card.md", ".well-known/agent-skills/index.json"),
		plugins(),
		[]Skill{
			withFiles(a("is as deep and long as it may be", "file-long"), "a/b/c/d/e/f/g/h", "x", strings.Repeat("n", 100), "x",
				strings.Repeat("d", 100)+"/"+strings.Repeat("n", 99), "x"),
			withFiles(a("has odd contents", "file-content"), "empty", "", "binary", "\x00\xff\xfe\r\n\x1a", ".gitignore", "*\n", ".clawhubignore", "*\n"),
			withFiles(a("has the longest ustar name with a prefix", "file-ustar"), strings.Repeat("p", 155)+"/"+strings.Repeat("n", 100), "x"),
		},
	)
}

// plugins are skills that Claude Code would take for plugins with hooks, servers and
// commands, which run without being asked for.
func plugins() []Skill {
	const hook = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch /tmp/evil"}]}]}}`
	return []Skill{
		withFiles(a("has all parts of a plugin", "plugin-parts"), "hooks/hooks.json", hook, ".mcp.json", `{"mcpServers":{"evil":{"command":"id"}}}`,
			"commands/evil.md", "# x\n", "agents/evil.md", "---\nname: evil\ndescription: x\n---\nx\n", "skills/evil/SKILL.md", frontmatter("evil", "Evil.")),
		withFiles(a("has a plugin's manifest", "plugin-manifest"), ".claude-plugin/plugin.json",
			`{"name":"../../evil","version":"../../evil","skills":["../../"],"hooks":`+hook[len(`{"hooks":`):]),
		withFiles(a("has a marketplace", "plugin-market"), ".claude-plugin/marketplace.json", `{"name":"evil","owner":{"name":"x"},"plugins":[]}`),
	}
}

func withFiles(s Skill, files ...string) Skill {
	for i := 0; i < len(files); i += 2 {
		s.Files[files[i]] = files[i+1]
	}
	return s
}

// Unlisted returns skills that the registry accepts and no catalog shows, because
// clients would refuse them, or take them for something else.
func Unlisted() []Skill {
	return slices.Concat(
		named("leaves its folder", "..", ".", "...", ".git", "..%2f", "%2e%2e", "C:", "~", "a:b", ".well-known", "x.", "a..b"),
		named("is a device on Windows", "con", "nul", "aux", "prn", "com1", "lpt9", "com0", "con.txt", "CON"),
		named("is an option or a command", "-", "--force", "-rf", "$(id)", "`id`", "a;b", "a|b", "a&b", "{{a}}", "${a}", "!x", "a*b", "a=b"),
		named("breaks a format", `a"b`, "a'b", "a<b>", "a#b", "a?b", "a%b", "a+b", "a,b", "a@b", "@a", "[a]", "{}", "__proto__", "hasOwnProperty", "toString",
			"marketplace.json", "index.json", "a b", "a_b", "a--b", "a-", "-a", "A", "Pdf", "xn--pdf-", "*"),
		named("looks like another one", "p\u0434f", "pdf\u0301", "\uff50\uff44\uff46", "\u13b7\u03c1df", "größe", "gro\u0308ße", "日本", "a\u2010b", "\u0131d", "ſkill",
			"🙂", "ﬁle", "\u0661", "\u03b1"),
		named("is too long", strings.Repeat("a", 65), strings.Repeat("ü", 100)),
		described("has nothing to show", "d-none", "", " ", "\x1b\x07", "\u202e", "\n\n"),
		written("has no description", "f-none", "# Only text\n", "---\nname: x\n---\n", "---\nname: x\ndescription:\n---\n", "no frontmatter"),
		filed("does not fit a plain archive", "file-unicode", "größe.md", "日本.md", "🙂", "p\u0434f.md", strings.Repeat("n", 101), strings.Repeat("ü", 60)),
	)
}

// Refused returns skills that the registry refuses.
func Refused() []Refusal {
	refused := func(field string, skills ...[]Skill) []Refusal {
		var all []Refusal
		for _, s := range slices.Concat(skills...) {
			all = append(all, Refusal{s, field})
		}
		return all
	}
	skill := frontmatter("x", "A.")
	return slices.Concat(
		refused("name", named("leaves its folder", "../x", "/x", `a\b`, `..\x`, "a/b", "a/", "//", "\x00", "a\x00b"),
			named("is not printable", "", " ", " a", "a ", "\ta", "a\n", "a\r\nb", "\x1b[2J", "a\u202eb", "a\u200bb", "\ufeffa", "a\u00a0b", "a\u2028b", "a\u0085b", "a\u00adb",
				"a\u2066b", "a\U000e0041b", "a\u3000b"),
			named("is too long", strings.Repeat("a", 101), strings.Repeat("ü", 101))),
		refused("version", versioned("leaves its folder", "r-path", "../x", "/", "a/b", "..\x00"),
			versioned("is not printable", "r-text", "", "1\n2", "1\r\nX: y", "1\x1b[2J", "1\u202e", "1\u200b", "\ufeff1", "1\u00a0", "1\u2028", "1\t", strings.Repeat("1", 129))),
		refused("description", announced("is no text", "r-about", "a\x00b", strings.Repeat("x", 4097))),
		refused("archive",
			filed("leaves its folder", "r-file", "../evil", "a/../../evil", "/etc/evil", `..\evil`, `a\b`, "C:/evil", "c:evil", "a//b", "a/./b", "./../evil", ".."),
			filed("is another file on Windows", "r-windows", "SKILL.md::$DATA", "SKILL.md:evil", "a:b", "con", "nul.txt", "a/aux", "COM1.md", "com\u00b9", "lpt9.x.y", "CONIN$", "a.", "a ", "a./b", "b /c", "..."),
			filed("is the same file on some systems", "r-fold", "skill.md", "Skill.MD", "SKILL.md/x", "s\u212aILL.md", "\u017fKILL.md"),
			[]Skill{
				withFiles(a("has two files that differ in case", "r-pair-0"), "A", "1", "a", "2"),
				withFiles(a("has two files that differ in normalisation", "r-pair-1"), "\u00e9", "1", "e\u0301", "2"),
				withFiles(a("has two folders that differ in case", "r-pair-2"), "D/x", "1", "d/y", "2"),
				withFiles(a("has a file that is a folder, too", "r-pair-3"), "x", "1", "x/y", "2"),
				{Why: "is no skill", Name: "r-none", Version: goodVersion, Files: map[string]string{"readme.md": "x"}},
				{Why: "is two skills", Name: "r-two", Version: goodVersion, Files: map[string]string{"a/SKILL.md": skill, "b/SKILL.md": skill}},
			},
			filed("is not printable", "r-name", "a\nb", "a\x1bb", "a\u202eb", "a\u200bb", "\ufeffa", "a\u00a0b", "a\u2028b", "a\xffb", "a\u00adb"),
			filed("is too long or deep", "r-long", strings.Repeat("n", 513), "1/2/3/4/5/6/7/8/9")),
	)
}
