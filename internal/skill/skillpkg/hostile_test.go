package skillpkg_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A hostile archive is one that must be refused, and why.
type hostile struct {
	name string
	data []byte
	code skillpkg.Code
}

// tight are limits that a test can pass quickly.
func tight() skillpkg.Limits {
	l := skillpkg.DefaultLimits()
	l.Packed, l.Unpacked, l.File, l.Files = 512<<10, 300<<10, 100<<10, 20
	return l
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

// bothFormats are archives that are as bad as tar as they are as zip.
func bothFormats(t testing.TB) []hostile {
	skill := file("SKILL.md", skillText)
	many, huge, folders := []member{}, []member{}, []member{}
	for i := range 21 {
		many = append(many, file(fmt.Sprintf("f%d", i), "x"))
	}
	for i := range 41 {
		folders = append(folders, folder(fmt.Sprintf("d%d/", i)))
	}
	for i := range 4 {
		huge = append(huge, file(fmt.Sprintf("f%d", i), noise(90<<10)))
	}
	ring := []member{skill}
	for i := range 10 {
		ring = append(ring, symlink(fmt.Sprintf("a/l%d", i), "../b"), symlink(fmt.Sprintf("b/l%d", i), "../c"))
	}
	ring = ring[:19]
	for _, d := range []string{"c/d/e/f", "c/g/e/f"} {
		ring = append(ring, file(d, "x"))
	}
	cases := []struct {
		name    string
		members []member
		code    skillpkg.Code
	}{
		{"too many files", many, skillpkg.CodeTooManyFiles},
		{"too many folders", folders, skillpkg.CodeTooManyFiles},
		{"file too large", []member{file("big", noise(101<<10))}, skillpkg.CodeFileTooLarge},
		{"unpacked too large", huge, skillpkg.CodeUnpackedTooLarge},
		{"path too deep", []member{file("a/b/c/d/e/f/g/h/i", "x")}, skillpkg.CodePathTooDeep},
		{"path too long", []member{file(strings.Repeat("a", 513), "x")}, skillpkg.CodePathTooLong},
		{"parent", []member{file("../x", "x")}, skillpkg.CodePathTraversal},
		{"parent inside", []member{file("a/../../x", "x")}, skillpkg.CodePathTraversal},
		{"parent at the end", []member{folder("a/../")}, skillpkg.CodePathTraversal},
		{"absolute", []member{file("/etc/passwd", "x")}, skillpkg.CodePathTraversal},
		{"absolute after dot", []member{file(".//etc/passwd", "x")}, skillpkg.CodePathTraversal},
		{"drive letter", []member{file("C:/x", "x")}, skillpkg.CodePathTraversal},
		{"stream of NTFS", []member{skill, file("SKILL.md::$DATA", "x")}, skillpkg.CodePathReserved},
		{"stream of NTFS in a folder", []member{skill, file("a/b.md:x/c", "x")}, skillpkg.CodePathReserved},
		{"drive letter without slash", []member{file("c:x", "x")}, skillpkg.CodePathTraversal},
		{"backslash", []member{file(`a\..\x`, "x")}, skillpkg.CodePathTraversal},
		{"control character", []member{file("a\x1b[2Jb", "x")}, skillpkg.CodePathControl},
		{"line feed", []member{file("a\nb", "x")}, skillpkg.CodePathControl},
		{"writing from right to left", []member{file("exe\u202Egnp.sh", "x")}, skillpkg.CodePathControl},
		{"zero width space", []member{file("a\u200Bb", "x")}, skillpkg.CodePathControl},
		{"invisible folder", []member{folder("d\u2066/"), file("d\u2066/x", "x")}, skillpkg.CodePathControl},
		{"not UTF-8", []member{file("a\xff", "x")}, skillpkg.CodePathEncoding},
		{"empty segment", []member{file("a//b", "x")}, skillpkg.CodePathEmpty},
		{"dot segment", []member{file("a/./b", "x")}, skillpkg.CodePathEmpty},
		{"duplicate", []member{file("a", "1"), file("a", "2")}, skillpkg.CodePathDuplicate},
		{"duplicate through dot", []member{file("a", "1"), file("./a", "2")}, skillpkg.CodePathDuplicate},
		{"duplicate folder", []member{folder("a/"), folder("a/")}, skillpkg.CodePathDuplicate},
		{"case collision", []member{file("Readme.md", "1"), file("README.md", "2")}, skillpkg.CodePathCollision},
		{"case collision of folders", []member{file("Docs/a", "1"), file("docs/b", "2")}, skillpkg.CodePathCollision},
		{"Greek sigma collision", []member{file("σ", "1"), file("ς", "2")}, skillpkg.CodePathCollision},
		{"NFC collision", []member{file("caf\u00e9", "1"), file("cafe\u0301", "2")}, skillpkg.CodePathCollision},
		{"both SKILL.md and skill.md", []member{skill, file("skill.md", "x")}, skillpkg.CodePathCollision},
		{"Windows device", []member{file("a/CON", "x")}, skillpkg.CodePathReserved},
		{"Windows device with extension", []member{file("nul.tar.gz", "x")}, skillpkg.CodePathReserved},
		{"Windows port", []member{file("com¹.txt", "x")}, skillpkg.CodePathReserved},
		{"trailing dot", []member{file("a./b", "x")}, skillpkg.CodePathReserved},
		{"trailing space", []member{file("a ", "x")}, skillpkg.CodePathReserved},
		{"file then folder", []member{file("a", "x"), file("a/b", "x")}, skillpkg.CodePathConflict},
		{"folder then file", []member{file("a/b", "x"), file("a", "x")}, skillpkg.CodePathConflict},
		{"link used as a folder", []member{folder("d/"), symlink("l", "d"), file("l/x", "x")}, skillpkg.CodePathConflict},
		{"link to parent", []member{skill, symlink("l", "../x")}, skillpkg.CodeSymlink},
		{"link out and back", []member{skill, symlink("l", "../w/SKILL.md")}, skillpkg.CodeSymlink},
		{"absolute link", []member{skill, symlink("l", "/etc/passwd")}, skillpkg.CodeSymlink},
		{"drive link", []member{skill, symlink("l", "C:/x")}, skillpkg.CodeSymlink},
		{"backslash link", []member{skill, symlink("l", `..\x`)}, skillpkg.CodeSymlink},
		{"missing link", []member{skill, symlink("l", "nothing")}, skillpkg.CodeSymlink},
		{"link below a file", []member{skill, symlink("l", "SKILL.md/x")}, skillpkg.CodeSymlink},
		{"link to itself", []member{skill, symlink("l", "l")}, skillpkg.CodeSymlink},
		{"links to each other", []member{skill, symlink("a", "b"), symlink("b", "a")}, skillpkg.CodeSymlink},
		{"link to its own folder", []member{skill, symlink("d/l", ".")}, skillpkg.CodeSymlink},
		{"link to the root", []member{skill, symlink("d/l", "..")}, skillpkg.CodeSymlink},
		{"folders linked to each other", []member{skill, symlink("a/l", "../b"), symlink("b/l", "../a")}, skillpkg.CodeSymlink},
		{"link out through a link", []member{skill, file("d/e/x", ""), symlink("in", "d/e"), symlink("l", "in/../../../x")}, skillpkg.CodeSymlink},
		{"link out of the wrapper", []member{file("w/SKILL.md", skillText), file("__MACOSX/x", "x"), symlink("w/l", "../__MACOSX/x")}, skillpkg.CodeSymlink},
		{"links that multiply files", ring, skillpkg.CodeTooManyFiles},
		{"links that multiply bytes", []member{file("f", noise(80<<10)), symlink("a", "f"), symlink("b", "f"), symlink("c", "f")}, skillpkg.CodeUnpackedTooLarge},
		{"link target too long", []member{skill, symlink("l", strings.Repeat("a/", 300))}, skillpkg.CodeSymlink},
		{"setuid", []member{{name: "x", typ: '0', mode: 0o4755}}, skillpkg.CodeSpecialMode},
		{"setgid", []member{{name: "x", typ: '0', mode: 0o2755}}, skillpkg.CodeSpecialMode},
		{"sticky folder", []member{{name: "x/", typ: '5', mode: 0o1755}}, skillpkg.CodeSpecialMode},
	}
	var all []hostile
	for _, c := range cases {
		all = append(all, hostile{c.name + " tar", makeTarGz(t, c.members...), c.code})
		all = append(all, hostile{c.name + " zip", makeZip(t, unixModes(c.members)...), c.code})
	}
	return all
}

// unixModes turns the special bits of a tar mode into those of io/fs.
func unixModes(members []member) []member {
	out := make([]member, len(members))
	for i, m := range members {
		switch m.mode &^ 0o777 {
		case 0o4000:
			m.mode = m.mode&0o777 | 1<<23
		case 0o2000:
			m.mode = m.mode&0o777 | 1<<22
		case 0o1000:
			m.mode = m.mode&0o777 | 1<<20
		}
		out[i] = m
	}
	return out
}

func tarOnly(t testing.TB) []hostile {
	skill := file("SKILL.md", skillText)
	plain := makeTar(t, skill)
	packed := compress(t, plain)
	global := func(records string) []byte {
		return rawTar(t, tarHeader("pax_global_header", 'g', len(records)), padded(records), tarHeader("x", '0', 0))
	}
	extended := func(records string) []byte {
		return rawTar(t, tarHeader("h", 'x', len(records)), padded(records), tarHeader("x", '0', 512), make([]byte, 512))
	}
	damaged := bytes.Clone(packed)
	damaged[len(damaged)-8] ^= 1
	dishonest := makeTar(t, skill)
	dishonest[0] ^= 1
	all := []hostile{
		{"hard link to nothing", makeTarGz(t, hardLink("l", "x")), skillpkg.CodeHardLink},
		{"hard link to a later file", makeTarGz(t, hardLink("l", "x"), file("x", "x")), skillpkg.CodeHardLink},
		{"hard link out", makeTarGz(t, hardLink("l", "../../etc/passwd")), skillpkg.CodeHardLink},
		{"hard link to absolute", makeTarGz(t, hardLink("l", "/etc/passwd")), skillpkg.CodeHardLink},
		{"hard link to a folder", makeTarGz(t, folder("d/"), hardLink("l", "d")), skillpkg.CodeHardLink},
		{"hard link to a link", makeTarGz(t, skill, symlink("s", "SKILL.md"), hardLink("l", "s")), skillpkg.CodeHardLink},
		{"hard links that multiply bytes", makeTarGz(t, file("f", noise(80<<10)), hardLink("a", "f"), hardLink("b", "f"), hardLink("c", "f")), skillpkg.CodeUnpackedTooLarge},
		{"character device", makeTarGz(t, member{name: "x", typ: '3'}), skillpkg.CodeDevice},
		{"block device", makeTarGz(t, member{name: "x", typ: '4'}), skillpkg.CodeDevice},
		{"FIFO", makeTarGz(t, member{name: "x", typ: '6'}), skillpkg.CodeDevice},
		{"unknown type", rawTar(t, tarHeader("x", 'Z', 0)), skillpkg.CodeMemberType},
		{"contiguous file", rawTar(t, tarHeader("x", '7', 0)), skillpkg.CodeMemberType},
		{"GNU volume", rawTar(t, tarHeader("x", 'V', 0)), skillpkg.CodeMemberType},
		{"file with a folder's name", rawTar(t, tarHeader("x/", '0', 0)), skillpkg.CodePathEmpty},
		{"folder with content", rawTar(t, tarHeader("x/", '5', 512), tarHeader("y", '0', 0)), skillpkg.CodeExtension},
		{"no name", rawTar(t, tarHeader("", '0', 0)), skillpkg.CodePathEmpty},
		{"root as a file", rawTar(t, tarHeader("./", '0', 0)), skillpkg.CodePathEmpty},
		{"slash as a folder", rawTar(t, tarHeader("/", '5', 0)), skillpkg.CodePathEmpty},
		{"sparse file", extended(pax("GNU.sparse.major", "0") + pax("GNU.sparse.minor", "1") + pax("GNU.sparse.size", "99999999999") + pax("GNU.sparse.numblocks", "1") + pax("GNU.sparse.map", "0,512")), skillpkg.CodeSparse},
		{"NUL in an extended name", extended(pax("path", "a\x00b")), skillpkg.CodeMalformed},
		{"extended header that lies about its length", extended("999 path=a\n"), skillpkg.CodeMalformed},
		{"extended name out", extended(pax("path", "../x")), skillpkg.CodePathTraversal},
		{"extended size beyond the end", extended(pax("size", "90000")), skillpkg.CodeTruncated},
		{"extended size too large", extended(pax("size", "9999999999999")), skillpkg.CodeTruncated},
		{"extended header over 1 MiB", extended(pax("comment", strings.Repeat("x", 1<<20))), skillpkg.CodeUnpackedTooLarge},
		{"name for all members", global(pax("path", "evil")), skillpkg.CodeExtension},
		{"size for all members", global(pax("size", "1")), skillpkg.CodeExtension},
		{"GNU long name out", rawTar(t, tarHeader("././@LongLink", 'L', 5), padded("../x\x00"), tarHeader("x", '0', 0)), skillpkg.CodePathTraversal},
		{"no end marker", compress(t, plain[:1024]), skillpkg.CodeNoEndMarker},
		{"half an end marker", compress(t, plain[:1536]), skillpkg.CodeNoEndMarker},
		{"zeros that are content", compress(t, append(tarHeader("x", '0', 1024), make([]byte, 1024)...)), skillpkg.CodeNoEndMarker},
		{"header cut", compress(t, plain[:300]), skillpkg.CodeTruncated},
		{"content cut", compress(t, plain[:520]), skillpkg.CodeTruncated},
		{"gzip cut", packed[:len(packed)-20], skillpkg.CodeTruncated},
		{"gzip without trailer", packed[:len(packed)-4], skillpkg.CodeTruncated},
		{"only gzip's first bytes", []byte{0x1f, 0x8b}, skillpkg.CodeTruncated},
		{"gzip with a wrong checksum", damaged, skillpkg.CodeMalformed},
		{"tar with a wrong checksum", compress(t, dishonest), skillpkg.CodeMalformed},
		{"gzip of something else", compress(t, []byte(noise(2000))), skillpkg.CodeMalformed},
		{"garbage after gzip", append(bytes.Clone(packed), "garbage after it"...), skillpkg.CodeTrailingData},
		{"second tar after the first", append(bytes.Clone(packed), packed...), skillpkg.CodeTrailingData},
		{"zeros without end", compress(t, make([]byte, 2<<20)), skillpkg.CodeUnpackedTooLarge},
	}
	return all
}

func zipOnly(t testing.TB) []hostile {
	skill := rawEntry{name: "SKILL.md", body: skillText}
	le := binary.LittleEndian
	plain := rawZip([]rawEntry{skill}, nil)
	zip64 := append([]byte{1, 0, 16, 0}, make([]byte, 16)...)
	le.PutUint64(zip64[4:], 1<<40)
	le.PutUint64(zip64[12:], uint64(len(skillText)))
	locator := append(make([]byte, 56), "PK\x06\x07"...)
	end := plain[len(plain)-22:]
	withLocator := bytes.Join([][]byte{plain[:len(plain)-22], locator, make([]byte, 16), end}, nil)
	socket := skill
	socket.attrs = 0o140644
	return []hostile{
		{"encrypted", rawZip([]rawEntry{{name: "x", body: "x", flags: 1}}, nil), skillpkg.CodeEncrypted},
		{"strongly encrypted", rawZip([]rawEntry{{name: "x", body: "x", flags: 1 << 6}}, nil), skillpkg.CodeEncrypted},
		{"other method", rawZip([]rawEntry{{name: "x", body: "x", method: 12}}, nil), skillpkg.CodeMethod},
		{"socket", rawZip([]rawEntry{socket}, nil), skillpkg.CodeDevice},
		{"FIFO", rawZip([]rawEntry{{name: "x", attrs: 0o010644}}, nil), skillpkg.CodeDevice},
		{"device", rawZip([]rawEntry{{name: "x", attrs: 0o020644}}, nil), skillpkg.CodeDevice},
		{"folder with content", rawZip([]rawEntry{{name: "x/", body: "x"}}, nil), skillpkg.CodePathConflict},
		{"folder and link", rawZip([]rawEntry{{name: "x/", attrs: 0o120777}}, nil), skillpkg.CodePathConflict},
		{"no name", rawZip([]rawEntry{{body: "x"}}, nil), skillpkg.CodePathEmpty},
		{"NUL in a name", rawZip([]rawEntry{{name: "a\x00b", body: "x"}}, nil), skillpkg.CodePathTraversal},
		{"two names", rawZip([]rawEntry{{name: "SKILL.md", localName: "../../x", body: "x"}}, nil), skillpkg.CodeMalformed},
		{"wrong checksum", rawZip([]rawEntry{{name: "x", body: "x", crc: 1}}, nil), skillpkg.CodeMalformed},
		{"size too small", rawZip([]rawEntry{{name: "x", body: "xxxx", size: 2}}, nil), skillpkg.CodeMalformed},
		{"size too large", rawZip([]rawEntry{{name: "x", body: "xxxx", size: 9}}, nil), skillpkg.CodeTruncated},
		{"zip64 lie", rawZip([]rawEntry{{name: "x", body: skillText, size: 1<<32 - 1, extra: zip64}}, nil), skillpkg.CodeTruncated},
		{"zip64 directory", withLocator, skillpkg.CodeExtension},
		{"entry twice", rawZip([]rawEntry{skill, {name: "SKILL.md", body: skillText, at: 1}}, nil), skillpkg.CodeOverlap},
		{"one content, two names", rawZip([]rawEntry{skill, {name: "SKILL.mb", localName: "SKILL.md", body: skillText, at: 1}}, nil), skillpkg.CodeMalformed},
		{"content over the next member", overlapping(), skillpkg.CodeOverlap},
		{"member beyond the end", rawZip([]rawEntry{{name: "x", body: "x", at: 9999}}, nil), skillpkg.CodeTruncated},
		{"fewer entries than promised", rawZip([]rawEntry{skill}, func(end []byte) { le.PutUint16(end[10:], 2) }), skillpkg.CodeMalformed},
		{"more entries than promised", rawZip([]rawEntry{skill, {name: "y"}}, func(end []byte) { le.PutUint16(end[10:], 1) }), skillpkg.CodeMalformed},
		{"directory elsewhere", rawZip([]rawEntry{skill}, func(end []byte) { le.PutUint32(end[16:], 7) }), skillpkg.CodeMalformed},
		{"garbage before", append([]byte("PK\x03\x04garbage"), plain...), skillpkg.CodeMalformed},
		{"garbage after", append(bytes.Clone(plain), "garbage"...), skillpkg.CodeTrailingData},
		{"directory cut", plain[:len(plain)-30], skillpkg.CodeTruncated},
		{"only zip's first bytes", []byte("PK\x03\x04"), skillpkg.CodeTruncated},
		{"too many entries, all empty", rawZip(make([]rawEntry, 5000), nil), skillpkg.CodeTooManyFiles},
	}
}

// overlapping is a zip whose first member's content reaches over the second.
func overlapping() []byte {
	second := rawZip([]rawEntry{{name: "b", body: "bbbb"}}, nil)[:35]
	data := rawZip([]rawEntry{{name: "a", body: string(second)}, {name: "b", body: "bbbb", at: 32}}, nil)
	return data
}

func hostiles(t testing.TB) []hostile {
	all := append(bothFormats(t), tarOnly(t)...)
	all = append(all, zipOnly(t)...)
	return append(all,
		hostile{"nothing", nil, skillpkg.CodeFormatUnknown},
		hostile{"plain text", []byte(skillText), skillpkg.CodeFormatUnknown},
		hostile{"plain tar", makeTar(t, file("SKILL.md", skillText)), skillpkg.CodeFormatUnknown},
		hostile{"packed too large", append([]byte{0x1f, 0x8b}, make([]byte, 512<<10)...), skillpkg.CodeCompressedTooLarge},
	)
}

func TestReadRefuses(t *testing.T) {
	all := hostiles(t)
	t.Logf("hostile archives: %d", len(all))
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			p, err := skillpkg.Read(t.Context(), bytes.NewReader(c.data), tight())
			if err == nil {
				t.Fatalf("accepted: %+v", p.Files)
			}
			refused, ok := errors.AsType[*skillpkg.Error](err)
			if !ok {
				t.Fatalf("got %v, want an *Error with code %s", err, c.code)
			}
			if refused.Code != c.code {
				t.Errorf("got %s (%v), want %s", refused.Code, err, c.code)
			}
			checkFault(t, refused)
		})
	}
}

// checkFault checks that an Error is fit for the service's answers.
func checkFault(t *testing.T, err *skillpkg.Error) {
	t.Helper()
	want := fault.Malformed
	switch err.Code {
	case skillpkg.CodeCompressedTooLarge, skillpkg.CodeUnpackedTooLarge, skillpkg.CodeFileTooLarge,
		skillpkg.CodeTooManyFiles, skillpkg.CodeRatioTooHigh:
		want = fault.TooLarge
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != want {
		t.Fatalf("got %v of kind %v, want kind %v", err, fault.Of(err), want)
	}
	if strings.ContainsAny(f.Message, "\x00\x1b\n") || len(f.Message) > 400 {
		t.Errorf("message not fit to be shown: %q", f.Message)
	}
	if err.Path != "" && !strings.HasPrefix(f.Message, err.Path+": ") {
		t.Errorf("message %q does not name %s", f.Message, err.Path)
	}
	if want == fault.TooLarge && !strings.ContainsAny(f.Message, "0123456789") {
		t.Errorf("message %q does not name the limit", f.Message)
	}
	if want == fault.Malformed && (len(f.Issues) != 1 || f.Issues[0].Path[0] != "archive" || f.Issues[0].Message != f.Message) {
		t.Errorf("got issues %+v, want one on archive", f.Issues)
	}
}

func TestReadLongHeader(t *testing.T) {
	records := pax("comment", strings.Repeat("x", 1<<20))
	data := rawTar(t, tarHeader("h", 'x', len(records)), padded(records), tarHeader("x", '0', 0))
	_, err := skillpkg.Read(t.Context(), bytes.NewReader(data), skillpkg.DefaultLimits())
	wantCode(t, err, skillpkg.CodeHeaderTooLong)
}

func wantCode(t *testing.T, err error, code skillpkg.Code) {
	t.Helper()
	refused, ok := errors.AsType[*skillpkg.Error](err)
	if !ok || refused.Code != code {
		t.Errorf("got %v, want an *Error with code %s", err, code)
	}
}

func TestReadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, data := range [][]byte{makeTarGz(t, file("SKILL.md", skillText)), makeZip(t, file("SKILL.md", skillText))} {
		if _, err := skillpkg.Read(ctx, bytes.NewReader(data), tight()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	}
}

type brokenDisk struct{ after int64 }

func (b brokenDisk) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.after {
		return 0, errors.New("disk on fire")
	}
	p[0], p[1] = 0x1f, 0x8b
	return 2, nil
}

func TestOpenSourceFails(t *testing.T) {
	for _, after := range []int64{0, 1} {
		_, err := skillpkg.Open(t.Context(), brokenDisk{after}, 100, tight())
		if _, ok := errors.AsType[*skillpkg.Error](err); ok || !strings.Contains(fmt.Sprint(err), "disk on fire") {
			t.Errorf("got %v, want the disk's error and no blame on the archive", err)
		}
	}
}
