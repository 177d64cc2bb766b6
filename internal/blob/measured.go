package blob

import (
	"context"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/measure"
)

// Measured returns the bucket with its operations counted.
func Measured(b Bucket, m *measure.Blobs) Bucket { return &measured{b, m} }

type measured struct {
	Bucket
	metrics *measure.Blobs
}

func (b *measured) ended(operation string, started time.Time, err error) {
	outcome := "ok"
	switch {
	case fault.Is(err, fault.NotFound):
		outcome = "missing"
	case err != nil:
		outcome = "failed"
	}
	b.metrics.Ended(operation, outcome, time.Since(started))
}

// Put implements Bucket.
func (b *measured) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	started := time.Now()
	err := b.Bucket.Put(ctx, key, r, size)
	b.ended("put", started, err)
	return err
}

// Get implements Bucket.
func (b *measured) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	started := time.Now()
	r, info, err := b.Bucket.Get(ctx, key)
	b.ended("get", started, err)
	return r, info, err
}

// Stat implements Bucket.
func (b *measured) Stat(ctx context.Context, key string) (Info, error) {
	started := time.Now()
	info, err := b.Bucket.Stat(ctx, key)
	b.ended("stat", started, err)
	return info, err
}

// Delete implements Bucket.
func (b *measured) Delete(ctx context.Context, key string) error {
	started := time.Now()
	err := b.Bucket.Delete(ctx, key)
	b.ended("delete", started, err)
	return err
}
