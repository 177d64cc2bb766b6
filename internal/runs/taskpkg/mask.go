package taskpkg

import (
	"bytes"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/sandbox"
)

const masked = "[secret]"

// Keys by which well-known services can be told, and values that are named as
// secrets. What a program prints is stored and shown to a whole organisation.
var (
	secretShape = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})`)
	secretValue = regexp.MustCompile(`(?i)\b((?:[a-z0-9]+[_-])*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)["']?\s*[=:]\s*["']?)([^\s"',;]{6,})`)
	bearer      = regexp.MustCompile(`(?i)\b(bearer\s+|basic\s+)[A-Za-z0-9._~+/=-]{8,}`)
	userInfo    = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`)
)

// mask hides secrets in a program's output.
func (r *Runner) mask(o sandbox.Output) sandbox.Output {
	text := o.Tail
	for _, secret := range r.Secrets {
		if len(secret) >= 6 { // a shorter one would hide half of the words
			text = bytes.ReplaceAll(text, []byte(secret), []byte(masked))
		}
	}
	text = secretShape.ReplaceAll(text, []byte(masked))
	text = bearer.ReplaceAll(text, []byte("${1}"+masked))
	text = secretValue.ReplaceAll(text, []byte("${1}"+masked))
	text = userInfo.ReplaceAll(text, []byte("${1}"+masked+"@"))
	return sandbox.Output{Tail: text, Discarded: o.Discarded}
}
