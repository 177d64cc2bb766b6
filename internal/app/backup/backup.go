// Package backup saves a whole installation into one file while it runs, and
// restores it into an empty one, on either database, with blobs in files or S3. It
// owns no tables.
//
// The file is a zstd-compressed tar of these members, in this order:
//
//	whetstone.json               format, schema, when and where it was made
//	database/TABLE/000001 ...    rows, parents before children (rows.go)
//	jobs/000001 ...              jobs, a JSON object a line
//	blobs/KEY ...                all blobs
//	repositories/OWNER/...       files of the embedded code host
//	manifest.json                counts, and the hash of all sums
//	manifest.json.hmac           signature of the manifest, if there is a key
//
// Among them are members SHA256SUMS/000001 ..., each with the checksums of the
// members since the one before. That bounds the memory of both sides, whatever the
// size.
package backup

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// format is the version of the file format that this package writes and reads.
const format = 1

// Place is an installation to save, or to restore into.
type Place struct {
	DB    *store.DB
	Blobs blob.Bucket
	Jobs  *jobs.Queue
	// Repositories is the folder of the embedded code host; "" with another host.
	Repositories string
	// Referrers list the blobs that rows refer to.
	Referrers []Referrer
	// Version is that of this program.
	Version string
	// Signer signs and verifies with the installation's secret key; nil if there is
	// none.
	Signer Signer
	// Unverified lets Restore accept a backup without a valid signature.
	Unverified bool
	// Progress, if not nil, is called often.
	Progress func(Progress)
}

// A Signer authenticates backups. Without a signature, an attacker who can change
// a backup could plant API keys, rows and skills.
type Signer interface {
	// KeyIDs returns the ids of the keys; the first signs, and all verify.
	KeyIDs() []string
	Sign(message []byte) string
	Verify(message []byte, signature string) error
}

// A Referrer calls fn with the blobs that its rows refer to, in any order, some
// perhaps twice. SHA256 and Size may be missing.
type Referrer interface {
	References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error
}

// Progress is the state of a running backup or restore.
type Progress struct {
	Stage string // "database", "blobs" or "repositories"
	Rows  int64
	Blobs int64
	Bytes int64 // of blobs and repositories
}

// Header is the file's first member.
type Header struct {
	Format    int       `json:"format"`
	Schema    int64     `json:"schema"`
	Engine    string    `json:"engine"`
	Version   string    `json:"version"`
	CreatedAt time.Time `json:"created_at"` // of the snapshot
	// SignedWith is the id of the key that signed the manifest; "" if none did.
	SignedWith string `json:"signed_with,omitempty"`
}

// Manifest is the file's last member before the signature: its table of contents.
type Manifest struct {
	Header
	Tables       map[string]int64 `json:"tables"` // rows of each
	Jobs         int64            `json:"jobs"`
	Blobs        Amount           `json:"blobs"`
	Repositories Amount           `json:"repositories"`
	// Deleted blobs were referred to in the snapshot, and were deleted together
	// with their rows before they could be saved.
	Deleted []string `json:"deleted"`
	// Lost blobs are referred to by rows and were missing before the backup.
	Lost []string `json:"lost"`
	// Damaged blobs do not have the SHA-256 that is in their key.
	Damaged []string `json:"damaged"`
	// Sums is the SHA-256 of the concatenated lists of checksums.
	Sums string `json:"sums"`
}

// Amount counts files.
type Amount struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Rows counts the rows of all tables.
func (m Manifest) Rows() (n int64) {
	for _, rows := range m.Tables {
		n += rows
	}
	return n
}

// The names of the members.
const (
	headerName    = "whetstone.json"
	manifestName  = "manifest.json"
	signatureName = "manifest.json.hmac"
	databaseDir   = "database/"
	jobsDir       = "jobs/"
	blobsDir      = "blobs/"
	reposDir      = "repositories/"
	sumsDir       = "SHA256SUMS/"
)

// marker is the key of a blob that exists while a restore runs.
const marker = "restore/unfinished"

// CheckFinished fails if a restore into the bucket was started and not finished.
func CheckFinished(ctx context.Context, b blob.Bucket) error {
	_, err := b.Stat(ctx, marker)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.Conflict, "a restore into this place runs or was cut off; "+
		"if none runs, empty the database and the blobs and restore again")
}

func marshal(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}
