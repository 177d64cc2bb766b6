package notify

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// The format of a Standard Webhooks secret.
const (
	secretPrefix = "whsec_"
	newKeyBytes  = 32
	minKeyBytes  = 24
	maxKeyBytes  = 64
)

// NewSecret generates a secret for signing webhook bodies.
func NewSecret() string {
	key := make([]byte, newKeyBytes)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret validates a secret. Its error is Malformed and does not contain
// the secret.
func CheckSecret(secret string) error {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	ok = ok && err == nil && len(key) >= minKeyBytes && len(key) <= maxKeyBytes
	if !ok || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return fault.New(fault.Malformed,
			"must be %s and the base64 of %d to %d bytes", secretPrefix, minKeyBytes, maxKeyBytes)
	}
	return nil
}
