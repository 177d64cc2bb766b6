package blob

import (
	"mime"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// maxExpires is the limit of S3.
const maxExpires = 7 * 24 * time.Hour

// SignOptions say how long a signed URL is valid, and choose headers of its
// answer.
type SignOptions struct {
	// Expires is how long the URL is valid: a second to seven days.
	Expires time.Duration
	// Filename is the name under which a browser saves the blob. Only its last
	// element is used; if it is empty, the browser chooses.
	Filename string
	// ContentType is the media type of the answer; empty means
	// application/octet-stream.
	ContentType string
	// For is who may read the blob with the URL, for Links.Allow; S3 ignores it.
	For string
}

func (o SignOptions) check() error {
	if o.Expires < time.Second || o.Expires > maxExpires {
		return fault.Invalid("expires", "expires must be between %s and %s", time.Second, maxExpires)
	}
	if o.ContentType == "" {
		return nil
	}
	if _, _, err := mime.ParseMediaType(o.ContentType); err != nil {
		return fault.Invalid("content_type", "content_type must be a media type").Because(err)
	}
	return nil
}

// disposition returns a Content-Disposition header. It is always an
// attachment: a blob that a user uploaded must not run scripts in our origin.
func disposition(filename string) string {
	if isPlain(filename) {
		return "attachment; filename=" + filename
	}
	name := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, path.Base(strings.ReplaceAll(filename, `\`, "/")))
	if strings.Trim(name, "./") == "" {
		return "attachment"
	}
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}

// isPlain reports whether a file name needs no quoting, like most.
func isPlain(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return strings.Trim(name, ".") != ""
}
