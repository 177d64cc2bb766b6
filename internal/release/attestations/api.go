package attestations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// KeysPath is where the public keys are.
const KeysPath = "/.well-known/whetstone-keys.json"

// Mount adds the routes.
func (s *Service) Mount(a *httpapi.API) {
	// Anybody may read the keys without signing in, as verifiers do.
	limit := &httpapi.Limit{Requests: 12_000, Per: time.Minute, By: httpapi.ByAddress, Local: true} // as catalogs have
	a.Handle("GET "+KeysPath, limit, http.HandlerFunc(s.handleKeys))
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/versions/{version}/attestations",
		Summary: "List what is signed about a version: its provenance, the decisions of its gates and, for its own organisation, its runs",
	})
}

type listOutput struct {
	Attestations []dsse.Envelope `json:"attestations" nullable:"false" doc:"DSSE envelopes with in-toto statements: the provenance, and then the newest first; at most 200"`
}

// An entry of another organisation may be read where the registry shows it; see Service.Of.
func (s *Service) handleList(ctx context.Context, in registry.VersionPath) (listOutput, error) {
	all, err := s.Of(ctx, access.From(ctx).OrgID, in.ID, in.Version)
	return listOutput{all}, err
}

// A KeyOutput is a public key on the wire. Verifiers of other makes read it, so fields are only
// ever added.
type KeyOutput struct {
	KeyID         string         `json:"keyid"`
	Algorithm     string         `json:"algorithm"`
	PEM           string         `json:"pem"`
	JWK           dsse.JWK       `json:"jwk"`
	Status        string         `json:"status"`
	CreatedAt     time.Time      `json:"created_at"`
	NotAfter      *time.Time     `json:"not_after"` // when another key took over
	RevokedAt     *time.Time     `json:"revoked_at"`
	RevokedReason string         `json:"revoked_reason,omitempty"`
	EndorsedBy    *dsse.Envelope `json:"endorsed_by"` // in which the key before names this one
}

// KeysOutput is the file of public keys.
type KeysOutput struct {
	Keys []KeyOutput `json:"keys"`
}

// NewKeyOutput is a key without its private half.
func NewKeyOutput(k Key) (out KeyOutput, err error) {
	public, err := dsse.ParsePublicKeys([]byte(k.PEM))
	if err != nil {
		return out, err
	}
	jwk, err := public[0].JWK()
	return KeyOutput{
		KeyID: k.ID, Algorithm: dsse.Algorithm, PEM: k.PEM, JWK: jwk, Status: k.State(), CreatedAt: k.CreatedAt,
		NotAfter:  k.RetiredAt,
		RevokedAt: k.RevokedAt, RevokedReason: k.Reason, EndorsedBy: k.Endorsement,
	}, err
}

// It is not a Route of the API: the path is a convention, and there is no caller.
func (s *Service) handleKeys(w http.ResponseWriter, r *http.Request) {
	keys, err := s.Keys(r.Context())
	out := KeysOutput{Keys: make([]KeyOutput, len(keys))}
	for i, k := range keys {
		if err == nil {
			out.Keys[i], err = NewKeyOutput(k)
		}
	}
	var content []byte
	if err == nil {
		content, err = json.Marshal(out)
	}
	if err != nil {
		s.Log.Error("the public keys cannot be read", "error", err)
		http.Error(w, "The keys cannot be read now", http.StatusServiceUnavailable)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Content-Type", "application/json")
	// Short, so that a revocation is seen soon.
	w.Header().Set("Cache-Control", "public, max-age=300")
	stored.Serve(w, r, hex.EncodeToString(sum[:]), content)
}
