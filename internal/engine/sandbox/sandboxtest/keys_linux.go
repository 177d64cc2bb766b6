package sandboxtest

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// PlantKey puts a text into the keyrings of this process, where FindSecret looks for it,
// too. Kernels without keyrings have none to find it in.
func PlantKey(t *testing.T, text string) {
	t.Helper()
	for _, ring := range []int{unix.KEY_SPEC_SESSION_KEYRING, unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_PROCESS_KEYRING} {
		key, err := unix.AddKey("user", "whetstone-planted", []byte(text), ring)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_REVOKE, key, 0, 0, 0) })
	}
}
