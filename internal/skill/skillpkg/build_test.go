package skillpkg_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// skillText is a SKILL.md that nothing is wrong with.
const skillText = "---\nname: demo\ndescription: Shows how it is done.\n---\n# Demo\n"

// A member is what the builders put into an archive.
type member struct {
	name string
	body string
	link string
	mode int64
	typ  byte
}

func file(name, body string) member { return member{name: name, body: body, typ: tar.TypeReg} }
func folder(name string) member     { return member{name: name, typ: tar.TypeDir, mode: 0o755} }
func symlink(name, target string) member {
	return member{name: name, link: target, typ: tar.TypeSymlink}
}

func hardLink(name, target string) member {
	return member{name: name, link: target, typ: tar.TypeLink}
}

// makeTar packs members the way a harmless tool would.
func makeTar(t testing.TB, members ...member) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.typ, Linkname: m.link, Size: int64(len(m.body)), Mode: m.mode}
		if m.mode == 0 {
			h.Mode = 0o644
		}
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
	return raw.Bytes()
}

func makeTarGz(t testing.TB, members ...member) []byte { return compress(t, makeTar(t, members...)) }

// compress makes a gzip member of raw.
func compress(t testing.TB, raw []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// tarHeader is a ustar block that says what the writer of archive/tar would
// refuse to say.
func tarHeader(name string, typ byte, size int) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x00")
	copy(b[116:], "0000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", size))
	copy(b[136:], "00000000000\x00")
	copy(b[148:], "        ")
	b[156] = typ
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// padded fills content up to whole blocks.
func padded(content string) []byte {
	b := make([]byte, (len(content)+511)/512*512)
	copy(b, content)
	return b
}

// pax is one record of an extended header.
func pax(key, value string) string {
	n := len(key) + len(value) + 3
	for len(fmt.Sprint(n))+len(key)+len(value)+3 != n {
		n++
	}
	return fmt.Sprintf("%d %s=%s\n", n, key, value)
}

// rawTar puts blocks and the end marker together.
func rawTar(t testing.TB, blocks ...[]byte) []byte {
	t.Helper()
	return compress(t, append(bytes.Join(blocks, nil), make([]byte, 1024)...))
}

// makeZip packs members the way a harmless tool would.
func makeZip(t testing.TB, members ...member) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		mode := fs.FileMode(m.mode)
		if m.mode == 0 {
			mode = 0o644
		}
		body := m.body
		if m.typ == tar.TypeSymlink {
			mode, body = fs.ModeSymlink|0o777, m.link
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(body)); err != nil && m.typ != tar.TypeDir {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// A rawEntry is a stored zip member whose headers may lie.
type rawEntry struct {
	name      string
	localName string // if not name
	body      string
	flags     uint16
	method    uint16
	attrs     uint32 // Unix mode, in the upper half
	crc       uint32 // if not that of body
	size      uint32 // if not that of body
	extra     []byte // in the directory
	at        int    // offset + 1, if not where it is
}

// rawZip writes entries and their directory. edit may change the end record.
func rawZip(entries []rawEntry, edit func(end []byte)) []byte {
	var out, directory []byte
	le := binary.LittleEndian
	for _, e := range entries {
		offset, local, size, crc := len(out), e.localName, uint32(len(e.body)), crc32.ChecksumIEEE([]byte(e.body))
		if e.at != 0 {
			offset = e.at - 1
		}
		if local == "" {
			local = e.name
		}
		if e.crc != 0 {
			crc = e.crc
		}
		shared := le.AppendUint16(nil, e.flags)
		shared = le.AppendUint16(shared, e.method)
		shared = le.AppendUint32(shared, 33<<16) // 1980-01-01
		shared = le.AppendUint32(shared, crc)
		shared = le.AppendUint32(shared, size)
		if e.size != 0 {
			size = e.size
		}
		shared = le.AppendUint32(shared, size)
		out = append(out, "PK\x03\x04\x14\x00"...)
		out = append(out, shared...)
		out = le.AppendUint16(out, uint16(len(local)))
		out = le.AppendUint16(out, 0)
		out = append(out, local...)
		out = append(out, e.body...)

		directory = append(directory, "PK\x01\x02\x14\x03\x14\x00"...)
		directory = append(directory, shared...)
		directory = le.AppendUint16(directory, uint16(len(e.name)))
		directory = le.AppendUint16(directory, uint16(len(e.extra)))
		directory = append(directory, 0, 0, 0, 0, 0, 0)
		directory = le.AppendUint32(directory, e.attrs<<16)
		directory = le.AppendUint32(directory, uint32(offset))
		directory = append(directory, e.name...)
		directory = append(directory, e.extra...)
	}
	end := append([]byte("PK\x05\x06"), 0, 0, 0, 0)
	end = le.AppendUint16(end, uint16(len(entries)))
	end = le.AppendUint16(end, uint16(len(entries)))
	end = le.AppendUint32(end, uint32(len(directory)))
	end = le.AppendUint32(end, uint32(len(out)))
	end = append(end, 0, 0)
	if edit != nil {
		edit(end)
	}
	return append(append(out, directory...), end...)
}
