package seal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
)

// FileName is the name of the file in the data folder that holds the key when
// no setting does.
const FileName = "secret.key"

// Load returns the keys of the setting or, if that is empty, of the file in the
// data folder. Without either the error is fs.ErrNotExist.
func Load(dir, setting string) (*Keyring, error) {
	var keyring *Keyring
	var err error
	if setting != "" {
		keyring, err = New(setting)
	} else {
		keyring, err = ReadFile(filepath.Join(dir, FileName))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Invalid("secret-key", "secret-key: %s", err)
	}
	return keyring, err
}

// ReadFile returns the key in a file that MakeFile wrote. If there is no file,
// the error is fs.ErrNotExist.
func ReadFile(path string) (*Keyring, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := New(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// MakeFile writes a random key to a file that only this user can read. The
// write is atomic: a reader sees the whole key or no file. If another process
// was faster, its key stays and the error is nil.
func MakeFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(Generate() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// Link, not Rename: it fails if the file exists, so that of two processes that
	// start at once both use the same key.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fsync.Dir(filepath.Dir(path))
}
