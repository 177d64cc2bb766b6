// Package blob stores bytes for the other packages: skill archives, snapshots
// and raw telemetry bodies. They are in a directory or in an S3 bucket, and a
// caller cannot tell which. What a blob means is in the tables of its owner;
// this package owns no tables.
//
// The lifecycle of a blob: its owner puts it, then commits the row that refers
// to it, so that a row that exists has its bytes. The owner deletes the blob
// after the row. A crash in between leaves an orphan, which a Sweep deletes.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// OrphanAge is the age from which a blob that no row refers to may be deleted.
// The row of a younger one may not be committed yet.
const OrphanAge = 24 * time.Hour

// A Bucket keeps blobs under keys. A key looks like a path: elements separated
// by slashes, none of them empty, "." or ".." or ending in ".part", no control
// characters and no backslash; anything else is a Malformed fault. All methods
// may be called from many goroutines at once.
type Bucket interface {
	// Put stores what r returns under key, in place of what was there. It must be
	// size bytes exactly. It is atomic, also in a crash: other goroutines see all
	// of the blob or nothing of it. It is durable once Put has returned nil. If r
	// can seek, it is left where it was or at its end.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Get opens a blob. The caller closes it. A missing one is a NotFound fault.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)

	// Stat describes a blob. A missing one is a NotFound fault.
	Stat(ctx context.Context, key string) (Info, error)

	// Delete removes a blob. A missing one is not an error.
	Delete(ctx context.Context, key string) error

	// List yields the blobs whose keys begin with prefix, in the order of their
	// keys' bytes. It ends after the first error. To delete orphans, use Sweep.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// SignedURL returns an absolute URL with which the blob can be read without
	// a key until it expires. It does not check that there is such a blob.
	SignedURL(ctx context.Context, key string, o SignOptions) (string, error)

	// Check reports whether the bucket can be used now.
	Check(ctx context.Context) error

	// RemoveParts removes the partial files that interrupted puts left behind
	// more than minAge ago, and returns how many there were. Puts of this Bucket
	// that are under way are not interrupted ones, whatever their age.
	RemoveParts(ctx context.Context, minAge time.Duration) (int, error)
}

// Info describes a blob.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Options say where the blobs are.
type Options struct {
	// URL names a bucket: s3://bucket?region=..&endpoint=.. and, where needed,
	// prefix=.., path_style=true and insecure=true. Without an endpoint it is
	// at AWS. The keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	// An empty URL means files in Dir.
	URL string

	// Dir is the directory of the files, made if it is missing.
	Dir string

	// PublicURL returns the base of the URLs that are signed for files. It is
	// called when one is signed: the server may not know its address before.
	PublicURL func() string

	// Secret signs the URLs of files: at least 32 bytes, the same after a
	// restart.
	Secret []byte

	// Log gets the errors of serving files; nil discards them.
	Log *slog.Logger
}

// Open returns the bucket that o names, after a Check of it. A bucket of files
// is a *Files, which is also the http.Handler of the URLs it signs.
func Open(ctx context.Context, o Options) (_ Bucket, err error) {
	defer fault.Wrap(&err, "open blobs")
	open := openFiles
	if o.URL != "" {
		open = openS3
	}
	bucket, err := open(o)
	if err != nil {
		return nil, err
	}
	if err := bucket.Check(ctx); err != nil {
		return nil, err
	}
	return bucket, nil
}

// A Ref is a reference to a blob: a row needs it.
type Ref struct {
	Key    string
	SHA256 string // lower-case hex; empty where the owner does not know it
	Size   int64  // 0 where the owner does not know it
}

// ContentSum returns the SHA-256 that a key names, in lower-case hex: the last
// element up to its first dot, e.g. of "evals/o1/<sha256>.tar.gz". A blob under
// such a key never changes, and can be checked against it.
func ContentSum(key string) (sum string, ok bool) {
	name, _, _ := strings.Cut(path.Base(key), ".")
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != sha256.Size || name != strings.ToLower(name) {
		return "", false
	}
	return name, true
}
