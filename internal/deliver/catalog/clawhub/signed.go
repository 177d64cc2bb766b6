package clawhub

import (
	"context"
	"encoding/base64"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// signatureOutput has what is signed about a version, and where the keys are.
type signatureOutput struct {
	Algorithm    string          `json:"algorithm"`
	KeyID        string          `json:"keyId"` // of the provenance
	KeysURL      string          `json:"keysUrl"`
	Attestations []dsse.Envelope `json:"attestations"`
}

// evidenceDetail is what the newest gate of a version decided and, for its own
// organisation, how well it does in use.
type evidenceDetail struct {
	*useOutput
	Gate *intoto.EvalPredicate `json:"gate,omitempty"`
}

type useOutput struct {
	PassRate       *float64 `json:"passRate"`
	GradedSessions int64    `json:"gradedSessions"`
	Sessions       int64    `json:"sessions"`
}

// signed returns nil for a version that waits for the backfill.
func (s *Service) signed(ctx context.Context, ver registry.Version, own bool) (*signatureOutput, *evidenceDetail, error) {
	if s.Attestations == nil {
		return nil, nil, nil
	}
	all, err := s.Attestations.OfVersion(ctx, ver, own)
	// Versions of before attestations were introduced are signed by a job.
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	out := &signatureOutput{Algorithm: dsse.Algorithm, KeysURL: s.PublicURL + attestations.KeysPath, Attestations: all}
	var evidence *evidenceDetail
	for _, envelope := range all {
		// Envelopes are our own and valid; an error means that the database was
		// changed.
		payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
		if err != nil {
			return nil, nil, err
		}
		read, err := intoto.Parse(payload)
		if err != nil {
			return nil, nil, err
		}
		if read.Provenance != nil {
			out.KeyID = envelope.Signatures[0].KeyID
		}
		// The newest comes first.
		if read.Eval != nil && read.Eval.Gate != "" && evidence == nil {
			evidence = &evidenceDetail{Gate: read.Eval}
		}
	}
	return out, evidence, nil
}
