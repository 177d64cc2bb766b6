package host

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// The headers of a webhook delivery of GitHub. Gitea, Forgejo and our own hook send them,
// too.
const (
	SignatureHeader = "X-Hub-Signature-256"
	EventHeader     = "X-GitHub-Event"
	DeliveryHeader  = "X-GitHub-Delivery"
)

// The headers of a delivery of GitLab: the secret itself, and those of
// standardwebhooks.com if the webhook has a signing token.
const (
	GitLabEventHeader     = "X-Gitlab-Event"
	GitLabTokenHeader     = "X-Gitlab-Token"
	GitLabUUIDHeader      = "X-Gitlab-Event-UUID"
	IdempotencyHeader     = "Idempotency-Key"
	WebhookIDHeader       = "Webhook-Id" // equals the idempotency key
	WebhookTimeHeader     = "Webhook-Timestamp"
	WebhookSignedHeader   = "Webhook-Signature"
	signingPrefix         = "whsec_"
	signaturePrefix       = "sha256="
	gitlabSignaturePrefix = "v1,"
)

// maxAge is how old a signed delivery of GitLab may be, or how far in the future.
const maxAge = 5 * time.Minute

// A Verifier checks that deliveries are those of the code host.
type Verifier struct {
	Provider Provider
	// Secrets of the webhooks: there are two during a rotation.
	Secrets []string
	// SigningTokens are GitLab's, see ParseSigningToken. With any, each delivery must be
	// signed by one, too.
	SigningTokens []string
}

// Sign returns the HMAC-SHA256 signature of a body.
func Sign(secret string, body []byte) string {
	return signaturePrefix + hex.EncodeToString(mac([]byte(secret), body))
}

func mac(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return mac.Sum(nil)
}

// ParseSigningToken decodes the key in a signing token, "whsec_" and base64.
func ParseSigningToken(token string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(token, signingPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 16 {
		return nil, fault.New(fault.Malformed, "a signing token is %s and the base64 of a key, as GitLab shows it", signingPrefix)
	}
	return key, nil
}

// SignGitLab returns the signature of a delivery under the key of a signing token.
func SignGitLab(key []byte, id, at string, body []byte) string {
	signed := mac(key, []byte(id+"."+at+"."+string(body)))
	return gitlabSignaturePrefix + base64.StdEncoding.EncodeToString(signed)
}

// signatureForm matches a well-formed signature.
var signatureForm = regexp.MustCompile(`^` + signaturePrefix + `[0-9a-fA-F]{64}$`)

// CheckSigned refuses a delivery that cannot be good before its body is read.
func (v Verifier) CheckSigned(header http.Header) error {
	switch {
	case v.Provider != GitLab:
		if !signatureForm.MatchString(header.Get(SignatureHeader)) {
			return fault.New(fault.Unauthorized, "The delivery is not signed: send the header %s", SignatureHeader)
		}
	case header.Get(GitLabTokenHeader) == "":
		return fault.New(fault.Unauthorized, "The delivery has no secret: send the header %s", GitLabTokenHeader)
	case len(v.SigningTokens) > 0 && header.Get(WebhookSignedHeader) == "":
		return fault.New(fault.Unauthorized, "The delivery is not signed: send the header %s", WebhookSignedHeader)
	}
	return nil
}

// Verify returns nil if the delivery is the code host's. A missing or empty signature and
// an empty secret are refused.
func (v Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	if err := v.CheckSigned(header); err != nil {
		return err
	}
	if v.Provider != GitLab {
		return wrongUnless(v.signed(header.Get(SignatureHeader), body))
	}
	if err := wrongUnless(v.knows(header.Get(GitLabTokenHeader))); err != nil || len(v.SigningTokens) == 0 {
		return err
	}
	return wrongUnless(v.signedByToken(header, body, now))
}

func wrongUnless(good bool) error {
	if !good {
		return fault.New(fault.Unauthorized, "The signature of the delivery is wrong")
	}
	return nil
}

// signed reports whether one of the secrets signed the body.
func (v Verifier) signed(claimed string, body []byte) (good bool) {
	for _, secret := range v.Secrets {
		// Every secret is compared, in constant time: no timing side channel.
		good = secret != "" && hmac.Equal([]byte(Sign(secret, body)), []byte(claimed)) || good
	}
	return good
}

// knows reports whether one of the secrets is sent along. Of equally long hashes a
// comparison tells nothing, not even the length of the secret.
func (v Verifier) knows(sent string) (good bool) {
	hash := sha256.Sum256([]byte(sent))
	for _, secret := range v.Secrets {
		want := sha256.Sum256([]byte(secret))
		good = secret != "" && hmac.Equal(want[:], hash[:]) || good
	}
	return good
}

// signedByToken reports whether a signing token signed the body, its id and a time that is
// not long ago. What is not signed must not make a second delivery of it, so the
// idempotency key must be that id, as GitLab sends it.
func (v Verifier) signedByToken(header http.Header, body []byte, now time.Time) (good bool) {
	id, at := header.Get(WebhookIDHeader), header.Get(WebhookTimeHeader)
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" || now.Sub(time.Unix(seconds, 0)).Abs() > maxAge || cmp.Or(header.Get(IdempotencyHeader), id) != id {
		return false
	}
	for _, token := range v.SigningTokens {
		key, err := ParseSigningToken(token)
		if err != nil {
			continue
		}
		want := []byte(SignGitLab(key, id, at, body))
		for claimed := range strings.FieldsSeq(header.Get(WebhookSignedHeader)) {
			good = hmac.Equal(want, []byte(claimed)) || good
		}
	}
	return good
}

// DeliveryID is the id that the code host gave the delivery; "" if none.
func (v Verifier) DeliveryID(header http.Header) string {
	switch {
	case v.Provider != GitLab:
		return header.Get(DeliveryHeader)
	case len(v.SigningTokens) > 0:
		return header.Get(WebhookIDHeader)
	}
	return cmp.Or(header.Get(IdempotencyHeader), header.Get(GitLabUUIDHeader))
}

// EventHeader is the header with the kind of a delivery.
func (p Provider) EventHeader() string {
	if p == GitLab {
		return GitLabEventHeader
	}
	return EventHeader
}
