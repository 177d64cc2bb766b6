package notify

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// The form of a Standard Webhooks secret.
const (
	secretPrefix = "whsec_"
	newKeyBytes  = 32
	minKeyBytes  = 24
	maxKeyBytes  = 64
)

// NewSecret makes a secret that signs what goes to a webhook.
func NewSecret() string {
	key := make([]byte, newKeyBytes)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret reports whether a secret can sign. Its error is Malformed and
// does not hold the secret.
func CheckSecret(secret string) error {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	// The decoder skips line breaks.
	if !ok || err != nil || strings.ContainsAny(encoded, "\r\n") || len(key) < minKeyBytes || len(key) > maxKeyBytes {
		return fault.New(fault.Malformed, "must be %s and the base64 of %d to %d bytes", secretPrefix, minKeyBytes, maxKeyBytes)
	}
	return nil
}
