package github_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// TestPrivateKey: GitHub hands out PKCS #1, and openssl writes PKCS #8.
func TestPrivateKey(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	web, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) []byte {
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, c := range []struct {
		name, block string
		raw         []byte
		good        bool
	}{
		{"PKCS #1", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), true},
		{"PKCS #8", "PRIVATE KEY", pkcs8(key), true},
		{"another kind of key", "PRIVATE KEY", pkcs8(curve), false},
		{"a public key", "PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey), false},
	} {
		_, err := github.New(github.Options{
			AppID: 1, PrivateKey: pem.EncodeToMemory(&pem.Block{Type: c.block, Bytes: c.raw}), HTTP: web,
		})
		if c.good && err != nil || !c.good && !fault.Is(err, fault.Malformed) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
