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
	"net/http"
	"strconv"
	"time"
)

// appSigner authenticates requests as the app itself, by a JWT that its private key
// signs (RS256). Signing one is all that a library for GitHub Apps would do here, and
// the one there is brings a second go-github along.
type appSigner struct {
	id   int64
	key  *rsa.PrivateKey
	next http.RoundTripper
}

func newAppSigner(id int64, keyPEM []byte, next http.RoundTripper) (*appSigner, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err == nil {
		return &appSigner{id, key, next}, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := other.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an RSA key")
	}
	return &appSigner{id, key, next}, nil
}

// RoundTrip sets the header.
func (s *appSigner) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := s.token(time.Now())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return s.next.RoundTrip(req)
}

// token lasts two minutes. GitHub refuses one of more than ten, or from the future, so
// it begins half a minute early for a clock that is ahead.
func (s *appSigner) token(now time.Time) (string, error) {
	issued := now.Add(-30 * time.Second)
	claims, err := json.Marshal(map[string]any{
		"iss": strconv.FormatInt(s.id, 10), "iat": issued.Unix(), "exp": issued.Add(2 * time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	hash := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, hash[:])
	if err != nil {
		return "", err
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
