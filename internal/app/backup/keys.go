package backup

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
)

// A keyFile keeps the keys of blobs in an unnamed temporary file, since there may
// be too many for memory. It is written once and then read once. It isn't safe for concurrent
// use.
type keyFile struct {
	file *os.File
	w    *bufio.Writer
}

// newKeyFile creates the file and unlinks it at once: the kernel frees it with
// the process, also after a crash.
func newKeyFile() (*keyFile, error) {
	file, err := os.CreateTemp("", "whetstone-backup-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &keyFile{file, bufio.NewWriter(file)}, nil
}

func (k *keyFile) add(r blob.Ref) error {
	_, err := k.w.WriteString(r.Key + "\n") // keys have no control characters
	return err
}

// each calls fn with every key. Nothing can be added afterwards.
func (k *keyFile) each(fn func(key string) error) error {
	if err := k.w.Flush(); err != nil {
		return err
	}
	if _, err := k.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(k.file)
	for lines.Scan() {
		if err := fn(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (k *keyFile) close() { _ = k.file.Close() }

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
