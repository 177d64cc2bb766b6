package github

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strconv"
	"time"
)

// appKey signs the JWTs that authenticate the app itself.
type appKey struct {
	id  int64
	key *rsa.PrivateKey
}

// newAppKey reads a key as GitHub hands it out (PKCS #1) or as openssl writes it (PKCS #8).
func newAppKey(id int64, keyPEM []byte) (*appKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err == nil {
		return &appKey{id, key}, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := other.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an RSA key")
	}
	return &appKey{id, key}, nil
}

// token lasts two minutes. GitHub refuses one of more than ten, or from the future, so
// it begins half a minute early for a clock that is ahead.
func (k *appKey) token(now time.Time) (string, error) {
	issued := now.Add(-30 * time.Second)
	claims, err := json.Marshal(map[string]any{
		"iss": strconv.FormatInt(k.id, 10), "iat": issued.Unix(), "exp": issued.Add(2 * time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	hash := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.key, crypto.SHA256, hash[:])
	if err != nil {
		return "", err
	}
	return signed + "." + encode(signature), nil
}
