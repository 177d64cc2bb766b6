package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// A download is what it takes to serve an archive or one of its files.
type download struct {
	entryName string
	own       bool    // the caller's organisation owns the entry
	version   Version // only ID, Version, ContentHash, State, WithdrawnReason and archiveKey are set
}

// Download streams the archive of a version that the organisation may see. A withdrawn
// version is fault.Gone, unless the organisation owns it and asks for withdrawn content.
func (s *Service) Download(ctx context.Context, orgID string, at VersionPath, withdrawn bool) (httpapi.Stream, error) {
	d, err := s.findDownload(ctx, orgID, at, withdrawn)
	if err != nil {
		return nil, err
	}
	body, info, err := s.Blobs.Get(ctx, d.version.archiveKey)
	if fault.Is(err, fault.NotFound) {
		// The row was there but the object isn't: if the entry was deleted in between,
		// report that instead of a broken store.
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

// findDownload finds a version whose content the organisation may read. If there is none,
// the slower query of Version tells whether entry or version is missing.
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

// Readable returns fault.Gone with the reason for a withdrawn version. withdrawn allows
// it all the same; only the entry's own organisation may pass true.
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

// CheckLink checks an object that is requested by a signed URL. URLs live longer than
// permissions: it refuses versions that were withdrawn or deleted, or hidden from the
// organisation that the URL was signed for. orgID is "" in URLs of servers that didn't
// put it in yet.
func (s *Service) CheckLink(ctx context.Context, key, orgID string) error {
	if !strings.HasPrefix(key, objectPrefix) && !strings.HasPrefix(key, sharedPrefix) {
		return nil // not the registry's
	}
	versions, err := versionsOfKey(ctx, s.DB, key, orgID)
	if err != nil {
		return err
	}
	gone := error(fault.New(fault.NotFound, "Version not found"))
	for _, d := range versions { // a version that was rolled forward shares the object of the original
		if gone = d.version.Readable(d.entryName, false); gone == nil {
			return nil
		}
	}
	return gone
}

// ArchiveOptions sets the file name, e.g. "pdf-1.0.0.tar.gz", and media type of a served
// archive.
func ArchiveOptions(name, version string) blob.SignOptions {
	return blob.SignOptions{Filename: name + "-" + version + ".tar.gz", ContentType: "application/gzip"}
}

// ServeCanonical serves the canonical archive with a hash, of any published version of an
// entry that allowed accepts: an index that a client fetched earlier may list an older version. A
// missing one is fault.NotFound.
func (s *Service) ServeCanonical(
	w http.ResponseWriter, r *http.Request, e Entry, hash string, allowed func(version string) bool,
) error {
	found, err := canonicalsByHash(r.Context(), s.DB, e, hash)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(found, func(c canonical) bool { return allowed(c.version) })
	if at < 0 {
		return fault.New(fault.NotFound, "No such file")
	}
	version, key := found[at].version, found[at].key
	return blob.Serve(w, r, s.Blobs, key, ArchiveOptions(e.Name, version))
}

// StreamFile serves one file of a version that the organisation may see, or 304 if the
// client's If-None-Match has its ETag. Withdrawn versions are treated as in Download.
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

// StreamDiff serves the diff between two versions that the organisation may see; from is
// as in Diff. Withdrawn versions, on either side, are treated as in Download.
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
	// The ETag is a hash of the diff: with an empty from, what it compares with can
	// change.
	content, err := s.Diff(ctx, v, from)
	sum := sha256.Sum256(content)
	return inert("text/x-diff; charset=utf-8", hex.EncodeToString(sum[:]), content), err
}

// inert serves content that a user pushed, with a Content-Security-Policy that stops
// browsers from running any of it in our origin.
func inert(mediaType, etag string, content []byte) httpapi.Stream {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		stored.Serve(w, r, etag, content)
	}
}
