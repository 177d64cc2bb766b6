package backup

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

const (
	// smallBlob is the size up to which a blob is prefetched into memory.
	smallBlob = 1 << 20
	// prefetch is how many blobs are read or written at once. About prefetch * smallBlob bytes
	// are in memory.
	prefetch = 8
)

// fetched is the result of reading a blob.
type fetched struct {
	info blob.Info
	body io.ReadCloser
	err  error
}

// saveBlobs saves all blobs of the bucket, and then checks that those are all that
// the snapshot refers to. Blobs are content that never changes under its key, so reading them
// after the snapshot is safe.
func (s *saver) saveBlobs(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	// A channel of channels keeps the order of the keys while reads overlap.
	coming := make(chan chan fetched, prefetch)
	// Deferred in this order: first the context is cancelled, then the readers are waited for.
	defer drain(coming)
	defer stop()
	go s.prefetchAll(ctx, coming)
	for next := range coming {
		f := <-next
		if fault.Is(f.err, fault.NotFound) {
			continue // deleted since it was listed
		}
		if f.err != nil {
			return f.err
		}
		if err := s.saveBlob(f); err != nil {
			return err
		}
	}
	return s.checkReferenced(ctx)
}

// prefetchAll reads blobs concurrently, and sends for each a channel with the
// result, in the order of their keys.
func (s *saver) prefetchAll(ctx context.Context, coming chan<- chan fetched) {
	defer close(coming)
	for info, err := range s.Blobs.List(ctx, "") {
		// With room for one, so that the reader ends even if nobody takes the result.
		next := make(chan fetched, 1)
		select {
		case coming <- next:
		case <-ctx.Done():
			return
		}
		if err != nil {
			next <- fetched{err: err}
			return
		}
		go func() { next <- fetch(ctx, s.Blobs, info.Key) }()
	}
}

// drain waits for the reads that still run after the context was cancelled.
func drain(coming <-chan chan fetched) {
	for next := range coming {
		if f := <-next; f.err == nil {
			_ = f.body.Close()
		}
	}
}

// fetch reads a small blob into memory, and only opens a large one: prefetch of
// those would take gigabytes.
func fetch(ctx context.Context, b blob.Bucket, key string) fetched {
	body, info, err := b.Get(ctx, key)
	if err != nil || info.Size > smallBlob {
		return fetched{info, body, err}
	}
	content, err := io.ReadAll(body)
	_ = body.Close()
	return fetched{info, io.NopCloser(bytes.NewReader(content)), err}
}

// saveBlob writes a blob. One that is damaged is saved as it is, and listed: a backup isn't
// refused because of it.
func (s *saver) saveBlob(f fetched) error {
	defer f.body.Close()
	sum, err := s.archive.add(blobsDir+f.info.Key, 0o600, f.info.Size, f.body)
	if err != nil {
		return err
	}
	if want, ok := blob.ContentSum(f.info.Key); ok && want != sum {
		s.manifest.Damaged = append(s.manifest.Damaged, f.info.Key)
	}
	s.saved.Add(f.info.Key)
	s.manifest.Blobs.Files++
	s.manifest.Blobs.Bytes += f.info.Size
	s.progress.Blobs++
	s.progress.Bytes += f.info.Size
	s.report("blobs")
	return nil
}

// checkReferenced handles the blobs that the snapshot refers to and that were not
// listed: it saves those that were stored since, and sorts the others into Deleted
// and Lost.
func (s *saver) checkReferenced(ctx context.Context) error {
	gone := map[string]bool{}
	err := s.referenced.each(func(key string) error {
		if s.saved.Has(key) || gone[key] {
			return nil
		}
		f := fetch(ctx, s.Blobs, key)
		if fault.Is(f.err, fault.NotFound) {
			gone[key] = true
			return nil
		}
		if f.err != nil {
			return f.err
		}
		return s.saveBlob(f)
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	// Blobs that current rows still refer to were lost. The others were deleted
	// with their rows.
	for _, r := range s.Referrers {
		err := r.References(ctx, s.DB, func(ref blob.Ref) error {
			if gone[ref.Key] {
				s.manifest.Lost = append(s.manifest.Lost, ref.Key)
				delete(gone, ref.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.manifest.Deleted = slices.Sorted(maps.Keys(gone))
	return nil
}
