package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// The headers of a delivery. Every provider sends these.
const (
	SignatureHeader = "X-Hub-Signature-256"
	EventHeader     = "X-GitHub-Event"
	DeliveryHeader  = "X-GitHub-Delivery"
)

const signaturePrefix = "sha256="

// Sign returns the signature of a body under a secret.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return signaturePrefix + hex.EncodeToString(mac.Sum(nil))
}

// signatureForm is what a signature looks like, good or not.
var signatureForm = regexp.MustCompile(`^` + signaturePrefix + `[0-9a-fA-F]{64}$`)

// CheckSigned refuses a delivery without a signature by its headers alone.
func CheckSigned(header http.Header) error {
	if !signatureForm.MatchString(header.Get(SignatureHeader)) {
		return fault.New(fault.Unauthorized, "The delivery is not signed: send the header %s", SignatureHeader)
	}
	return nil
}

// Verify returns nil if one of the secrets signed the body: there are two
// while one replaces the other. A missing or empty signature and an empty
// secret are refused.
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
		// Every secret is tried, so that the time tells nothing.
		good = hmac.Equal([]byte(Sign(secret, body)), []byte(claimed)) || good
	}
	if !good {
		return fault.New(fault.Unauthorized, "The signature of the delivery is wrong")
	}
	return nil
}
