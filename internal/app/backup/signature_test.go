package backup_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
)

// TestSignature restores only what the installation's own key has signed.
func TestSignature(t *testing.T) {
	source := filledPlace(t, "sqlite", "files")
	signed, _ := save(t, source)
	source.Signer = nil
	unsigned, _ := save(t, source)
	other := func(keys ...string) backup.Signer {
		k, err := seal.New(strings.Join(keys, ","))
		if err != nil {
			t.Fatal(err)
		}
		return signer{k}
	}
	changeRow := func(_ string, content []byte) []byte {
		return bytes.ReplaceAll(content, []byte("ada@x"), []byte("eve@x"))
	}
	for _, c := range []struct {
		name   string
		file   []byte
		signer backup.Signer
		says   string // "" is a good restore
		begun  bool
	}{
		{"signed", signed, signer{sealtest.Keyring()}, "", false},
		{"signed with a key that was changed since", signed, other(sealtest.Key(1), sealtest.Key(0)), "", false},
		{"unsigned", unsigned, signer{sealtest.Keyring()}, "is not signed", false},
		{"without a key", signed, nil, "put that installation's secret.key into --data, or set --secret-key", false},
		{"with another key", signed, other(sealtest.Key(1)), "is signed with another secret key", false},
		{"a changed row", tamper(t, signed, changeRow), signer{sealtest.Keyring()}, "was modified", true},
		{"a changed manifest", tamper(t, signed, func(name string, content []byte) []byte {
			if name == "manifest.json" {
				content = bytes.Replace(content, []byte(`"lost": []`), []byte(`"lost": ["x"]`), 1)
			}
			return content
		}), signer{sealtest.Keyring()}, "was modified", true},
		{"signature taken out", tamper(t, signed, func(name string, content []byte) []byte {
			if name == "manifest.json.hmac" {
				return nil
			}
			return content
		}), signer{sealtest.Keyring()}, "was modified", true},
		{"signature of nothing", tamper(t, signed, func(name string, content []byte) []byte {
			if name == "manifest.json.hmac" {
				return append(bytes.Split(content, []byte(":"))[0], ':')
			}
			return content
		}), signer{sealtest.Keyring()}, "was modified", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "sqlite", "files")
			p.Signer = c.signer
			_, err := backup.Restore(t.Context(), p, bytes.NewReader(c.file))
			_, begun := errors.AsType[*backup.Unfinished](err)
			switch {
			case c.says == "" && err != nil:
				t.Fatal(err)
			case c.says == "":
				return
			case err == nil || !strings.Contains(err.Error(), c.says) || fault.Of(err) == fault.Internal || begun != c.begun:
				t.Errorf("got %v (begun %t), want %q", err, begun, c.says)
			}
			if begun && len(rows(t, p)["users"]) > 0 || !begun && len(blobs(t, p.Blobs)) > 0 {
				t.Error("something was restored")
			}
			trusting := newPlace(t, "sqlite", "files")
			trusting.Signer, trusting.Unverified = c.signer, true
			if _, err := backup.Restore(t.Context(), trusting, bytes.NewReader(c.file)); err != nil {
				t.Errorf("unverified: %v", err)
			}
		})
	}
}

// tamper changes members of a backup, and makes all sums right again. It takes
// out what is changed to nil.
func tamper(t *testing.T, file []byte, change func(name string, content []byte) []byte) []byte {
	t.Helper()
	from := tar.NewReader(bytes.NewReader(unpacked(file)))
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	to := tar.NewWriter(z)
	var sums, all strings.Builder
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		content = change(h.Name, content)
		switch {
		case content == nil:
			continue
		case strings.HasPrefix(h.Name, "SHA256SUMS/"):
			content = []byte(sums.String())
			all.WriteString(sums.String())
			sums.Reset()
		case h.Name == "manifest.json":
			var m backup.Manifest
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			content = bytes.Replace(content, []byte(m.Sums), fmt.Appendf(nil, "%x", sha256.Sum256([]byte(all.String()))), 1)
		default:
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), h.Name)
		}
		h.Size = int64(len(content))
		if err := to.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRepositoriesBringNoPrograms restores a repository with everything that
// makes git run or read something else.
func TestRepositoriesBringNoPrograms(t *testing.T) {
	t.Parallel()
	source := filledPlace(t, "sqlite", "files")
	hostile := []string{
		"hooks/post-receive", "hooks/pre-receive", "hooks/post-receive.before-whetstone", "config", "config.worktree", "commondir", "gitdir",
		"objects/info/alternates", "objects/info/http-alternates", "info/attributes", "modules/x/config", "worktrees/x/gitdir", "Hooks/update", "unknown",
	}
	for _, name := range hostile {
		write(t, filepath.Join(source.Repositories, "acme/evil.git", name), "#!/bin/sh\ntouch /tmp/owned\n")
	}
	kept := []string{
		"HEAD", "objects/ab/cd", "objects/pack/pack-1.idx", "objects/pack/pack-1.pack", "packed-refs", "refs/heads/a/b", "shallow",
	}
	for _, name := range append(kept, "hooks/update.sample", "description", "info/exclude") {
		write(t, filepath.Join(source.Repositories, "acme/evil.git", name), "data")
	}
	write(t, filepath.Join(source.Repositories, "acme/fine.git", "config"), "[core]\n\tbare = true\n")
	file, _ := save(t, source)
	target := newPlace(t, "sqlite", "files")
	got, err := backup.Restore(t.Context(), target, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for name := range files(t, filepath.Join(target.Repositories, "acme/evil.git")) {
		there = append(there, name)
	}
	slices.Sort(there)
	if diff := cmp.Diff(kept, there); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	want := []string{"acme/skill.git/hooks/update"}
	for _, name := range hostile {
		want = append(want, "acme/evil.git/"+name)
	}
	slices.Sort(want)
	slices.Sort(got.LeftOut)
	if diff := cmp.Diff(want, got.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}
