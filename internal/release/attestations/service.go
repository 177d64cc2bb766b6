// Package attestations signs what this installation knows about versions, so that
// whoever has the files of one can check where it comes from and what its evals
// showed: in-toto statements in DSSE envelopes. It owns the tables signing_keys,
// attestations and attestation_backfill.
package attestations

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"sync/atomic"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// Service signs, and serves what is signed.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Registry *registry.Service
	Gates    *gates.Service
	Seal     *seal.Keyring
	// PublicURL is the installation's address, its name in provenance. It is the builder's id,
	// so statements made before a change of address keep the old one.
	PublicURL string
	// CodeHost is the address of the repositories, e.g. "https://github.com"; "" for
	// those on this machine.
	CodeHost string
	Log      *slog.Logger

	opened atomic.Pointer[openedKey]
}

// A kind is what a statement is about.
type kind string

const (
	provenance kind = "provenance"
	ofGate     kind = "gate"
	ofOverride kind = "override" // a gate that a person decided against
	ofRun      kind = "run"
)

// An attestation is a signed statement about a version.
type attestation struct {
	id, orgID, versionID string
	kind                 kind
	// With versionID and kind it is unique: signing again changes nothing.
	ref string // id of the gate or run
	// statement has the exact bytes that are signed. Decoding and encoding it again would break
	// the signature.
	statement        []byte
	keyID, signature string
}

// envelope is the DSSE form in which clients get it.
func (a attestation) envelope() dsse.Envelope {
	return dsse.Envelope{
		PayloadType: intoto.PayloadType, Payload: base64.StdEncoding.EncodeToString(a.statement),
		Signatures: []dsse.Signature{{KeyID: a.keyID, Sig: a.signature}},
	}
}

// maxRuns is how many runs of a version stay attested, the newest ones.
const maxRuns = 50

// sign signs a statement and stores it, unless the version has that one. But for the backfill,
// it runs in the transaction of what it states: there is no version, verdict or run without its
// statement, and none that was rolled back has one.
func (s *Service) sign(ctx context.Context, tx *store.Tx, a attestation, st intoto.Statement) (err error) {
	if a.statement, err = json.Marshal(st); err != nil {
		return err
	}
	key, err := s.signingKey(ctx, tx)
	if err != nil {
		return err
	}
	envelope, err := key.Sign(intoto.PayloadType, a.statement)
	if err != nil {
		return err
	}
	a.id, a.keyID, a.signature = store.NewID(), envelope.Signatures[0].KeyID, envelope.Signatures[0].Sig
	if err := insertAttestation(ctx, tx, a, store.Now()); err != nil || a.kind != ofRun {
		return err
	}
	return deleteOldRuns(ctx, tx, a.versionID, maxRuns)
}

// Of returns the attestations of a version that the organisation may see: its
// provenance, and then the newest first. Others than the owner do not get those of
// single runs: an organisation may try what it likes, and shows what led to a release.
func (s *Service) Of(ctx context.Context, orgID, entryID, version string) ([]dsse.Envelope, error) {
	e, v, err := s.Registry.Version(ctx, orgID, entryID, version)
	if err != nil {
		return nil, err
	}
	return s.OfVersion(ctx, v, e.OrgID == orgID)
}

// OfVersion is Of for a version that was found, for its own organisation or for
// everybody.
func (s *Service) OfVersion(ctx context.Context, v registry.Version, own bool) (_ []dsse.Envelope, err error) {
	defer fault.Wrap(&err, "attestations of version %s", v.ID)
	kinds := []string{string(provenance), string(ofGate), string(ofOverride)}
	if own {
		// Only its own organisation sees how often it tried.
		kinds = append(kinds, string(ofRun))
	}
	all, err := attestationsOf(ctx, s.DB, v.ID, kinds)
	envelopes := make([]dsse.Envelope, len(all))
	for i, a := range all {
		envelopes[i] = a.envelope()
	}
	return envelopes, err
}
