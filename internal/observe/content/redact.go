package content

// Some of what people and agents write must not be stored even where the rest may
// be: secrets, e-mail addresses and people's names in the paths of their home
// folders. Each is replaced by a placeholder that names its kind, e.g.
// "[redacted:email]".

import (
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// placeholder returns what replaces something of a kind.
func placeholder(kind string) string { return "[redacted:" + kind + "]" }

// A rule replaces one kind of text. What its first group matches stays.
type rule struct {
	kind string
	// keywords are in lower case: a match contains one of them. A line without any
	// is skipped, since the expressions take most of the time.
	keywords   []string
	expression *regexp.Regexp
}

// The rules. The first ones find secrets that the linter's patterns leave out: a
// skill is full of harmless text like them, but in the output of a program it is
// most likely real.
var rules = []rule{
	{"whetstone_key", []string{"st_live_", "st_test_"}, regexp.MustCompile(`()st_(?:live|test)_[A-Za-z0-9]{20,}`)},
	{"llm_provider", []string{"sk-"}, regexp.MustCompile(`()\bsk-[A-Za-z0-9_-]{20,}`)},
	{"authorization", []string{"bearer ", "authorization"}, regexp.MustCompile(
		`(?i)(\bbearer\s+|\bauthorization\\?["']?\s*[:=]\s*\\?["']?(?:basic|token|digest)\s+)[A-Za-z0-9._~+/=-]{8,}`)},
	{"assigned", []string{"passw", "pwd", "secret", "token", "key", "credential"}, regexp.MustCompile(
		`(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?)(?:[_-][a-z0-9]+)*` +
			`\\?["']?\s*(?:=>|:=|[=:])\s*\\?["']?)[^\s"'\\,;\[][^\s"'\\,;]{5,}`)},

	{"email", []string{"@", "%40"}, regexp.MustCompile(
		`()[\p{L}\p{N}._%+'-]+(?:@|%40)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}`)},
	// Home folders on Linux, macOS and Windows; in JSON the backslashes are doubled.
	{"home", []string{"/home/", "/users/", `\users\`, "documents and settings"}, regexp.MustCompile(
		`()(?:/home/|/Users/|[A-Za-z]:(?:\\{1,4}|/)(?:Users|Documents and Settings)(?:\\{1,4}|/))[^/\\\s"'<>|:;,)\]}]+`)},
	// The same as an agent makes the name of a folder of it: "projects/-Users-ada-api".
	{"home", []string{"-home-", "-users-"}, regexp.MustCompile(`(projects[/\\]+)(?:[A-Za-z]-)?-(?:home|Users)-[^-/\\\s"']+`)},
}

// Redact returns a text without what must not be stored.
func Redact(s string) string {
	s = privateKeys(s)
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(s) {
		b.WriteString(redactLine(line))
	}
	return b.String()
}

// redactLine handles one line, to which all patterns are limited.
func redactLine(line string) string {
	line = lint.ReplaceSecrets(line, placeholder)
	lower := strings.ToLower(line)
	for _, r := range rules {
		if slices.ContainsFunc(r.keywords, func(k string) bool { return strings.Contains(lower, k) }) {
			line = r.expression.ReplaceAllString(line, "${1}"+placeholder(r.kind))
		}
	}
	return line
}

const (
	keyBegin = "-----BEGIN "
	keyEnd   = "-----END "
	keyWord  = "PRIVATE KEY"
)

// keyBody matches the lines of a key, escaped or not.
var keyBody = regexp.MustCompile(`^[A-Za-z0-9+/=\s\\",:-]*`)

// privateKeys replaces private keys in PEM, with or without their end: the output
// of a program may be cut off.
func privateKeys(s string) string {
	var b strings.Builder
	for {
		begin := strings.Index(s, keyBegin)
		if begin < 0 {
			break
		}
		header, rest, ok := strings.Cut(s[begin+len(keyBegin):], "-----")
		if !ok || len(header) > 64 || !strings.Contains(header, keyWord) {
			b.WriteString(s[:begin+len(keyBegin)])
			s = s[begin+len(keyBegin):]
			continue
		}
		b.WriteString(s[:begin])
		b.WriteString(placeholder("private_key"))
		if body, after, ok := strings.Cut(rest, keyEnd); ok && !strings.Contains(body, keyBegin) {
			_, s, _ = strings.Cut(after, "-----")
			continue
		}
		s = rest[len(keyBody.FindString(rest)):]
	}
	b.WriteString(s)
	return b.String()
}
