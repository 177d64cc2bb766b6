package registry

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// Open reads a version's archive; the caller closes the package. If v has its manifest,
// AppleDouble files that the manifest doesn't list are left out, as they were at the
// push.
func (s *Service) Open(ctx context.Context, v Version) (_ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "archive of version %s", v.ID)
	body, _, err := s.Blobs.Get(ctx, v.archiveKey)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	pkg, err := skillpkg.Read(ctx, body, skillpkg.StoredLimits())
	if err == nil && v.Manifest != nil {
		pkg.OmitAppleDouble(v.Manifest)
	}
	return pkg, err
}

// File returns the content of one file. The memory of a large file is reserved until ctx
// is done.
func (s *Service) File(ctx context.Context, v Version, path string) ([]byte, error) {
	f, err := s.FindFile(ctx, v, path)
	if err != nil {
		return nil, err
	}
	return s.ReadFile(ctx, v, f)
}

// FindFile looks up a file in a version's manifest, without reading the archive. A
// missing file is fault.NotFound.
func (s *Service) FindFile(ctx context.Context, v Version, path string) (skillpkg.ManifestEntry, error) {
	files, err := s.manifest(ctx, v.ID)
	if err != nil {
		return skillpkg.ManifestEntry{}, err
	}
	f, ok := files[path]
	if !ok {
		return f, fault.New(fault.NotFound, "Version %s has no file %s", v.Version, path)
	}
	return f, nil
}

// ReadFile returns the content of a file found by FindFile, from the cheapest place that
// has it: the cache, the database for a small SKILL.md, or the archive.
func (s *Service) ReadFile(ctx context.Context, v Version, f skillpkg.ManifestEntry) ([]byte, error) {
	if content, ok := s.Files.Cached(ctx, f.Hash); ok {
		return content, nil
	}
	if f.Path == skillFile && f.Size <= maxSkillText {
		content, err := skillTextOf(ctx, s.DB, v.ID)
		if err != nil {
			return nil, err
		}
		if content != nil {
			s.Files.Keep(f.Hash, content)
			return content, nil
		}
	}
	return s.Files.File(ctx, s.archive(v), stored.File{SHA256: f.Hash, Size: f.Size})
}

// archive describes a version's archive to the cache of files, which opens it only on a
// miss.
func (s *Service) archive(v Version) stored.Archive {
	open := func(ctx context.Context) (io.ReadCloser, error) {
		body, _, err := s.Blobs.Get(ctx, v.archiveKey)
		return body, err
	}
	return stored.Archive{Hash: v.ContentHash, Limits: skillpkg.StoredLimits(), Open: open}
}

// Diff returns the unified diff between two versions of an entry. With an empty from it
// compares with the version published before; the first version is compared with an empty
// tree.
func (s *Service) Diff(ctx context.Context, to Version, from string) (_ []byte, err error) {
	defer fault.Wrap(&err, "diff of version %s", to.ID)
	tree := func(v Version) stored.Tree { return stored.Tree{Archive: s.archive(v), Manifest: v.Manifest} }
	var old Version
	if from == "" {
		old, err = versionBefore(ctx, s.DB, to)
	} else {
		old, err = versionByName(ctx, s.DB, Entry{OrgID: to.OrgID, ID: to.EntryID}, from)
	}
	if from == "" && fault.Is(err, fault.NotFound) {
		return s.Files.Diff(ctx, stored.Tree{}, tree(to))
	}
	if err != nil {
		return nil, err
	}
	return s.Files.Diff(ctx, tree(old), tree(to))
}

// MediaType is the Content-Type under which a user's file is served. It's never HTML, so
// that a pushed file can't run scripts in our origin.
func MediaType(content []byte) string {
	if content != nil && text.ValidBytes(content) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
