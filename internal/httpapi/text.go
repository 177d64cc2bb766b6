package httpapi

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// text refuses paths and queries that are no text: PostgreSQL keeps neither
// NUL nor broken UTF-8, and would fail where the client did.
func text(ctx huma.Context, next func(huma.Context)) {
	req, w := humago.Unwrap(ctx)
	if issues := textIssues(req.URL); len(issues) > 0 {
		validation(issues).write(w)
		return
	}
	next(ctx)
}

func textIssues(u *url.URL) []fault.Issue {
	var issues []fault.Issue
	if !isText(u.Path) {
		issues = append(issues, fault.At("", "the path is not valid text"))
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value, err := url.QueryUnescape(value); err != nil || !isText(value) {
			issues = append(issues, fault.Issue{Path: []string{name}, Message: name + ": not valid text"})
		}
	}
	return issues
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// unmarshalJSON decodes as encoding/json does, which puts U+FFFD in the place
// of broken UTF-8, and does the same with an escaped NUL.
func unmarshalJSON(data []byte, v any) error {
	return json.Unmarshal(replaceNUL(data), v)
}

func replaceNUL(data []byte) []byte {
	const escaped, replacement = `\u0000`, `\ufffd`
	if !bytes.Contains(data, []byte(escaped)) {
		return data
	}
	data = bytes.Clone(data) // the caller may have asked for the raw body too
	for i := 0; i+len(escaped) <= len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if string(data[i:i+len(escaped)]) == escaped {
			copy(data[i:], replacement)
		}
		i++ // the character after a backslash begins no escape
	}
	return data
}
