// Package seal encrypts secrets at rest, in the database (AES-256-GCM): webhook URLs, signing
// secrets, the installation's own secrets. The key is kept outside of the database.
// A sealed value is bound to its place as additional data, so that it cannot be moved
// to another row or column. The same key signs backups (HMAC-SHA256).
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A Keyring seals with its first key and opens with all, so that keys can be rotated
// while the service runs.
type Keyring struct {
	keys []key
}

type key struct {
	id   string // first bytes of a hash of the key
	aead cipher.AEAD
	sign []byte // derived key for HMAC
}

const (
	keySize = 32
	// prefix is that of every sealed value. Values without it are clear text of a
	// release that did not seal.
	prefix = "sealed:1:"
)

var (
	// ErrKey is the error of a value that was sealed with a key not in the keyring.
	ErrKey = errors.New("sealed with another key")
	// ErrDamaged is the error of a value that was changed or moved after it was
	// sealed.
	ErrDamaged = errors.New("the sealed value is damaged or in the wrong place")
)

// New parses the setting secret-key: the base64 of 32 bytes, or several, separated by
// commas.
func New(setting string) (*Keyring, error) {
	var k Keyring
	for text := range strings.SplitSeq(setting, ",") {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(raw) != keySize {
			return nil, errors.New("a key must be the base64 of 32 bytes, as `openssl rand -base64 32` makes it")
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		// The id and the signing key are derived with domain separation, so that
		// neither says anything about the encryption key.
		sum := sha256.Sum256(append([]byte("whetstone key id "), raw...))
		k.keys = append(k.keys, key{
			id: hex.EncodeToString(sum[:4]), aead: aead, sign: mac(raw, "whetstone signing key"),
		})
	}
	return &k, nil
}

// Generate returns a random key, in the format of New.
func Generate() string {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)
}

// A Place is where a value is kept.
type Place struct {
	Table, Column, Row string
}

func (p Place) bytes() []byte { return []byte(p.Table + "." + p.Column + "/" + p.Row) }

// Seal encrypts a value for its place.
func (k *Keyring) Seal(value []byte, p Place) []byte {
	first := k.keys[0]
	sealed := first.aead.Seal(nil, nil, value, p.bytes())
	return []byte(prefix + first.id + ":" + base64.RawStdEncoding.EncodeToString(sealed))
}

// Open decrypts the value of a place. Clear text of a release that did not seal is
// returned as it is.
func (k *Keyring) Open(stored []byte, p Place) (_ []byte, err error) {
	rest, ok := bytes.CutPrefix(stored, []byte(prefix))
	if !ok {
		return stored, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s.%s of %s: %w", p.Table, p.Column, p.Row, err)
		}
	}()
	id, encoded, _ := strings.Cut(string(rest), ":")
	for _, key := range k.keys {
		if key.id != id {
			continue
		}
		sealed, err := base64.RawStdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, ErrDamaged
		}
		value, err := key.aead.Open(nil, nil, sealed, p.bytes())
		if err != nil {
			return nil, ErrDamaged
		}
		return value, nil
	}
	return nil, fmt.Errorf("%w (%q)", ErrKey, id)
}

// Renew seals a stored value with the first key, and reports whether that changed
// it. A value that cannot be opened is an error.
func (k *Keyring) Renew(stored []byte, p Place) (renewed []byte, changed bool, err error) {
	value, err := k.Open(stored, p)
	if err != nil || bytes.HasPrefix(stored, []byte(prefix+k.keys[0].id+":")) {
		return stored, false, err
	}
	return k.Seal(value, p), true, nil
}

// KeyIDs returns the ids of the keys; the first one seals and signs.
func (k *Keyring) KeyIDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}
	return ids
}

// Sign returns an HMAC of a message with the first key. The purpose separates
// domains: a signature for one is not valid for another.
func (k *Keyring) Sign(message []byte, purpose string) string {
	first := k.keys[0]
	return first.id + ":" + hex.EncodeToString(mac(first.sign, purpose+"\x00"+string(message)))
}

// Verify fails with ErrKey or ErrDamaged unless one of the keys signed the
// message for the purpose.
func (k *Keyring) Verify(message []byte, purpose, signature string) error {
	id, sum, _ := strings.Cut(signature, ":")
	for _, key := range k.keys {
		if key.id != id {
			continue
		}
		got, err := hex.DecodeString(sum)
		if err != nil || !hmac.Equal(got, mac(key.sign, purpose+"\x00"+string(message))) {
			return ErrDamaged
		}
		return nil
	}
	return fmt.Errorf("%w (%q)", ErrKey, id)
}

func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(message)) // it never fails
	return h.Sum(nil)
}

// Sealed reports whether a stored value is encrypted.
func Sealed(stored []byte) bool { return bytes.HasPrefix(stored, []byte(prefix)) }
