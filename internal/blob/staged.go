package blob

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// Staged is content on its way into a bucket that nobody can see yet. Its
// owner may write down meanwhile that it will be wanted: on a disk, both wait
// for the same thing.
type Staged struct {
	bucket Bucket
	ref    Ref
	body   *io.SectionReader
	files  *Files // where it is written already, or nil
	temp   string
}

// Stage begins what PutContent does, for content whose SHA-256 the caller has
// worked out. A bucket of files writes it now, one at S3 when it is kept.
func Stage(ctx context.Context, b Bucket, sum string, body *io.SectionReader) (_ *Staged, err error) {
	defer fault.Wrap(&err, "stage content %s", sum)
	s := &Staged{bucket: b, ref: Ref{Key: ContentKey(sum), SHA256: sum, Size: body.Size()}, body: body}
	files, ok := b.(*Files)
	if !ok {
		return s, nil
	}
	s.files = files
	s.temp, err = files.stage(ctx, body, s.ref.Size)
	return s, err
}

// Keep ends what Stage began: the content stands in the bucket.
func (s *Staged) Keep(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "keep content %s", s.ref.SHA256)
	if there, err := standsFirmly(ctx, s.bucket, s.ref); err != nil || there {
		s.Drop()
		return err
	}
	if s.files == nil {
		return s.bucket.Put(ctx, s.ref.Key, s.body, s.ref.Size)
	}
	return s.files.show(s.temp, s.ref.Key)
}

// Drop forgets content that is not wanted after all.
func (s *Staged) Drop() {
	if s.files != nil {
		s.files.drop(s.temp)
	}
}
