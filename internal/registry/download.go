package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
)

// Download sends the archive of a version that the organisation may see.
func (s *Service) Download(ctx context.Context, orgID string, at VersionPath) (httpapi.Stream, error) {
	d, err := s.visibleDownload(ctx, orgID, at)
	if err != nil {
		return nil, err
	}
	body, info, err := s.Blobs.Get(ctx, d.version.archiveKey)
	if fault.Is(err, fault.NotFound) {
		// The cache may be stale: another replica may have deleted the entry.
		if _, _, gone := s.Version(ctx, orgID, at.ID, at.Version); gone != nil {
			return nil, gone
		}
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "The archive cannot be read now").Because(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		blob.ServeBody(w, r, body, info, ArchiveOptions(d.entryName, at.Version))
	}, nil
}

// visibleDownload is findDownload with an error that says whether the entry or
// the version is missing.
func (s *Service) visibleDownload(ctx context.Context, orgID string, at VersionPath) (download, error) {
	d, err := s.findDownload(ctx, downloadKey{orgID, at.ID, at.Version})
	if fault.Is(err, fault.NotFound) {
		_, _, err = s.Version(ctx, orgID, at.ID, at.Version)
	}
	return d, err
}

// ArchiveOptions are those of the answer with an archive: its file name, e.g.
// "pdf-1.0.0.tar.gz", and media type.
func ArchiveOptions(name, version string) blob.SignOptions {
	return blob.SignOptions{Filename: name + "-" + version + ".tar.gz", ContentType: "application/gzip"}
}

// ServeCanonical sends the canonical archive with that hash of any published version
// of an entry. A missing one is a fault.NotFound.
func (s *Service) ServeCanonical(w http.ResponseWriter, r *http.Request, e Entry, hash string) error {
	version, key, err := canonicalByHash(r.Context(), s.DB, e, hash)
	if err != nil {
		return err
	}
	return blob.Serve(w, r, s.Blobs, key, ArchiveOptions(e.Name, version))
}

// StreamFile sends one file of a version that the organisation may see, unless
// the client's If-None-Match names its ETag.
func (s *Service) StreamFile(
	ctx context.Context, orgID string, at VersionPath, path, ifNoneMatch string,
) (httpapi.Stream, error) {
	d, err := s.visibleDownload(ctx, orgID, at)
	if err != nil {
		return nil, err
	}
	f, err := s.FindFile(ctx, d.version, path)
	if err != nil {
		return nil, err
	}
	if stored.MatchesETag(ifNoneMatch, f.Hash) {
		return inert("", f.Hash, nil), nil
	}
	content, err := s.ReadFile(ctx, d.version, f)
	return inert(MediaType(content), f.Hash, content), err
}

// StreamDiff sends what changed in a version that the organisation may see.
func (s *Service) StreamDiff(ctx context.Context, orgID string, at VersionPath, from string) (httpapi.Stream, error) {
	_, v, err := s.Version(ctx, orgID, at.ID, at.Version)
	if err != nil {
		return nil, err
	}
	content, err := s.Diff(ctx, v, from)
	sum := sha256.Sum256(content)
	return inert("text/x-diff; charset=utf-8", hex.EncodeToString(sum[:]), content), err
}

// inert sends content that a user pushed, with a Content-Security-Policy under
// which a browser runs none of it.
func inert(mediaType, etag string, content []byte) httpapi.Stream {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		stored.Serve(w, r, etag, content)
	}
}
