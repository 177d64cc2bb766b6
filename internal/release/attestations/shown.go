package attestations

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// A Shown is a statement about a version, as its page shows it.
type Shown struct {
	Summary string
	At      time.Time
	KeyID   string
}

// Show lists the statements about a version, newest first, for its own organisation or
// for everybody. The page can prove nothing: it tells how to verify them. The statements are
// parsed without verifying: they are our own.
func (s *Service) Show(ctx context.Context, v registry.Version, own bool) ([]Shown, error) {
	all, err := s.OfVersion(ctx, v, own)
	if err != nil {
		return nil, err
	}
	shown := make([]Shown, len(all))
	for i, e := range all {
		payload, err := base64.StdEncoding.DecodeString(e.Payload)
		if err != nil {
			return nil, err
		}
		r, err := intoto.Parse(payload)
		if err != nil {
			return nil, err
		}
		shown[i] = Shown{r.Summary(), r.At, e.Signatures[0].KeyID}
	}
	return shown, nil
}
