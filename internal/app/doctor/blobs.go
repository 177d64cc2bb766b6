package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkBlobs compares the bucket with what rows refer to. It may run beside the service: blobs
// that come and go meanwhile are no findings.
func (d *Doctor) checkBlobs(ctx context.Context, db *store.DB) []invariants.Finding {
	bucket, err := d.OpenBlobs(ctx)
	if err != nil {
		return []invariants.Finding{invariants.Fail("blobs", "cannot be opened: %s; check --blob-url and its credentials", err)}
	}
	if err := backup.CheckFinished(ctx, bucket); err != nil {
		return []invariants.Finding{invariants.Fail("restore", "%s", err)}
	}
	findings, err := probe(ctx, bucket)
	if err != nil {
		return []invariants.Finding{invariants.Fail("blobs", "cannot be written, read and deleted: %s", err)}
	}
	scan := &blobScan{Doctor: d, bucket: bucket}
	found, err := scan.run(ctx, db)
	if err != nil {
		return append(findings, invariants.Fail("blobs", "cannot be checked: %s", err))
	}
	return append(findings, found...)
}

// probe writes a blob and deletes it. The blob's modification time, which has
// whole seconds, shows the clock of the machine that keeps the blobs. The key is random, so
// doctors of several machines don't meet.
func probe(ctx context.Context, b blob.Bucket) ([]invariants.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	key, content := "doctor/"+uuid.NewString(), []byte("probe")
	if err := b.Put(ctx, key, bytes.NewReader(content), int64(len(content))); err != nil {
		return nil, err
	}
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := b.Delete(ctx, key); err != nil {
		return nil, err
	}
	clock := clockFinding("that of the blobs", time.Until(info.Modified))
	return []invariants.Finding{clock, invariants.Fine("blobs", "can be written and deleted")}, nil
}

// A blobScan lists and reads all blobs. blob.Keys is compact: millions of keys fit into memory.
type blobScan struct {
	*Doctor
	bucket blob.Bucket

	referenced blob.Keys // by rows, when the scan began
	listed     blob.Keys // in the bucket
	orphans    sample    // no row refers to them
	lost       sample    // rows refer to them, and they are missing

	mu      sync.Mutex // guards what the readers write
	damaged sample
	blobs   int64
	bytes   int64
}

// A sample counts keys and keeps the first as an example.
type sample struct {
	n       int64
	example string
}

func (s *sample) add(key string) {
	if s.n++; s.n == 1 {
		s.example = key
	}
}

func (s *blobScan) run(ctx context.Context, db *store.DB) ([]invariants.Finding, error) {
	err := s.eachReference(ctx, db, func(r blob.Ref) error { s.referenced.Add(r.Key); return nil })
	if err != nil {
		return nil, err
	}
	if err := s.readAll(ctx); err != nil {
		return nil, err
	}
	// The references are read again: a blob that was deleted with its row
	// during the scan is not lost. Lost blobs are those that a row still refers to after the
	// scan.
	err = s.eachReference(ctx, db, func(r blob.Ref) error {
		if s.listed.Has(r.Key) {
			return nil
		}
		_, err := s.bucket.Stat(ctx, r.Key) // it may have been written since
		if fault.Is(err, fault.NotFound) {
			s.lost.add(r.Key)
			return nil
		}
		return err
	})
	return s.findings(), err
}

func (s *blobScan) eachReference(ctx context.Context, db *store.DB, fn func(blob.Ref) error) error {
	for _, r := range s.Referrers {
		if err := r.References(ctx, db, fn); err != nil {
			return err
		}
	}
	return nil
}

// readers is how many blobs are read at once. It is enough for an S3 bucket; a disk isn't
// faster with more.
const readers = 8

func (s *blobScan) readAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for info, err := range s.bucket.List(ctx, "") {
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		s.listed.Add(info.Key)
		if !s.referenced.Has(info.Key) && time.Since(info.Modified) > s.maxOrphanAge(info.Key) {
			s.orphans.add(info.Key)
		}
		if s.Quick {
			continue
		}
		g.Go(func() error { return s.readOne(ctx, info.Key) })
	}
	return g.Wait()
}

// maxOrphanAge is the age at which an unreferenced blob should have been swept:
// each owner sweeps once a day. Environments are uploaded by the operator and
// never swept.
func (s *blobScan) maxOrphanAge(key string) time.Duration {
	const sweeps = 3 * 24 * time.Hour
	switch {
	case strings.HasPrefix(key, "environments/"):
		return math.MaxInt64
	case strings.HasPrefix(key, "telemetry/"):
		return max(time.Duration(s.Config.RetentionPrompts), blob.OrphanAge) + sweeps
	}
	return blob.OrphanAge + sweeps
}

func (s *blobScan) readOne(ctx context.Context, key string) error {
	body, info, err := s.bucket.Get(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return err
	}
	defer body.Close()
	intact := isIntact(key, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !intact {
		s.damaged.add(key)
	}
	s.blobs++
	s.bytes += info.Size
	if s.Progress != nil {
		s.Progress(s.blobs, s.bytes)
	}
	return nil
}

// isIntact verifies a blob's checksum: the SHA-256 that its name is or begins
// with, else the CRC of a gzip file. A blob without a checksum is intact if it
// can be read to its end.
func isIntact(key string, body io.Reader) bool {
	name, kind, _ := strings.Cut(path.Base(key), ".")
	if sum, err := hex.DecodeString(name); err == nil && len(sum) == sha256.Size {
		hash := sha256.New()
		_, err := io.Copy(hash, body)
		return err == nil && bytes.Equal(sum, hash.Sum(nil))
	}
	if kind == "gz" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return false
		}
		body = z
	}
	_, err := io.Copy(io.Discard, body)
	return err == nil
}

// findings makes one finding for each kind, with one example: a lost disk has millions.
func (s *blobScan) findings() (all []invariants.Finding) {
	add := func(s sample, find func(check, format string, args ...any) invariants.Finding, wrong, do string) {
		if s.n > 0 {
			all = append(all, find("blobs", "%s: %d, such as %s; %s", wrong, s.n, s.example, do))
		}
	}
	add(s.lost, invariants.Fail, "blobs that rows refer to and that are missing", "restore them from a backup")
	add(s.damaged, invariants.Fail, "blobs with the wrong checksum", "restore them from a backup, and check the disk")
	add(s.orphans, invariants.Warn, "blobs that no row refers to and that were not swept for days",
		"is there a process with --roles worker?")
	if len(all) > 0 {
		return all
	}
	read := fmt.Sprintf("%d read, all intact (%.1f MiB)", s.blobs, float64(s.bytes)/(1<<20))
	if s.Quick {
		read = "their content was not read"
	}
	return []invariants.Finding{invariants.Fine("blobs", "all that rows refer to are there, and no others; %s", read)}
}
