package registrytest

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A Member is what Pack puts into an archive.
type Member struct {
	Name, Body string
	Link       string // target of a link
	Mode       int64  // in addition to 0644
	Type       byte   // e.g. tar.TypeSymlink
}

// File is a regular file.
func File(name, body string) Member { return Member{Name: name, Body: body, Type: tar.TypeReg} }

// Symlink is a symbolic link.
func Symlink(name, target string) Member {
	return Member{Name: name, Link: target, Type: tar.TypeSymlink}
}

// Pack makes a tar.gz the way a harmless tool would.
func Pack(t apptest.T, members ...Member) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for _, m := range members {
		h := &tar.Header{Name: m.Name, Typeflag: m.Type, Linkname: m.Link, Size: int64(len(m.Body)), Mode: 0o644 | m.Mode}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		_, _ = w.Write([]byte(m.Body)) // into memory
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatalf("%v", err)
	}
	return packed.Bytes()
}

// SkillText is a SKILL.md with a description.
func SkillText(description string) string {
	return "---\nname: demo\ndescription: " + description + "\n---\n# Demo\n"
}

// Skill is the archive of a skill with that description and more files, given
// as names and contents in turns.
func Skill(t apptest.T, description string, more ...string) []byte {
	t.Helper()
	members := []Member{File("./SKILL.md", SkillText(description))}
	for i := 0; i < len(more); i += 2 {
		members = append(members, File(more[i], more[i+1]))
	}
	return Pack(t, members...)
}

// Sum is the SHA-256 of content, in hex.
func Sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// Noise is n bytes that do not compress.
func Noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// Manifest lists files as a client of the registry does.
func Manifest(files map[string]string) []apptest.Object {
	var list []apptest.Object
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, apptest.Object{"path": path, "hash": Sum([]byte(files[path])), "size": len(files[path])})
	}
	return list
}

// Unpack reads the members of a tar.gz: their headers, and their contents by
// name.
func Unpack(t apptest.T, packed []byte) (headers []*tar.Header, contents map[string]string) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatalf("%v", err)
	}
	contents = map[string]string{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
		headers, contents[h.Name] = append(headers, h), string(content)
	}
}
