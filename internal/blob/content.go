package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"time"

	"github.com/whetstone-dev/whetstone/internal/chunk"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/spool"
)

// A Ref names content by what it is.
type Ref struct {
	Key    string
	SHA256 string // lower-case hex
	Size   int64
}

// ContentPrefix is what the keys of all contents begin with.
const ContentPrefix = "sha256/"

// ContentKey returns the key of the content with that SHA-256 in lower-case
// hex, which must be a whole one.
func ContentKey(sum string) string { return ContentPrefix + sum[:2] + "/" + sum }

// ContentSum returns the SHA-256 in a key that ContentKey made, in lower-case
// hex.
func ContentSum(key string) (sum string, ok bool) {
	raw, ok := contentSum(key)
	return hex.EncodeToString(raw), ok
}

func contentSum(key string) (sum []byte, ok bool) {
	name := path.Base(key)
	sum, err := hex.DecodeString(name)
	if err != nil || len(sum) != sha256.Size || key != ContentKey(hex.EncodeToString(sum)) {
		return nil, false
	}
	return sum, true
}

// PutContent stores what r gives under the key that its SHA-256 makes. What is
// there already is not written again, unless it has stood there for so long
// that it may be taken for an orphan: the caller has OrphanAge/2 at least to
// commit its reference.
func PutContent(ctx context.Context, b Bucket, r io.Reader) (_ Ref, err error) {
	defer fault.Wrap(&err, "put content")
	body := section(r)
	if body == nil {
		kept := spool.New(-1)
		defer func() { _ = kept.Close() }() // it was written whole
		if _, err := chunk.Copy(kept, r); err != nil {
			return Ref{}, err
		}
		body = io.NewSectionReader(kept, 0, kept.Size())
	}

	hash := sha256.New()
	if _, err := chunk.Copy(hash, body); err != nil {
		return Ref{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return Ref{}, err
	}
	ref := Ref{SHA256: hex.EncodeToString(hash.Sum(nil)), Size: body.Size()}
	ref.Key = ContentKey(ref.SHA256)
	return ref, putOnce(ctx, b, ref, body)
}

// PutHashed is PutContent for content whose SHA-256 the caller has worked out.
func PutHashed(ctx context.Context, b Bucket, sum string, body *io.SectionReader) (err error) {
	defer fault.Wrap(&err, "put content %s", sum)
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return putOnce(ctx, b, Ref{Key: ContentKey(sum), SHA256: sum, Size: body.Size()}, body)
}

func putOnce(ctx context.Context, b Bucket, ref Ref, body io.Reader) error {
	if files, ok := b.(*Files); ok {
		return files.putOnce(ctx, ref, body)
	}
	info, err := b.Stat(ctx, ref.Key)
	if fault.Is(err, fault.NotFound) || err == nil && !ref.standsFirmly(info) {
		return b.Put(ctx, ref.Key, body, ref.Size)
	}
	return err
}

// standsFirmly reports whether a blob is the content, and will not be taken for
// an orphan soon.
func (r Ref) standsFirmly(b Info) bool {
	return b.Size == r.Size && time.Since(b.Modified) < OrphanAge/2
}
