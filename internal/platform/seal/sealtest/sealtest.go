// Package sealtest gives tests a key.
package sealtest

import (
	"encoding/base64"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/seal"
)

// Keyring returns a keyring, the same for every caller: replicas share theirs.
func Keyring() *seal.Keyring {
	k, err := seal.New(Key(0))
	if err != nil {
		panic(err)
	}
	return k
}

// Key is a setting with one key; each number has its own.
func Key(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune('a'+n)), 32)))
}
