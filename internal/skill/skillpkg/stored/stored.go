// Package stored serves single files of archives in a bucket, and diffs between
// two archives, with bounded memory and CPU however many requests there are:
// files are cached by their digest, few archives are read at once, and none is
// unpacked to disk. It owns no tables.
package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	// maxReads limits concurrent reads of archives. One takes up to 100 ms of a
	// core.
	maxReads = 2
	// waitTimeout is how long a request waits for a read, or for memory.
	waitTimeout = 5 * time.Second
	// readAhead is how many bytes of small files are cached in addition to the
	// requested one, and how far beyond it the archive is read for them: an
	// installer requests all of them, one by one.
	readAhead = 4 << 20
	maxFiles  = 32 << 20 // bytes of cached files
	maxDiffs  = 16 << 20 // bytes of cached diffs
)

// Files reads files of stored archives. It is safe for concurrent use.
type Files struct {
	reads  *semaphore.Weighted
	memory *httpapi.Budget
	cache  *cache
	diffs  *lru.Cache[diffKey, []byte]
}

// New returns Files that reserve the memory of diffs from a budget.
func New(memory *httpapi.Budget) *Files {
	return &Files{
		reads: semaphore.NewWeighted(maxReads), memory: memory,
		cache: &cache{limit: maxFiles, files: map[string]*file{}, freed: make(chan struct{})},
		diffs: lru.New[diffKey, []byte](maxDiffs),
	}
}

// An Archive is an archive that was validated before it was stored.
type Archive struct {
	// Hash is the digest of the archive.
	Hash   string
	Open   func(context.Context) (io.ReadCloser, error)
	Limits skillpkg.Limits
}

// A File identifies a file of an archive.
type File struct {
	SHA256 string
	Size   int64
}

// Cached returns the content of a file if it is cached. The memory of a large
// one counts as used until ctx is done.
func (f *Files) Cached(ctx context.Context, sum string) ([]byte, bool) { return f.cache.get(ctx, sum) }

// Keep caches a file that was read elsewhere.
func (f *Files) Keep(sum string, content []byte) { f.cache.put(sum, content) }

// File returns the content of a file. The memory of a large one counts as used
// until ctx is done. If too many archives or large files are being read, it
// waits, and fails with fault.Unavailable after a timeout.
func (f *Files) File(ctx context.Context, a Archive, want File) (_ []byte, err error) {
	// An empty file needs no read, and could not be told from a missing one in read.
	if want.Size == 0 {
		return []byte{}, nil
	}
	if content, ok := f.cache.get(ctx, want.SHA256); ok {
		return content, nil
	}
	if want.Size > smallFile {
		if err := f.cache.reserve(ctx, want.Size); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				f.cache.release(want.Size)
			}
		}()
	}
	release, err := f.acquireRead(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if content, ok := f.cache.get(ctx, want.SHA256); ok { // read meanwhile by another request
		if want.Size > smallFile {
			f.cache.release(want.Size)
		}
		return content, nil
	}
	content, err := f.read(ctx, a, want)
	if err != nil {
		return nil, err
	}
	if want.Size > smallFile {
		content = f.cache.putReserved(ctx, want.SHA256, content)
	}
	return content, nil
}

// acquireRead waits until an archive may be read.
func (f *Files) acquireRead(ctx context.Context) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := f.reads.Acquire(wait, 1); err != nil {
		return nil, busyError(ctx, err)
	}
	return func() { f.reads.Release(1) }, nil
}

// busyError is the error of a wait: the context's, or that of a timeout.
func busyError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "The server is busy; try again").After(waitTimeout).Because(err)
}

// read reads one file of an archive, and caches the small ones before and a few
// after it.
func (f *Files) read(ctx context.Context, a Archive, want File) (content []byte, err error) {
	cached, beyond := int64(0), int64(0)
	choose := func(size int64) skillpkg.Choice {
		if content != nil {
			beyond += size
		}
		switch {
		case beyond > readAhead:
			return skillpkg.Stop
		// Another file of the same size may be taken first: the digest decides, in
		// got.
		case content == nil && size == want.Size, size <= smallFile && cached+size <= readAhead:
			return skillpkg.Take
		}
		return skillpkg.Skip
	}
	err = a.pick(ctx, choose, func(sum string, found []byte) {
		if sum == want.SHA256 {
			content = found
		}
		if len(found) <= smallFile {
			cached += int64(len(found))
			f.cache.put(sum, found)
		}
	})
	if err == nil && content == nil {
		err = errors.New("the archive does not hold it")
	}
	if err != nil {
		return nil, unreadable(ctx, fmt.Errorf("file %s of archive %s: %w", want.SHA256, a.Hash, err))
	}
	return content, nil
}

func (a Archive) pick(ctx context.Context, choose func(int64) skillpkg.Choice, got func(string, []byte)) error {
	body, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	return skillpkg.Pick(ctx, body, a.Limits, choose, got)
}

// unreadable is the error for an archive that was valid when it was stored.
func unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "The archive cannot be read now").Because(err)
}
