package sourcestest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/rand"
	"io/fs"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// SkillText is a SKILL.md without findings.
const SkillText = `---
name: demo
description: Shows how a table is read out of a PDF. Use when somebody asks for the numbers of a PDF document.
---
# Demo

Read the table.
`

// TarGz packs names and contents, given in turns; what begins with #! is
// executable.
func TarGz(t *testing.T, files ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Typeflag: tar.TypeReg, Size: int64(len(files[i+1])), Mode: mode(files[i+1])}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
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

func mode(content string) int64 {
	if len(content) > 1 && content[:2] == "#!" {
		return 0o755
	}
	return 0o644
}

// Zipped is TarGz for a zip.
func Zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for i := 0; i < len(files); i += 2 {
		h := &zip.FileHeader{Name: files[i], Method: zip.Deflate}
		h.SetMode(fs.FileMode(mode(files[i+1])))
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// Noise is incompressible.
func Noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}
