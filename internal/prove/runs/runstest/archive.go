package runstest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
)

// A File is a member of an archive.
type File struct {
	Name, Text string
	Mode       int64
}

// Archive packs a skill with a script.
func Archive(name, text string) []byte {
	return Pack(
		File{name + "/SKILL.md", text, 0o644},
		File{name + "/scripts/hello.sh", "#!/bin/sh\necho hello\n", 0o755},
	)
}

// Pack makes a tar.gz.
func Pack(files ...File) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range files { // a buffer takes everything
		_ = w.WriteHeader(&tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Text)), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(f.Text))
	}
	_ = w.Close()
	_ = z.Close()
	return out.Bytes()
}
