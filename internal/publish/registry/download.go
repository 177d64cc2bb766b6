package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// A download is what is needed to send an archive or a file of it.
type download struct {
	entryName string
	own       bool    // of the organisation that asks
	version   Version // ID, Version, ContentHash, State, WithdrawnReason and archiveKey only
}

// Download sends the archive of a version that the organisation may see. A withdrawn one is
// fault.Gone; its own organisation gets it if it asks for what is withdrawn.
func (s *Service) Download(ctx context.Context, orgID string, at VersionPath, withdrawn bool) (httpapi.Stream, error) {
	d, err := s.findDownload(ctx, orgID, at, withdrawn)
	if err != nil {
		return nil, err
	}
	body, info, err := s.Blobs.Get(ctx, d.version.archiveKey)
	if fault.Is(err, fault.NotFound) {
		// The entry may have been deleted meanwhile.
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

// findDownload looks up a version whose content the organisation may read. An error says
// whether the entry or the version is missing.
func (s *Service) findDownload(ctx context.Context, orgID string, at VersionPath, withdrawn bool) (download, error) {
	d, err := downloadOf(ctx, s.DB, orgID, at)
	if fault.Is(err, fault.NotFound) {
		_, _, err = s.Version(ctx, orgID, at.ID, at.Version)
		return d, err
	}
	if err != nil {
		return d, err
	}
	return d, d.version.Readable(d.entryName, d.own && withdrawn)
}

// Readable refuses the content of a withdrawn version, with the reason, unless it is asked
// for all the same, which only its own organisation may.
func (v Version) Readable(entry string, withdrawn bool) error {
	if v.State != Withdrawn || withdrawn {
		return nil
	}
	reason := "."
	if v.WithdrawnReason != nil {
		reason = ": " + *v.WithdrawnReason
	}
	return fault.New(fault.Gone, "Version %s of %s was withdrawn%s", v.Version, entry, reason).WithCode("withdrawn")
}

// CheckLink refuses an object by a signed URL: that of a version that was withdrawn, was
// deleted, or may not be seen any more by the organisation that it was signed for ("": by a
// server that did not say).
func (s *Service) CheckLink(ctx context.Context, key, orgID string) error {
	if !strings.HasPrefix(key, objectPrefix) && !strings.HasPrefix(key, sharedPrefix) {
		return nil // of another capability
	}
	versions, err := versionsOfKey(ctx, s.DB, key, orgID)
	if err != nil {
		return err
	}
	gone := error(fault.New(fault.NotFound, "Version not found"))
	for _, d := range versions { // a version that was rolled forward has the object of another one
		if gone = d.version.Readable(d.entryName, false); gone == nil {
			return nil
		}
	}
	return gone
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
// the client's If-None-Match names its ETag. A withdrawn version is as for Download.
func (s *Service) StreamFile(
	ctx context.Context, orgID string, at VersionPath, path, ifNoneMatch string, withdrawn bool,
) (httpapi.Stream, error) {
	d, err := s.findDownload(ctx, orgID, at, withdrawn)
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

// StreamDiff sends what changed in a version that the organisation may see. Withdrawn
// versions, on either side, are as for Download.
func (s *Service) StreamDiff(
	ctx context.Context, orgID string, at VersionPath, from string, withdrawn bool,
) (httpapi.Stream, error) {
	for _, version := range []string{at.Version, from} {
		if version == "" {
			continue
		}
		if _, err := s.findDownload(ctx, orgID, VersionPath{at.EntryPath, version}, withdrawn); err != nil {
			return nil, err
		}
	}
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
