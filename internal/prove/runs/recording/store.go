package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Store keeps recordings.
type Store struct {
	DB    *store.DB
	Blobs blob.Bucket
}

// prefix is the prefix of the recordings' blob keys.
const prefix = "trials/"

// A Ref refers to a stored recording, and to the trial that it belongs to.
type Ref struct {
	ID      string // by which the trial opens as a session
	RunID   string
	CaseID  string
	Variant string
	N       int
	Blob    blob.Ref
}

// Put stores the bytes of a recording, redacted and limited. The caller inserts the row
// together with the trial; bytes that stay without a row are swept.
func (s *Store) Put(
	ctx context.Context, orgID, runID string, r Recording, redact func(string) string, limit int,
) (_ Ref, err error) {
	defer fault.Wrap(&err, "recording of run %s", runID)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return Ref{}, err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(r.limited(redact, limit)), w.Close()); err != nil {
		return Ref{}, err
	}
	ref, sum := Ref{ID: store.NewID(), RunID: runID}, sha256.Sum256(packed.Bytes())
	ref.Blob = blob.Ref{
		Key: prefix + orgID + "/" + runID + "/" + ref.ID + ".json.gz", SHA256: hex.EncodeToString(sum[:]),
		Size: int64(packed.Len()),
	}
	return ref, s.Blobs.Put(ctx, ref.Blob.Key, &packed, ref.Blob.Size)
}

// Get reads a recording. All of it is decoded: TextLimit keeps it small.
func (s *Store) Get(ctx context.Context, ref Ref) (r Recording, err error) {
	defer fault.Wrap(&err, "recording %s", ref.ID)
	content, _, err := s.Blobs.Get(ctx, ref.Blob.Key)
	if err != nil {
		return r, err
	}
	defer content.Close()
	unpacked, err := gzip.NewReader(content)
	if err != nil {
		return r, err
	}
	return r, json.NewDecoder(unpacked).Decode(&r)
}

// Sweep deletes blobs without a row: recordings of deleted runs, and of trials that
// another worker stored first. Blobs younger than age are spared, since their trial may
// not be stored yet.
func (s *Store) Sweep(ctx context.Context, age time.Duration) error {
	_, err := blob.Sweep{
		Bucket: s.Blobs, Prefix: prefix, MinAge: age,
		Alive: func(ctx context.Context, keys []string) ([]string, error) { return referenced(ctx, s.DB, keys) },
	}.Run(ctx)
	return err
}
