package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// An archive writes the file. It streams: nothing is held but the current list of checksums.
type archive struct {
	zst  *zstd.Encoder
	tar  *tar.Writer
	at   time.Time
	sums bytes.Buffer // checksums of the members since the last list
	list int
	all  hash.Hash // of all lists of checksums
}

// sumsSize is the size at which a list of checksums is written. It takes about 10,000 members.
const sumsSize = 1 << 20

// newArchive begins an archive. The small window of the compression keeps the
// memory of both sides small, however large the backup is. Two threads leave the others to the
// service, beside which a backup runs.
func newArchive(w io.Writer, at time.Time) (*archive, error) {
	zst, err := zstd.NewWriter(w, zstd.WithWindowSize(1<<20), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return nil, err
	}
	return &archive{zst: zst, tar: tar.NewWriter(zst), at: at, all: sha256.New()}, nil
}

// add writes a member of exactly that size and returns its SHA-256. r must have that many bytes
// at least: more are ignored, fewer are an error.
func (a *archive) add(name string, mode, size int64, r io.Reader) (sum string, err error) {
	// A newline would end the line of the member in the list of checksums, and
	// let a name forge the line of another.
	if strings.ContainsAny(name, "\n\x00") {
		return "", fmt.Errorf("a name cannot be saved: %q", name)
	}
	if err := a.header(name, mode, size); err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.tar, hash), r, size); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	fmt.Fprintf(&a.sums, "%s  %s\n", sum, name)
	if a.sums.Len() >= sumsSize {
		return sum, a.writeSums()
	}
	return sum, nil
}

// addBytes is add of what is in memory, with the mode 0600.
func (a *archive) addBytes(name string, content []byte) error {
	_, err := a.add(name, 0o600, int64(len(content)), bytes.NewReader(content))
	return err
}

// header begins a member. All have the time of the snapshot. PAX allows long names and sizes
// over 8 GiB.
func (a *archive) header(name string, mode, size int64) error {
	return a.tar.WriteHeader(&tar.Header{
		Name: name, Mode: mode, Size: size, ModTime: a.at.Truncate(time.Second), Format: tar.FormatPAX,
	})
}

// writeSums writes the checksums of the members since the last list. There are
// many lists, so that neither side has the checksums of millions of blobs in
// memory.
func (a *archive) writeSums() error {
	if a.sums.Len() == 0 {
		return nil
	}
	a.list++
	if err := a.header(numbered(sumsDir, a.list), 0o600, int64(a.sums.Len())); err != nil {
		return err
	}
	a.all.Write(a.sums.Bytes())
	_, err := a.sums.WriteTo(a.tar)
	return err
}

// finish writes the manifest and its signature, if there is a signer. The manifest
// has the hash of all lists of checksums, so that its signature covers the whole
// file. Nothing can be added afterwards. The caller closes and syncs what is below.
func (a *archive) finish(m *Manifest, signer Signer) error {
	if err := a.writeSums(); err != nil {
		return err
	}
	m.Sums = hex.EncodeToString(a.all.Sum(nil))
	content, err := marshal(m)
	if err != nil {
		return err
	}
	if err := a.addUnlisted(manifestName, content); err != nil {
		return err
	}
	if signer != nil {
		if err := a.addUnlisted(signatureName, []byte(signer.Sign(content))); err != nil {
			return err
		}
	}
	return errors.Join(a.tar.Close(), a.zst.Close())
}

// addUnlisted writes a member that is in no list of checksums.
func (a *archive) addUnlisted(name string, content []byte) error {
	if err := a.header(name, 0o600, int64(len(content))); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

// numbered is the name of a chunk, e.g. "jobs/000001": sorted by name, they are in order.
func numbered(dir string, n int) string { return fmt.Sprintf("%s%06d", dir, n) }

// SaveFile is Save into a file. The write is atomic and durable: the file gets its
// name after it was written completely and synced (fsync). The temporary file is in the same
// folder, since a rename works within a file system only.
func SaveFile(ctx context.Context, p Place, name string) (_ Manifest, size int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".unfinished-*")
	if err != nil {
		return Manifest{}, 0, err
	}
	defer func() {
		_ = file.Close() // again if all went well
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	m, size, err := Save(ctx, p, file)
	if err != nil {
		return Manifest{}, 0, err
	}
	if err := file.Sync(); err != nil {
		return Manifest{}, 0, err
	}
	if err := file.Close(); err != nil {
		return Manifest{}, 0, err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return Manifest{}, 0, err
	}
	// The new name must survive a crash as well.
	return m, size, fsync.Dir(filepath.Dir(name))
}
