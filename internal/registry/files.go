package registry

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/compare"
)

// Open reads a version's archive. The caller closes it.
func (s *Service) Open(ctx context.Context, v Version) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "archive of version %s", v.ID)
	body, _, err := s.Blobs.Get(ctx, blob.ContentKey(v.ContentHash))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return skillpkg.Read(ctx, body, skillpkg.DefaultLimits())
}

// File returns the content of one file of a version.
func (s *Service) File(ctx context.Context, v Version, path string) ([]byte, error) {
	if !hasFile(v, path) {
		return nil, fault.New(fault.NotFound, "Version %s has no file %s", v.Version, path)
	}
	pkg, err := s.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	defer pkg.Close()
	return pkg.ReadFile(path)
}

func hasFile(v Version, path string) bool {
	for _, f := range v.Manifest {
		if f.Path == path {
			return true
		}
	}
	return false
}

// Diff returns the unified diff between two versions of an entry. An empty
// from means the version pushed before; before the first there was nothing.
func (s *Service) Diff(ctx context.Context, to Version, from string) (_ []byte, err error) {
	defer fault.Wrap(&err, "diff of version %s", to.ID)
	var old Version
	if from == "" {
		old, err = versionBefore(ctx, s.DB, to)
		if fault.Is(err, fault.NotFound) {
			old, err = Version{}, nil
		}
	} else {
		old, err = versionByName(ctx, s.DB, to.EntryID, from)
	}
	if err != nil {
		return nil, err
	}
	after, err := s.Open(ctx, to)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	if old.ID == "" {
		return compare.Packages(ctx, nil, after)
	}
	before, err := s.Open(ctx, old)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	return compare.Packages(ctx, before, after)
}

// text reports whether a diff or a browser can show the content.
func text(content []byte) bool {
	return content != nil && utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}

// mediaType is the type under which a file is shown. It is never HTML: a file
// that somebody pushed must not run in our origin.
func mediaType(content []byte) string {
	if text(content) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
