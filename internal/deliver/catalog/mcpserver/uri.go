package mcpserver

import (
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

const (
	scheme    = "skill://"
	skillFile = "SKILL.md"
	// versionMark is before a version. A skill of that name cannot be addressed.
	versionMark = "v"
	// maxURI is longer than any address that we give out: a path has 512 bytes, which
	// escapes triple.
	maxURI = 4_000
)

// An address names a file or a folder of a skill: skill://ORG/NAME/PATH of the
// current version, or skill://ORG/v/VERSION/NAME/PATH.
type address struct {
	org, name string
	version   string // "" for the current one
	path      string // "" for the skill's folder
}

func (a address) String() string {
	var b strings.Builder
	b.WriteString(scheme + url.PathEscape(a.org))
	if a.version != "" {
		b.WriteString("/v/" + url.PathEscape(a.version))
	}
	b.WriteString("/" + url.PathEscape(a.name))
	if a.path != "" {
		for segment := range strings.SplitSeq(a.path, "/") {
			b.WriteString("/" + url.PathEscape(segment))
		}
	}
	return b.String()
}

// at is the address of a file or a folder of the same skill.
func (a address) at(path string) address {
	a.path = path
	return a
}

// parseURI reads an address as String writes it. Other ways to write it (escapes
// that are not needed, empty segments, "..") are refused: one file has one address.
func parseURI(uri string) (address, error) {
	unknown := fault.New(fault.NotFound, "Resource not found")
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok || len(uri) > maxURI {
		return address{}, unknown
	}
	segments := strings.Split(rest, "/")
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "" || plain == "." || plain == ".." || strings.Contains(plain, "/") || !text.Valid(plain) {
			return address{}, unknown
		}
		segments[i] = plain
	}
	a := address{org: segments[0]}
	segments = segments[1:]
	if len(segments) >= 3 && segments[0] == versionMark {
		a.version, segments = segments[1], segments[2:]
	}
	if len(segments) == 0 || segments[0] == versionMark {
		return address{}, unknown
	}
	a.name, a.path = segments[0], strings.Join(segments[1:], "/")
	if a.String() != uri {
		return address{}, unknown
	}
	return a, nil
}
