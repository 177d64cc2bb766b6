package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// The headers of a webhook delivery. All providers send them.
const (
	SignatureHeader = "X-Hub-Signature-256"
	EventHeader     = "X-GitHub-Event"
	DeliveryHeader  = "X-GitHub-Delivery"
)

const signaturePrefix = "sha256="

// Sign returns the HMAC-SHA256 signature of a body.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return signaturePrefix + hex.EncodeToString(mac.Sum(nil))
}

// signatureForm matches a well-formed signature.
var signatureForm = regexp.MustCompile(`^` + signaturePrefix + `[0-9a-fA-F]{64}$`)

// CheckSigned refuses a delivery without a signature before its body is read.
func CheckSigned(header http.Header) error {
	if !signatureForm.MatchString(header.Get(SignatureHeader)) {
		return fault.New(fault.Unauthorized, "The delivery is not signed: send the header %s", SignatureHeader)
	}
	return nil
}

// Verify returns nil if one of the secrets signed the body: there are two during
// a rotation. A missing or empty signature and an empty secret are refused.
func Verify(secrets []string, header http.Header, body []byte) error {
	if err := CheckSigned(header); err != nil {
		return err
	}
	claimed := header.Get(SignatureHeader)
	good := false
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		// Every secret is compared, in constant time: no timing side channel.
		good = hmac.Equal([]byte(Sign(secret, body)), []byte(claimed)) || good
	}
	if !good {
		return fault.New(fault.Unauthorized, "The signature of the delivery is wrong")
	}
	return nil
}
