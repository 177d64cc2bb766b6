package blob

import (
	"context"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/measure"
	"github.com/whetstone-dev/whetstone/internal/trace"
)

// Measured returns the bucket with its operations counted and traced.
func Measured(b Bucket, m *measure.Blobs) Bucket { return &measured{b, m} }

type measured struct {
	Bucket
	metrics *measure.Blobs
}

func (b *measured) ended(ctx context.Context, operation string, started time.Time, err error) {
	outcome := "ok"
	switch {
	case fault.Is(err, fault.NotFound):
		outcome = "missing"
	case err != nil:
		outcome = "failed"
	}
	b.metrics.Ended(ctx, operation, outcome, time.Since(started))
}

// Put implements Bucket.
func (b *measured) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	started, span := time.Now(), trace.Start(ctx, "blob put", trace.Client)
	err := b.Bucket.Put(ctx, key, r, size)
	span.End()
	b.ended(ctx, "put", started, err)
	return err
}

// Get implements Bucket.
func (b *measured) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	started, span := time.Now(), trace.Start(ctx, "blob get", trace.Client)
	r, info, err := b.Bucket.Get(ctx, key)
	span.End()
	b.ended(ctx, "get", started, err)
	return r, info, err
}

// Stat implements Bucket.
func (b *measured) Stat(ctx context.Context, key string) (Info, error) {
	started, span := time.Now(), trace.Start(ctx, "blob stat", trace.Client)
	info, err := b.Bucket.Stat(ctx, key)
	span.End()
	b.ended(ctx, "stat", started, err)
	return info, err
}

// Delete implements Bucket.
func (b *measured) Delete(ctx context.Context, key string) error {
	started, span := time.Now(), trace.Start(ctx, "blob delete", trace.Client)
	err := b.Bucket.Delete(ctx, key)
	span.End()
	b.ended(ctx, "delete", started, err)
	return err
}
