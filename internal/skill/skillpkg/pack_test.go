package skillpkg_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func options(format skillpkg.Format) skillpkg.PackOptions {
	return skillpkg.PackOptions{Format: format, Limits: skillpkg.DefaultLimits()}
}

// makeFolder writes files below a fresh folder, and links for those whose
// content begins with "-> ".
func makeFolder(t testing.TB, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, full)
		} else {
			err = os.WriteFile(full, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func pack(t testing.TB, fsys fs.FS, format skillpkg.Format) ([]byte, *skillpkg.Packed) {
	t.Helper()
	var out bytes.Buffer
	packed, err := skillpkg.Pack(t.Context(), fsys, &out, options(format))
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), packed
}

func repack(t testing.TB, p *skillpkg.Package, format skillpkg.Format) []byte {
	t.Helper()
	archive, err := p.Repack(t.Context(), format)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	all, err := io.ReadAll(archive.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPack(t *testing.T) {
	root := makeFolder(t, map[string]string{
		".DS_Store":          "x",
		".env":               "SECRET=1",
		".env.example":       "SECRET=",
		".git/config":        "x",
		".skillignore":       "# stays home\ndrafts/\n*.tmp\n!.env.example\n",
		"SKILL.md":           skillText,
		"__MACOSX/x":         "x",
		"__pycache__/x.pyc":  "x",
		"drafts/one.md":      "x",
		"node_modules/a/b":   "x",
		"notes.tmp":          "x",
		"résumé.md":          "x",
		"scripts/latest":     "-> run.sh",
		"scripts/run.sh":     "echo hi\n",
		"shared":             "-> scripts",
		"sub/.env.local":     "SECRET=1",
		"sub/node_modules/c": "x",
	})
	if err := root.Chmod("scripts/run.sh", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, format := range []skillpkg.Format{skillpkg.TarGz, skillpkg.Zip} {
		t.Run(string(format), func(t *testing.T) {
			data, packed := pack(t, root.FS(), format)
			leftOut := []string{
				".DS_Store", ".env", ".git/", "__MACOSX/", "__pycache__/", "drafts/", "node_modules/", "notes.tmp",
				"sub/.env.local", "sub/node_modules/",
			}
			if diff := cmp.Diff(leftOut, packed.LeftOut); diff != "" {
				t.Error(diff)
			}
			if packed.ContentHash != sum(string(data)) || packed.Size != int64(len(data)) {
				t.Errorf("got hash %s of %d bytes, want %s of %d", packed.ContentHash, packed.Size, sum(string(data)), len(data))
			}
			p := read(t, data)
			if diff := cmp.Diff(p.Files, packed.Files); diff != "" {
				t.Error(diff)
			}
			var paths []string
			for _, f := range p.Files {
				paths = append(paths, f.Path+" "+f.Mode.String())
			}
			want := []string{
				".env.example -rw-r--r--", ".skillignore -rw-r--r--", "SKILL.md -rw-r--r--", "résumé.md -rw-r--r--",
				"scripts/latest -rwxr-xr-x", "scripts/run.sh -rwxr-xr-x", "shared/latest -rwxr-xr-x", "shared/run.sh -rwxr-xr-x",
			}
			if diff := cmp.Diff(want, paths); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPackRefuses(t *testing.T) {
	deep := strings.Repeat("d/", 8) + "f"
	for _, c := range []struct {
		name  string
		files map[string]string
		code  skillpkg.Code
	}{
		{"link out", map[string]string{"l": "-> ../x"}, skillpkg.CodeSymlink},
		{"absolute link", map[string]string{"l": "-> /etc/passwd"}, skillpkg.CodeSymlink},
		{"link to what is left out", map[string]string{"l": "-> .env", ".env": "x"}, skillpkg.CodeSymlink},
		{"names that differ in case", map[string]string{"a": "", "A": ""}, skillpkg.CodePathCollision},
		{"reserved name", map[string]string{"aux.md": ""}, skillpkg.CodePathReserved},
		{"too deep", map[string]string{deep: ""}, skillpkg.CodePathTooDeep},
		{"large file", map[string]string{"f": noise(101 << 10)}, skillpkg.CodeFileTooLarge},
		{"all too large", map[string]string{"a": noise(99 << 10), "b": noise(99 << 10), "c": noise(99 << 10), "d": noise(99 << 10)}, skillpkg.CodeUnpackedTooLarge},
		{"bad pattern", map[string]string{".skillignore": "a[\n"}, skillpkg.CodeIgnoreFile},
		{"empty pattern", map[string]string{".skillignore": "!\n"}, skillpkg.CodeIgnoreFile},
		{"endless ignore file", map[string]string{".skillignore": strings.Repeat("a\n", 40<<10)}, skillpkg.CodeIgnoreFile},
		{"many patterns", map[string]string{".skillignore": strings.Repeat("a\n", 1001)}, skillpkg.CodeIgnoreFile},
		{"endless line", map[string]string{".skillignore": strings.Repeat("a", 80<<10)}, skillpkg.CodeIgnoreFile},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := makeFolder(t, c.files)
			_, err := skillpkg.Pack(t.Context(), root.FS(), io.Discard, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: tight()})
			wantCode(t, err, c.code)
		})
	}
	t.Run("packed too large", func(t *testing.T) {
		limits := tight()
		limits.Packed = 1000
		fsys := fstest.MapFS{"f": {Data: []byte(noise(2000))}}
		_, err := skillpkg.Pack(t.Context(), fsys, io.Discard, skillpkg.PackOptions{Format: skillpkg.Zip, Limits: limits})
		wantCode(t, err, skillpkg.CodeCompressedTooLarge)
	})
	t.Run("ratio", func(t *testing.T) {
		fsys := fstest.MapFS{"f": {Data: make([]byte, 2<<20)}}
		_, err := skillpkg.Pack(t.Context(), fsys, io.Discard, options(skillpkg.TarGz))
		wantCode(t, err, skillpkg.CodeRatioTooHigh)
	})
	t.Run("too many files", func(t *testing.T) {
		fsys := fstest.MapFS{}
		for i := range 21 {
			fsys[fmt.Sprint(i)] = &fstest.MapFile{}
		}
		_, err := skillpkg.Pack(t.Context(), fsys, io.Discard, skillpkg.PackOptions{Format: skillpkg.Zip, Limits: tight()})
		wantCode(t, err, skillpkg.CodeTooManyFiles)
	})
	t.Run("device", func(t *testing.T) {
		fsys := fstest.MapFS{"pipe": {Mode: fs.ModeNamedPipe}}
		_, err := skillpkg.Pack(t.Context(), fsys, io.Discard, options(skillpkg.Zip))
		wantCode(t, err, skillpkg.CodeDevice)
	})
}

// changing is a folder whose file has another length than it says.
type changing struct {
	fstest.MapFS
	content string
}

func (c changing) Open(name string) (fs.File, error) {
	f, err := c.MapFS.Open(name)
	if name == "f" {
		return changedFile{f, strings.NewReader(c.content)}, err
	}
	return f, err
}

type changedFile struct {
	fs.File
	content io.Reader
}

func (c changedFile) Read(p []byte) (int, error) { return iotest.OneByteReader(c.content).Read(p) }

func TestPackChangingFile(t *testing.T) {
	for _, content := range []string{"shrink", "a file that grew"} {
		for _, format := range []skillpkg.Format{skillpkg.TarGz, skillpkg.Zip} {
			fsys := changing{fstest.MapFS{"f": {Data: []byte("original")}}, content}
			_, err := skillpkg.Pack(t.Context(), fsys, io.Discard, options(format))
			wantCode(t, err, skillpkg.CodeChanged)
		}
	}
}

// The bytes depend on nothing but the files: not on times or owners, nor on
// the pieces in which the files are read.
func TestPackIsReproducible(t *testing.T) {
	content := strings.Repeat("some text that compresses well, ", 8<<10)[:200_001] + noise(50_000)
	for _, format := range []skillpkg.Format{skillpkg.TarGz, skillpkg.Zip} {
		first, _ := pack(t, fstest.MapFS{"f": {Data: []byte(content)}, "SKILL.md": {Data: []byte(skillText)}}, format)
		later, _ := pack(t, fstest.MapFS{
			"SKILL.md": {Data: []byte(skillText), ModTime: time.Unix(1e9, 0)},
			"f":        {Data: []byte(content)},
		}, format)
		pieces, _ := pack(t,
			changing{fstest.MapFS{"SKILL.md": {Data: []byte(skillText)}, "f": {Data: []byte(content)}}, content}, format)
		if !bytes.Equal(first, later) || !bytes.Equal(first, pieces) {
			t.Errorf("%s: the same files gave different bytes", format)
		}
	}
}

func TestRepackIsStable(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-zA-Z0-9_.-]{0,8}[a-z]`)
	rapid.Check(t, func(r *rapid.T) {
		fsys := fstest.MapFS{"SKILL.md": {Data: []byte(skillText)}}
		for i := range rapid.IntRange(0, 8).Draw(r, "files") {
			// The numbers keep names apart that differ in case only.
			path := fmt.Sprintf("%d%s", i, name.Draw(r, "name"))
			if rapid.Bool().Draw(r, "nested") {
				path += "/" + name.Draw(r, "inner")
			}
			mode := rapid.SampledFrom([]fs.FileMode{0o600, 0o755}).Draw(r, "mode")
			fsys["x"+path] = &fstest.MapFile{Mode: mode, Data: rapid.SliceOf(rapid.Byte()).Draw(r, "content")}
		}
		tarGz, _ := pack(t, fsys, skillpkg.TarGz)
		zipped, _ := pack(t, fsys, skillpkg.Zip)
		fromTar, fromZip := read(t, tarGz), read(t, zipped)
		if fromTar.TreeDigest() != fromZip.TreeDigest() {
			r.Fatal("tar and zip of one folder hold different trees")
		}
		if rapid.Bool().Draw(r, "crossed") {
			fromTar, fromZip = fromZip, fromTar
		}
		if !isCanonical(t, read(t, tarGz)) {
			r.Fatal("what was packed is not canonical")
		}
		if !bytes.Equal(repack(t, fromTar, skillpkg.TarGz), tarGz) || !bytes.Equal(repack(t, fromZip, skillpkg.Zip), zipped) {
			r.Fatal("a package repacked differs from the folder packed")
		}
	})
}

func isCanonical(t testing.TB, p *skillpkg.Package) bool {
	t.Helper()
	is, err := p.Canonical(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestCanonical(t *testing.T) {
	packed, _ := pack(t, fstest.MapFS{"SKILL.md": {Data: []byte(skillText)}, "a.md": {Data: []byte("a")}}, skillpkg.TarGz)
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	named := func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Name = "skill.tar"
		_, _ = w.Write(plain)
		_ = w.Close()
		return b.Bytes()
	}
	zipped, _ := pack(t, fstest.MapFS{"SKILL.md": {Data: []byte(skillText)}}, skillpkg.Zip)
	for _, test := range []struct {
		name    string
		archive []byte
		want    bool
	}{
		{"packed", packed, true},
		{"compressed otherwise", compress(t, plain), true},
		{"named by gzip", named(), false},
		{"other owner and time", makeTarGz(t, file("SKILL.md", skillText)), false},
		{"wrapped", makeTarGz(t, file("w/SKILL.md", skillText)), false},
		{"longer end", compress(t, append(bytes.Clone(plain), make([]byte, 512)...)), false},
		{"zip", zipped, false},
	} {
		if got := isCanonical(t, read(t, test.archive)); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}

func TestRepack(t *testing.T) {
	members := []member{
		folder("./w/"),
		file("./w/z.md", "z"),
		{name: "./w/run.sh", body: "x", mode: 0o755, typ: '0'},
		symlink("./w/a.md", "z.md"),
		file("./w/SKILL.md", skillText),
	}
	eachFormat(t, members, func(t *testing.T, p *skillpkg.Package) {
		for _, format := range []skillpkg.Format{skillpkg.TarGz, skillpkg.Zip} {
			again := read(t, repack(t, p, format))
			if again.TreeDigest() != p.TreeDigest() {
				t.Errorf("%s: the tree changed", format)
			}
			if diff := cmp.Diff(p.Installed(), again.Files); diff != "" {
				t.Error(diff)
			}
		}
		checkTar(t, repack(t, p, skillpkg.TarGz))
		checkZip(t, repack(t, p, skillpkg.Zip))
	})
}

// checkTar checks what picky installers look at.
func checkTar(t *testing.T, data []byte) {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if gz.Name != "" || gz.Comment != "" || gz.ModTime.Unix() != 0 {
		t.Errorf("the gzip header tells %+v", gz.Header)
	}
	r := tar.NewReader(gz)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Format != tar.FormatUSTAR || h.Typeflag != tar.TypeReg || h.Uid != 0 || h.Uname != "" || h.ModTime.UTC().Year() != 1980 {
			t.Errorf("got header %+v", h)
		}
	}
}

func checkZip(t *testing.T, data []byte) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		if f.Method != zip.Deflate || f.Modified.UTC().Format(time.DateTime) != "1980-01-01 00:00:00" || f.ReaderVersion > 20 {
			t.Errorf("got header %+v", f.FileHeader)
		}
	}
}

func TestRepackLongNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", 101), "résumé.md"} {
		p := read(t, makeZip(t, file("SKILL.md", skillText), file(name, "x")))
		_, err := p.Repack(t.Context(), skillpkg.TarGz)
		wantCode(t, err, skillpkg.CodeNotPortable)
		if again := read(t, repack(t, p, skillpkg.Zip)); again.TreeDigest() != p.TreeDigest() {
			t.Errorf("the zip with %q holds another tree", name)
		}
	}
	split := strings.Repeat("a", 99) + "/" + strings.Repeat("b", 99)
	p := read(t, makeZip(t, file("SKILL.md", skillText), file(split, "x")))
	checkTar(t, repack(t, p, skillpkg.TarGz))
}

// TestWithSkill changes one file, and leaves the others as they are.
func TestWithSkill(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	files := map[string]string{"SKILL.md": "---\nname: a\ndescription: b\n---\nold\n", "scripts/run.sh": "#!/bin/sh\n"}
	if _, err := skillpkg.Pack(t.Context(), makeFolder(t, files).FS(), &b, options(skillpkg.TarGz)); err != nil {
		t.Fatal(err)
	}
	before, err := skillpkg.Read(t.Context(), &b, skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	after, err := before.WithSkill(t.Context(), "---\nname: a\ndescription: c\n---\nnew, and longer\n")
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	skill, err := after.Skill()
	if err != nil || skill.Description != "c" || skill.Body != "new, and longer\n" {
		t.Errorf("got %+v, %v", skill, err)
	}
	script, err := after.ReadFile("scripts/run.sh")
	if err != nil || string(script) != files["scripts/run.sh"] || len(after.Installed()) != 2 {
		t.Errorf("got %q of %v, %v", script, after.Installed(), err)
	}
}

// TestMemory: a large archive is in a temporary file whatever is done with it, since many
// requests and jobs do it at the same time.
func TestMemory(t *testing.T) {
	const size = 9 << 20
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	archive := makeTarGz(t, file("SKILL.md", skillText), file("large.bin", string(content)))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	changed, err := read(t, archive).WithSkill(t.Context(), skillText+"\nMore.\n")
	if err != nil {
		t.Fatal(err)
	}
	defer changed.Close()
	packed, err := changed.Repack(t.Context(), skillpkg.TarGz)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	runtime.ReadMemStats(&after)
	// The least that three archives in memory would take is thrice the size.
	if used := after.TotalAlloc - before.TotalAlloc; packed.Size() < size || used > 2*size {
		t.Errorf("an archive of %d bytes took %d bytes of memory", packed.Size(), used)
	}
}
