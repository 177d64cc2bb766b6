package taskpkg_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// FuzzReward: whatever a verifier writes, its reward is a number that can be
// compared, or an error that says so.
func FuzzReward(f *testing.F) {
	for _, seed := range [][2]string{
		{"1", `{"reward":1}`},
		{"0.5\n", `{"a":1,"b":0}`},
		{"NaN", `{"reward":1e400}`},
		{"+Inf", `{"reward":"1"}`},
		{"", `[]`},
		{"0x1p-2", `{"reward":null}`},
		{"1e309", `{"a":1e308,"b":1e308}`},
		{" 1 2", `{`},
		{"1_0", `{"reward":true}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, text, metrics []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "logs", "verifier"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{taskpkg.RewardText: text, taskpkg.RewardJSON: metrics} {
			if err := os.WriteFile(filepath.Join(dir, "logs", "verifier", name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		raw, all, found, err := taskpkg.ReadReward(root)
		if !found {
			t.Fatal("the files are there")
		}
		if err != nil {
			return
		}
		for name, value := range all {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("%s is %v", name, value)
			}
		}
		if math.IsNaN(raw) || math.IsInf(raw, 0) {
			t.Errorf("the reward is %v", raw)
		}
	})
}
