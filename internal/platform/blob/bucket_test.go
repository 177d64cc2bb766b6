package blob_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
)

func openS3(t testing.TB) blob.Bucket {
	t.Helper()
	return open(t, blobtest.S3(t))
}

func open(t testing.TB, o blob.Options) blob.Bucket {
	t.Helper()
	bucket, err := blob.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

func TestFiles(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Bucket { return blobtest.Files(t) })
}

func TestS3(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Bucket { return openS3(t) })
}

const benchmarkSize = 100_000

func BenchmarkPut(b *testing.B) {
	eachBucket(b, func(b *testing.B, bucket blob.Bucket) {
		body := make([]byte, benchmarkSize)
		for i := 0; b.Loop(); i++ {
			if err := bucket.Put(b.Context(), fmt.Sprint("key/", i), bytes.NewReader(body), benchmarkSize); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	eachBucket(b, func(b *testing.B, bucket blob.Bucket) {
		if err := bucket.Put(b.Context(), "key", bytes.NewReader(make([]byte, benchmarkSize)), benchmarkSize); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			r, _, err := bucket.Get(b.Context(), "key")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				b.Fatal(err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func eachBucket(b *testing.B, run func(*testing.B, blob.Bucket)) {
	b.Run("files", func(b *testing.B) { b.SetBytes(benchmarkSize); run(b, blobtest.Files(b)) })
	b.Run("s3", func(b *testing.B) { b.SetBytes(benchmarkSize); run(b, openS3(b)) })
}
