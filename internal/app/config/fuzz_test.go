package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// FuzzFile: a file of settings is refused, naming the file and never what
// stands in it, or is read.
func FuzzFile(f *testing.F) {
	const secret = "hunter2-is-the-password"
	for _, seed := range []string{
		"addr = \"127.0.0.1:0\"\nroles = [\"web\", \"worker\"]\n", "smtp_url = " + secret + "\n", "a = 1\na = 2\n", "a_b = 1\na-b = 2\n", "[x]\ny = \"" + secret + "\"\n",
		"roles = [1, \"x\"]", "x = '''\n", "\xff", "= 5", "x = 1e999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "whetstone.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.ReadFile(path)
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name the file", err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%v shows what stands in the file", err)
		}
	})
}

// FuzzDuration: what is written is what is read, and it is above zero.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"60s", "30d", "0d", "65535d", "65536d", "1h30m", "-1s", "d", "1e9s", "2562047h47m16.854775807s", "1ns", "µs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again config.Duration
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := d.MarshalText()
		if err != nil || d <= 0 {
			t.Fatalf("%q is %d, %v", text, d, err)
		}
		if err := again.UnmarshalText(written); err != nil || again != d {
			t.Errorf("%q is %s, which is %s, %v", text, d, again, err)
		}
	})
}
