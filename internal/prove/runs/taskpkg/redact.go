package taskpkg

import (
	"regexp"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// The output of a program is stored and shown to the whole organisation, so
// secrets in it are redacted: keys in the formats of well-known services, values
// that are named as secrets, and credentials in headers and URLs.
var (
	knownKey = regexp.MustCompile(`\b(` + strings.Join([]string{
		`sk-[A-Za-z0-9_-]{16,}`,
		`gh[pousr]_[A-Za-z0-9]{30,}`,
		`github_pat_[A-Za-z0-9_]{30,}`,
		`glpat-[A-Za-z0-9_-]{16,}`,
		`AKIA[0-9A-Z]{16}`,
		`xox[abprs]-[A-Za-z0-9-]{10,}`,
		`eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}`, // a JSON Web Token
	}, "|") + `)`)
	namedSecret = regexp.MustCompile(
		`(?i)\b((?:[a-z0-9]+[_-])*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)["']?\s*[=:]\s*["']?)([^\s"',;]{6,})`)
	authHeader = regexp.MustCompile(`(?i)\b(bearer\s+|basic\s+)[A-Za-z0-9._~+/=-]{8,}`)
	userInfo   = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`)
)

// redact replaces secrets in a program's output.
func redact(o sandbox.Output) sandbox.Output {
	return sandbox.Output{Tail: []byte(Redact(string(o.Tail))), Discarded: o.Discarded}
}

// Redact replaces secrets in a text.
func Redact(text string) string {
	text = knownKey.ReplaceAllString(text, "[secret]")
	text = authHeader.ReplaceAllString(text, "${1}[secret]")
	text = namedSecret.ReplaceAllString(text, "${1}[secret]")
	return userInfo.ReplaceAllString(text, "${1}[secret]@")
}
