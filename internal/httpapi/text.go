package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/whetstone-dev/whetstone/internal/fastjson"
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
	data = replaceNUL(data)
	err := fastjson.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		wrong.Field = strings.Join(pathAt(data, wrong.Offset), ".")
	}
	return err
}

// pathAt is the path of the value at an offset of a JSON text. The decoder
// knows its names only, and not which element of an array it is in.
func pathAt(data []byte, offset int64) []string {
	var path []string // of the value that comes next; a place for the name or index at each level
	var counts []int  // of the values so far at each level, or -1 in an object
	var named bool    // the name of the next value was read
	tokens := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := tokens.Token()
		if err != nil {
			return path
		}
		level := len(counts) - 1
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			path, counts, named = path[:level], counts[:level], false
			continue
		}
		if level >= 0 && counts[level] < 0 && !named {
			path[level], named = token.(string), true
			continue
		}
		if level >= 0 && counts[level] >= 0 {
			path[level] = strconv.Itoa(counts[level])
			counts[level]++
		}
		if tokens.InputOffset() >= offset {
			return path
		}
		named = false
		if isDelim {
			path, counts = append(path, ""), append(counts, map[json.Delim]int{'[': 0, '{': -1}[delim])
		}
	}
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
