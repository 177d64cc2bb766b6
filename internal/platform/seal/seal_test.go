package seal_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
)

var here = seal.Place{Table: "alert_rules", Column: "secret", Row: "1"}

func keyring(t *testing.T, keys ...string) *seal.Keyring {
	t.Helper()
	k, err := seal.New(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSeal(t *testing.T) {
	k := sealtest.Keyring()
	for _, value := range []string{"", "whsec_x", "https://hooks.example/T0/B0/secret", strings.Repeat("é\x00", 5_000)} {
		first, second := k.Seal([]byte(value), here), k.Seal([]byte(value), here)
		if !seal.Sealed(first) || bytes.Equal(first, second) || value != "" && bytes.Contains(first, []byte(value)) {
			t.Errorf("%.20q is sealed as %.60q and %.60q", value, first, second)
		}
		if got, err := k.Open(first, here); err != nil || string(got) != value {
			t.Errorf("opened %.20q, %v; want %.20q", got, err, value)
		}
	}
	if got, err := k.Open([]byte("plain"), here); err != nil || string(got) != "plain" {
		t.Errorf("a plain value opens as %q, %v", got, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	k := sealtest.Keyring()
	good := k.Seal([]byte("secret"), here)
	changed := func(i int) []byte {
		b := bytes.Clone(good)
		b[i] ^= 1
		return b
	}
	for _, c := range []struct {
		name   string
		stored []byte
		place  seal.Place
		want   error
	}{
		{"another row", good, seal.Place{Table: "alert_rules", Column: "secret", Row: "2"}, seal.ErrDamaged},
		{"another column", good, seal.Place{Table: "alert_rules", Column: "old_secret", Row: "1"}, seal.ErrDamaged},
		{"another table", good, seal.Place{Table: "service_secrets", Column: "secret", Row: "1"}, seal.ErrDamaged},
		{"last byte changed", changed(len(good) - 2), here, seal.ErrDamaged},
		{"nonce changed", changed(len("sealed:1:00000000:") + 1), here, seal.ErrDamaged},
		{"cut off", good[:len(good)-4], here, seal.ErrDamaged},
		{"nothing left", good[:len("sealed:1:00000000:")], here, seal.ErrDamaged},
		{"not base64", append(bytes.Clone(good), '!'), here, seal.ErrDamaged},
		{"another key", keyring(t, sealtest.Key(1)).Seal([]byte("secret"), here), here, seal.ErrKey},
		{"key id changed", changed(len("sealed:1:")), here, seal.ErrKey},
		{"no key id", []byte("sealed:1:"), here, seal.ErrKey},
	} {
		got, err := k.Open(c.stored, c.place)
		if !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %q, %v; want %v", c.name, got, err, c.want)
		}
		if _, _, renewErr := k.Renew(c.stored, c.place); !errors.Is(renewErr, c.want) {
			t.Errorf("%s: Renew = %v, want %v", c.name, renewErr, c.want)
		}
	}
}

func TestSign(t *testing.T) {
	k := sealtest.Keyring()
	signature := k.Sign([]byte("message"), "backup")
	for _, c := range []struct {
		name                        string
		keyring                     *seal.Keyring
		message, purpose, signature string
		want                        error
	}{
		{"good", k, "message", "backup", signature, nil},
		{"after a change of keys", keyring(t, sealtest.Key(1), sealtest.Key(0)), "message", "backup", signature, nil},
		{"another message", k, "message2", "backup", signature, seal.ErrDamaged},
		{"another purpose", k, "message", "other", signature, seal.ErrDamaged},
		{"purpose and message shifted", k, "p\x00message", "backu", signature, seal.ErrDamaged},
		{"cut off", k, "message", "backup", signature[:len(signature)-2], seal.ErrDamaged},
		{"no sum", k, "message", "backup", k.KeyIDs()[0] + ":", seal.ErrDamaged},
		{"not hexadecimal", k, "message", "backup", k.KeyIDs()[0] + ":zz", seal.ErrDamaged},
		{"none", k, "message", "backup", "", seal.ErrKey},
		{"another key", keyring(t, sealtest.Key(1)), "message", "backup", signature, seal.ErrKey},
	} {
		if err := c.keyring.Verify([]byte(c.message), c.purpose, c.signature); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRotation(t *testing.T) {
	before, during, after := keyring(t, sealtest.Key(0)), keyring(t, sealtest.Key(1), sealtest.Key(0)), keyring(t, sealtest.Key(1))
	old := before.Seal([]byte("secret"), here)
	renewed, changed, err := during.Renew(old, here)
	if err != nil || !changed {
		t.Fatalf("Renew: changed %t, %v", changed, err)
	}
	if got, err := after.Open(renewed, here); err != nil || string(got) != "secret" {
		t.Errorf("with the new key alone: %q, %v", got, err)
	}
	if again, changed, err := during.Renew(renewed, here); err != nil || changed || !bytes.Equal(again, renewed) {
		t.Errorf("a second time: changed %t, %v", changed, err)
	}
	if sealed, changed, err := after.Renew([]byte("plain"), here); err != nil || !changed || !seal.Sealed(sealed) {
		t.Errorf("a plain value: %q, changed %t, %v", sealed, changed, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, setting := range []string{"", "hunter2", "c2hvcnQ=", sealtest.Key(0) + ",", sealtest.Key(0) + ",x", strings.TrimRight(sealtest.Key(0), "=")} {
		if _, err := seal.New(setting); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%q) = %v, want an error without the setting", setting, err)
		}
	}
	if _, err := seal.New(sealtest.Key(0) + " , " + seal.Generate()); err != nil {
		t.Error(err)
	}
}

// TestMakeFile lets several processes make the key at once: all get one.
func TestMakeFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret.key")
	if _, err := seal.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	var wg sync.WaitGroup
	values := make([][]byte, 8)
	for i := range values {
		wg.Go(func() {
			if err := seal.MakeFile(path); err != nil {
				t.Error(err)
				return
			}
			k, err := seal.ReadFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			values[i] = k.Seal([]byte("secret"), here)
		})
	}
	wg.Wait()
	k, err := seal.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range values {
		if _, err := k.Open(value, here); err != nil {
			t.Errorf("process %d had another key: %v", i, err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ReadFile(path); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a spoilt file: %v", err)
	}
}
