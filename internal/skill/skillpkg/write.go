package skillpkg

import (
	"archive/tar"
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// packTime is the time of every packed file, so that archives are reproducible:
// the first that a zip can represent.
func packTime() time.Time { return time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Repack returns a canonical archive of the Installed files: the skill at its root,
// sorted names, no links, folders, owners or times. The same files give the same
// bytes as long as the compression library stays the same. The tar has plain ustar
// headers, since not every installer reads others: a name that does not fit is an
// *Error, and the caller can use a zip. The caller closes the archive. The digest of
// a version is that of these bytes, so that publishing the same files again is
// recognised.
func (p *Package) Repack(ctx context.Context, format Format) (_ *spool.Spool, err error) {
	defer fault.Wrap(&err, "repack")
	if format == TarGz {
		if err := checkPlainNames(p.installed); err != nil {
			return nil, err
		}
	}
	return spool.Fill(p.PackedSize, func(w io.Writer) error {
		out, err := newWriter(w, format, tar.FormatUSTAR)
		if err != nil {
			return err
		}
		return p.writeTo(ctx, out)
	})
}

// WithSkill returns the package with another SKILL.md. The caller closes both.
func (p *Package) WithSkill(ctx context.Context, text string) (_ *Package, err error) {
	defer fault.Wrap(&err, "change SKILL.md")
	if err := p.RequireSkill(); err != nil {
		return nil, err
	}
	changed, err := spool.Fill(p.PackedSize, func(w io.Writer) error {
		out, err := newWriter(w, Zip, tar.FormatUSTAR) // which takes every name
		if err != nil {
			return err
		}
		for _, f := range p.installed {
			var content io.Reader = p.content(f)
			if f.Path == p.SkillPath {
				f.Size, content = int64(len(text)), strings.NewReader(text)
			}
			if _, err := addContent(out, f, content); err != nil {
				return err
			}
		}
		return out.Close()
	})
	if err != nil {
		return nil, err
	}
	defer changed.Close()
	limits := StoredLimits()
	// The package was accepted, so only the new text could exceed a limit: the
	// archive in between must not fail for how well or badly it compresses.
	limits.Packed, limits.Ratio = 2*limits.Unpacked, limits.Unpacked
	return Open(ctx, changed, changed.Size(), limits)
}

// writeTo writes the installed files in their order, which is sorted by path.
func (p *Package) writeTo(ctx context.Context, out writer) error {
	for _, f := range p.installed {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, err := out.add(f)
		if err != nil {
			return err
		}
		if _, err := spool.Copy(w, p.content(f)); err != nil {
			return err
		}
	}
	return out.Close()
}

// Canonical reports whether the archive contains the same tar that Repack would
// write, whatever its compression, as archives of our own client do.
func (p *Package) Canonical(ctx context.Context) (_ bool, err error) {
	defer fault.Wrap(&err, "compare with the canonical archive")
	// Only a tar.gz with a plain header is compared.
	if p.tar == nil || checkPlainNames(p.installed) != nil {
		return false, nil
	}
	var wanted maphash.Hash
	// Hashes of maphash are comparable only with the same seed. It need not be
	// cryptographic: a collision would need the seed, which is random and never
	// leaves the process.
	wanted.SetSeed(p.tar.Seed())
	if err := p.writeTo(ctx, &tarWriter{members: tar.NewWriter(&wanted), headers: tar.FormatUSTAR}); err != nil {
		return false, err
	}
	return wanted.Sum64() == p.tar.Sum64(), nil
}

// checkPlainNames refuses names that do not fit into a ustar header, before
// anything is written.
func checkPlainNames(files []File) error {
	headers := tar.NewWriter(io.Discard)
	for _, f := range files {
		err := headers.WriteHeader(&tar.Header{Name: f.Path, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR})
		if err != nil {
			return refuse(CodeNotPortable, f.Path,
				"the name does not fit into a plain tar header; use the zip, or a shorter name in ASCII").because(err)
		}
	}
	return nil
}

// A writer writes an archive.
type writer interface {
	// add begins a file. Content of exactly its size must follow.
	add(File) (io.Writer, error)
	io.Closer
}

// gzipWriters saves the allocation of large tables for every new writer.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// newWriter returns a writer whose tar headers are of the format given.
func newWriter(w io.Writer, format Format, headers tar.Format) (writer, error) {
	switch format {
	case TarGz:
		packed := gzipWriters.Get().(*gzip.Writer)
		packed.Reset(w)
		packed.ModTime = time.Unix(0, 0) // "no time stamp" in gzip
		return &tarWriter{packed: packed, members: tar.NewWriter(packed), headers: headers}, nil
	case Zip:
		members := zip.NewWriter(w)
		// The same library as for gzip, pinned in go.mod: the bytes must not depend
		// on the version of Go.
		members.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		})
		return &zipWriter{members: members}, nil
	}
	return nil, fault.New(fault.Internal, "no archive format %q", format)
}

// addContent writes a file and returns the digest of what was written. A file
// that is being written to is refused: its header already has another size.
func addContent(out writer, f File, content io.Reader) (string, error) {
	w, err := out.add(f)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	n, err := spool.Copy(io.MultiWriter(w, digest), io.LimitReader(content, f.Size))
	if err != nil {
		return "", err
	}
	if n == f.Size {
		// One more byte means that the file has grown.
		extra, err := io.CopyN(io.Discard, content, 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		n += extra
	}
	if n != f.Size {
		return "", refuse(CodeChanged, f.Path, "the file changed while it was packed; try again")
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

type tarWriter struct {
	packed  *gzip.Writer // nil when the tar is not compressed
	members *tar.Writer
	headers tar.Format
}

func (t *tarWriter) add(f File) (io.Writer, error) {
	return t.members, t.members.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     f.Path,
		Size:     f.Size,
		Mode:     int64(f.Mode),
		ModTime:  packTime(),
		Format:   t.headers,
	})
}

func (t *tarWriter) Close() error {
	if err := t.members.Close(); err != nil || t.packed == nil {
		return err
	}
	if err := t.packed.Close(); err != nil {
		return err
	}
	// Not after an error: the state of the writer is unknown then.
	gzipWriters.Put(t.packed)
	return nil
}

type zipWriter struct{ members *zip.Writer }

func (z *zipWriter) add(f File) (io.Writer, error) {
	h := &zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: packTime()}
	h.SetMode(f.Mode)
	return z.members.CreateHeader(h)
}

func (z *zipWriter) Close() error { return z.members.Close() }
