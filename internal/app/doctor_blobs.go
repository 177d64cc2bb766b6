package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/backup"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// examineBlobs compares what stands in the bucket with what rows need.
func (d *Doctor) examineBlobs(ctx context.Context, db *store.DB) []exam.Finding {
	bucket, err := openBucket(ctx, d.Config)
	if err != nil {
		return []exam.Finding{exam.Fail("blobs", "cannot be opened: %s; check --blob-url and its credentials", err)}
	}
	if err := backup.CheckFinished(ctx, bucket); err != nil {
		return []exam.Finding{exam.Fail("restore", "%s", err)}
	}
	findings, err := probe(ctx, bucket)
	if err != nil {
		return []exam.Finding{exam.Fail("blobs", "cannot be written, read and deleted: %s", err)}
	}
	e := &blobExam{Doctor: d, bucket: bucket}
	found, err := e.run(ctx, db)
	if err != nil {
		return append(findings, exam.Fail("blobs", "cannot be checked: %s", err))
	}
	return append(findings, found...)
}

// probe writes a blob and removes it. Its time is the clock of whoever keeps
// the blobs, in whole seconds.
func probe(ctx context.Context, b blob.Bucket) ([]exam.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
	clock := judgeClock("that of the blobs", time.Until(info.Modified))
	return []exam.Finding{clock, exam.Fine("blobs", "can be written and deleted")}, nil
}

// A blobExam is a look at all blobs.
type blobExam struct {
	*Doctor
	bucket blob.Bucket

	needed  blob.Keys
	there   blob.Keys
	orphans sample
	lost    sample

	mu      sync.Mutex
	damaged sample
	blobs   int64
	bytes   int64
}

// A sample counts and remembers one.
type sample struct {
	n       int64
	example string
}

func (s *sample) add(key string) {
	if s.n++; s.n == 1 {
		s.example = key
	}
}

func (e *blobExam) run(ctx context.Context, db *store.DB) ([]exam.Finding, error) {
	if err := eachReference(ctx, db, func(r blob.Ref) error { e.needed.Add(r.Key); return nil }); err != nil {
		return nil, err
	}
	if err := e.readAll(ctx); err != nil {
		return nil, err
	}
	// The rows of now: what was deleted since the first look is not lost.
	err := eachReference(ctx, db, func(r blob.Ref) error {
		if e.there.Has(r.Key) {
			return nil
		}
		_, err := e.bucket.Stat(ctx, r.Key) // it may be new
		if fault.Is(err, fault.NotFound) {
			e.lost.add(r.Key)
			return nil
		}
		return err
	})
	return e.findings(), err
}

func eachReference(ctx context.Context, db *store.DB, fn func(blob.Ref) error) error {
	for _, r := range referrers(db) {
		if err := r.References(ctx, db, fn); err != nil {
			return err
		}
	}
	return nil
}

// readers is how many blobs are read at once.
const readers = 8

func (e *blobExam) readAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for info, err := range e.bucket.List(ctx, "") {
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		e.there.Add(info.Key)
		if !e.needed.Has(info.Key) && time.Since(info.Modified) > e.grace(info.Key) {
			e.orphans.add(info.Key)
		}
		if e.Quick {
			continue
		}
		g.Go(func() error { return e.readOne(ctx, info.Key) })
	}
	return g.Wait()
}

// grace is the age from which a blob that no row needs should be gone: each
// owner sweeps once a day. Environments are the operator's own.
func (e *blobExam) grace(key string) time.Duration {
	const sweeps = 3 * 24 * time.Hour
	switch {
	case strings.HasPrefix(key, "environments/"):
		return 1<<63 - 1
	case strings.HasPrefix(key, "telemetry/"):
		return max(time.Duration(e.Config.RetentionPrompts), blob.OrphanAge) + sweeps
	}
	return blob.OrphanAge + sweeps
}

func (e *blobExam) readOne(ctx context.Context, key string) error {
	body, info, err := e.bucket.Get(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return err
	}
	defer body.Close()
	whole := isWhole(key, body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !whole {
		e.damaged.add(key)
	}
	e.blobs++
	e.bytes += info.Size
	if e.Progress != nil {
		e.Progress(e.blobs, e.bytes)
	}
	return nil
}

// isWhole compares a blob with the SHA-256 that its name is or begins with; of
// others, a gzip file has a sum of its own. A blob that cannot be read to its
// end is not whole.
func isWhole(key string, body io.Reader) bool {
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

func (e *blobExam) findings() (all []exam.Finding) {
	add := func(s sample, find func(check, format string, args ...any) exam.Finding, wrong, do string) {
		if s.n > 0 {
			all = append(all, find("blobs", "%s: %d, such as %s; %s", wrong, s.n, s.example, do))
		}
	}
	add(e.lost, exam.Fail, "blobs that rows need and that are not there", "restore them from a backup")
	add(e.damaged, exam.Fail, "blobs whose content is not what it was", "restore them from a backup, and look at the disk")
	add(e.orphans, exam.Warn, "blobs that no row needs and that nobody has removed for days", "is there a process with --roles worker?")
	if len(all) > 0 {
		return all
	}
	said := fmt.Sprintf("%d read, all whole (%.1f MiB)", e.blobs, float64(e.bytes)/(1<<20))
	if e.Quick {
		said = "their content was not read"
	}
	return []exam.Finding{exam.Fine("blobs", "all that rows need are there, and no others; %s", said)}
}
