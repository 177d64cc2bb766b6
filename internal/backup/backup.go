// Package backup saves everything that an installation holds into one file
// while it runs, and fills an empty place from such a file, on either
// database, in files or S3. It owns no tables.
//
// The file is a zstd-compressed tar of these members, in this order:
//
//	whetstone.json               format, schema, when and where it was made
//	database/TABLE/000001 ...    rows, parents before children (rows.go)
//	jobs/000001 ...              jobs, a JSON object a line
//	blobs/KEY ...                what stands in the bucket
//	repositories/OWNER/...       files of the embedded code host
//	manifest.json                counts, and the hash of all sums
//	manifest.json.hmac           signature of the manifest, if there is a key
//
// Between them stand SHA256SUMS/000001 ..., each the sums of the members since
// the one before. So memory is bounded on both sides, whatever the size.
package backup

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// format is the version of the file's form that this package writes and reads.
const format = 1

// Place is an installation: what is saved, or what is filled.
type Place struct {
	DB    *store.DB
	Blobs blob.Bucket
	Jobs  *jobs.Queue
	// Repositories is the folder of the embedded code host; "" if the code host
	// is another's.
	Repositories string
	// Referrers know which blobs the rows need.
	Referrers []Referrer
	// Version is this program's.
	Version string
	// Signer has the installation's secret key; nil if there is none.
	Signer Signer
	// Unverified lets Restore take a backup that nothing proves to be whole and
	// unchanged.
	Unverified bool
	// Progress, if not nil, is told how far it is, often.
	Progress func(Progress)
}

// A Signer authenticates backups: who can change one could else bring in keys,
// rows and skills.
type Signer interface {
	// KeyIDs names the keys; the first signs, and all verify.
	KeyIDs() []string
	Sign(message []byte) string
	Verify(message []byte, signature string) error
}

// A Referrer hands the blobs that its rows need to fn, in any order, some
// perhaps twice. SHA256 and Size may be missing.
type Referrer interface {
	References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error
}

// Progress is how far a backup or a restore is.
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
	CreatedAt time.Time `json:"created_at"` // when the snapshot was made
	// SignedWith names the key that signed the manifest; "" if none did.
	SignedWith string `json:"signed_with,omitempty"`
}

// Manifest is the file's last member: what is in it.
type Manifest struct {
	Header
	Tables       map[string]int64 `json:"tables"` // rows of each
	Jobs         int64            `json:"jobs"`
	Blobs        Amount           `json:"blobs"`
	Repositories Amount           `json:"repositories"`
	// Deleted blobs were needed at the moment of the snapshot and were deleted
	// before they could be saved, with what needed them.
	Deleted []string `json:"deleted"`
	// Lost blobs are needed by rows and were not there. They were lost before.
	Lost []string `json:"lost"`
	// Damaged blobs do not have the content that their key names.
	Damaged []string `json:"damaged"`
	// Sums is the SHA-256 of all lists of sums, one after the other.
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

// marker is the key of a blob that stands in the bucket while a restore runs.
const marker = "restore/unfinished"

// CheckFinished fails if a restore began to fill the bucket and did not come
// to its end.
func CheckFinished(ctx context.Context, b blob.Bucket) error {
	_, err := b.Stat(ctx, marker)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.Conflict, "a restore into this place runs or was cut off; if none runs, empty the database and the blobs and restore again")
}

func marshal(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}
