package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Ref names content by what it is.
type Ref struct {
	Key    string
	SHA256 string // lower-case hex
	Size   int64
}

// ContentKey returns the key of the content with that SHA-256 in lower-case
// hex, which must be a whole one.
func ContentKey(sum string) string {
	return path.Join("sha256", sum[:2], sum)
}

// contentSum returns the SHA-256 in a key that ContentKey made.
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
		temp, err := spool(r)
		if err != nil {
			return Ref{}, err
		}
		defer func() { _ = temp.Close() }()
		body = section(temp)
	}

	hash := sha256.New()
	if _, err := io.Copy(hash, body); err != nil {
		return Ref{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return Ref{}, err
	}
	return PutHashed(ctx, b, hex.EncodeToString(hash.Sum(nil)), body)
}

// PutHashed is PutContent for content whose SHA-256 the caller has worked out.
func PutHashed(ctx context.Context, b Bucket, sum string, body *io.SectionReader) (_ Ref, err error) {
	defer fault.Wrap(&err, "put content %s", sum)
	ref := Ref{Key: ContentKey(sum), SHA256: sum, Size: body.Size()}
	info, err := b.Stat(ctx, ref.Key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Ref{}, err
	}
	if err == nil && info.Size == ref.Size && time.Since(info.Modified) < OrphanAge/2 {
		return ref, nil
	}
	if err := b.Put(ctx, ref.Key, body, ref.Size); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// spool copies r into a file without a name, which is gone once closed or
// after a crash.
func spool(r io.Reader) (_ *os.File, err error) {
	temp, err := os.CreateTemp("", "whetstone-blob-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(temp.Name())
	if err == nil {
		_, err = io.Copy(temp, r)
	}
	if err == nil {
		_, err = temp.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, temp.Close())
	}
	return temp, nil
}
