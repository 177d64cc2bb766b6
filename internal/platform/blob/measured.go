package blob

import (
	"context"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Measured returns the bucket with its operations counted and traced.
func Measured(b Bucket, m *metrics.Blobs) Bucket { return &measured{b, m} }

type measured struct {
	Bucket
	metrics *metrics.Blobs
}

// begin starts an operation. The function that it returns ends it.
func (b *measured) begin(ctx context.Context, operation string) (ended func(error)) {
	started, span := time.Now(), trace.Start(ctx, "blob "+operation, trace.Client)
	return func(err error) {
		outcome := "ok"
		switch {
		case fault.Is(err, fault.NotFound):
			outcome = "missing"
		case err != nil:
			outcome = "failed"
			span.Fail()
		}
		span.End()
		b.metrics.Ended(ctx, operation, outcome, time.Since(started))
	}
}

// Put implements Bucket.
func (b *measured) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	ended := b.begin(ctx, "put")
	err := b.Bucket.Put(ctx, key, r, size)
	ended(err)
	return err
}

// Get implements Bucket.
func (b *measured) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	ended := b.begin(ctx, "get")
	r, info, err := b.Bucket.Get(ctx, key)
	ended(err)
	return r, info, err
}

// Stat implements Bucket.
func (b *measured) Stat(ctx context.Context, key string) (Info, error) {
	ended := b.begin(ctx, "stat")
	info, err := b.Bucket.Stat(ctx, key)
	ended(err)
	return info, err
}

// Delete implements Bucket.
func (b *measured) Delete(ctx context.Context, key string) error {
	ended := b.begin(ctx, "delete")
	err := b.Bucket.Delete(ctx, key)
	ended(err)
	return err
}
