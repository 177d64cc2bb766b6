package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
)

const (
	// Lifetime is how long a person may take at the provider.
	Lifetime = 10 * time.Minute
	// maxNext is the longest path to return to.
	maxNext = 1000
)

// An attempt is a sign-in that was started. It is kept in a cookie, encrypted, so that
// the answer is accepted by the same browser only, and by every replica. Without a table, an
// attempt that is never finished costs nothing.
type attempt struct {
	Provider  string
	Flow      oidc.Flow
	Next      string
	Session   string // that links an account; "" for a sign-in
	ExpiresAt time.Time
}

func newAttempt(provider, next string) attempt {
	if len(next) > maxNext {
		next = "/"
	}
	return attempt{
		Provider: provider, Next: next, ExpiresAt: time.Now().Add(Lifetime),
		Flow: oidc.Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oidc.NewVerifier()},
	}
}

// The labels keep a value that was encrypted for something else from being this cookie.
const (
	cookieLabel = "whetstone sign-in"
	offerLabel  = "whetstone offered account"
)

// aead has random nonces. The number of attempts is far below the 2^32 that AES-GCM allows with one
// key.
func (s *Service) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.Secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealAs encrypts a value with the label as additional data.
func (s *Service) sealAs(label string, v any) (string, error) {
	aead, err := s.aead()
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, []byte(label))), nil
}

// openAs reports whether a cookie has a value of that label, which it reads. Any failure is the
// same to the caller: the cookie isn't ours.
func (s *Service) openAs(label, cookie string, into any) bool {
	aead, err := s.aead()
	if err != nil {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return false
	}
	plain, err := aead.Open(nil, nil, sealed, []byte(label))
	return err == nil && json.Unmarshal(plain, into) == nil
}

// open returns the attempt of a cookie, if it was started with the provider and has the
// state. The state of the query must be that of the cookie, which is what prevents login CSRF.
func (s *Service) open(cookie, provider, state string) (a attempt, err error) {
	foreign := fault.New(fault.Denied, "This sign-in was not started in this browser, or was started again "+
		"in another tab; start again")
	if !s.openAs(cookieLabel, cookie, &a) {
		return attempt{}, foreign
	}
	switch {
	case a.Provider != provider || subtle.ConstantTimeCompare([]byte(a.Flow.State), []byte(state)) != 1:
		return attempt{}, foreign
	case !a.ExpiresAt.After(time.Now()):
		return attempt{}, fault.New(fault.Denied, "This sign-in took longer than %d minutes; start again",
			int(Lifetime.Minutes()))
	}
	return a, nil
}

// hash is how a state is stored.
func hash(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}
