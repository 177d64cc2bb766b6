package backup

import "github.com/whetstone-dev/whetstone/internal/platform/seal"

// keySigner signs with the installation's secret key. It is an HMAC: whoever can verify a
// backup can also sign one.
type keySigner struct{ *seal.Keyring }

// NewSigner returns a signer with the keys of a keyring.
func NewSigner(k *seal.Keyring) Signer { return keySigner{k} }

// purpose separates the domains of signatures: one for something else that was
// made with the same key is not valid for a manifest.
const purpose = "backup manifest"

func (s keySigner) Sign(message []byte) string { return s.Keyring.Sign(message, purpose) }

func (s keySigner) Verify(message []byte, signature string) error {
	return s.Keyring.Verify(message, purpose, signature)
}
