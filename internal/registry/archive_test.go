package registry_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// member is what pack puts into an archive.
type member struct {
	name, body, link string
	mode             int64
	typ              byte
}

func file(name, body string) member { return member{name: name, body: body, typ: tar.TypeReg} }

// pack makes a tar.gz the way a harmless tool would.
func pack(t *testing.T, members ...member) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.typ, Linkname: m.link, Size: int64(len(m.body)), Mode: 0o644 | m.mode}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// skillText is a SKILL.md with a description.
func skillText(description string) string {
	return "---\nname: demo\ndescription: " + description + "\n---\n# Demo\n"
}

// skill is the archive of a skill with that description and more files, given
// as names and contents in turns.
func skill(t *testing.T, description string, more ...string) []byte {
	t.Helper()
	members := []member{file("./SKILL.md", skillText(description))}
	for i := 0; i < len(more); i += 2 {
		members = append(members, file(more[i], more[i+1]))
	}
	return pack(t, members...)
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// noise is what does not get smaller when it is packed.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// manifest lists files as a client of the registry does.
func manifest(files map[string]string) []object {
	var list []object
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, object{"path": path, "hash": sum([]byte(files[path])), "size": len(files[path])})
	}
	return list
}

// unpack reads the names and contents of a tar.gz, names as they are written.
func unpack(t *testing.T, packed []byte) (names []string, contents map[string]string, headers []*tar.Header) {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string]string{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err != nil {
			if fmt.Sprint(err) != "EOF" {
				t.Fatal(err)
			}
			return names, contents, headers
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(archive); err != nil {
			t.Fatal(err)
		}
		names, headers = append(names, h.Name), append(headers, h)
		contents[h.Name] = b.String()
	}
}
