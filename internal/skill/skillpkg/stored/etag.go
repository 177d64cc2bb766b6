package stored

import (
	"net/http"
	"strconv"
	"strings"
)

// Serve answers a conditional request: a GET or HEAD with content under an ETag, or with 304 if the
// client's If-None-Match names it.
func Serve(w http.ResponseWriter, r *http.Request, etag string, content []byte) {
	w.Header().Set("ETag", `"`+etag+`"`)
	if MatchesETag(r.Header.Get("If-None-Match"), etag) {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		Send(w, content)
	}
}

// MatchesETag reports whether an If-None-Match header names an ETag, e.g.
// `W/"abc", "def"` names def.
func MatchesETag(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == `"`+etag+`"` {
			return true
		}
	}
	return false
}
