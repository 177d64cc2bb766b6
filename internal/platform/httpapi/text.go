package httpapi

import (
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// validateText is the middleware that refuses NUL and invalid UTF-8 in paths and
// queries. PostgreSQL does not store them, so that they would become a 500 for
// a client's mistake.
func validateText(ctx huma.Context, next func(huma.Context)) {
	req, w := humago.Unwrap(ctx)
	if issues := textIssues(req.URL); len(issues) > 0 {
		validation(issues).write(w)
		return
	}
	next(ctx)
}

func textIssues(u *url.URL) []fault.Issue {
	var issues []fault.Issue
	if !text.Valid(u.Path) {
		issues = append(issues, fault.At("", "the path is not valid text"))
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value, err := url.QueryUnescape(value); err != nil || !text.Valid(value) {
			issues = append(issues, fault.Issue{Path: []string{name}, Message: name + ": not valid text"})
		}
	}
	return issues
}
