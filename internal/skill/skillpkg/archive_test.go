package skillpkg_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// read opens a good archive for the length of the test.
func read(t testing.TB, data []byte) *skillpkg.Package {
	t.Helper()
	p, err := skillpkg.Read(t.Context(), bytes.NewReader(data), skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// eachFormat runs a test on the members packed both ways.
func eachFormat(t *testing.T, members []member, test func(*testing.T, *skillpkg.Package)) {
	t.Helper()
	t.Run("tar", func(t *testing.T) { test(t, read(t, makeTarGz(t, members...))) })
	t.Run("zip", func(t *testing.T) { test(t, read(t, makeZip(t, members...))) })
}

func TestRead(t *testing.T) {
	members := []member{
		folder("./"),
		folder("./scripts/"),
		{name: "./scripts/run.sh", body: "echo hi\n", mode: 0o700, typ: '0'},
		file("./SKILL.md", skillText),
		file("./empty", ""),
		symlink("./scripts/latest", "run.sh"),
	}
	eachFormat(t, members, func(t *testing.T, p *skillpkg.Package) {
		want := []skillpkg.File{
			{Path: "SKILL.md", Size: int64(len(skillText)), SHA256: sum(skillText), Mode: 0o644, Kind: skillpkg.Regular},
			{Path: "empty", SHA256: sum(""), Mode: 0o644, Kind: skillpkg.Regular},
			{Path: "scripts/latest", Mode: 0o644, Kind: skillpkg.Link, Target: "run.sh"},
			{Path: "scripts/run.sh", Size: 8, SHA256: sum("echo hi\n"), Mode: 0o755, Kind: skillpkg.Regular},
		}
		if diff := cmp.Diff(want, p.Files); diff != "" {
			t.Error(diff)
		}
		manifest := []skillpkg.ManifestEntry{
			{Path: "SKILL.md", Hash: sum(skillText), Size: int64(len(skillText))},
			{Path: "empty", Hash: sum("")},
			{Path: "scripts/latest", Hash: sum("echo hi\n"), Size: 8},
			{Path: "scripts/run.sh", Hash: sum("echo hi\n"), Size: 8},
		}
		if diff := cmp.Diff(manifest, p.Manifest()); diff != "" {
			t.Error(diff)
		}
		if p.SkillPath != "SKILL.md" || p.Folder != "" || p.UnpackedSize != int64(len(skillText))+8 || p.PackedSize == 0 {
			t.Errorf("got skill %q in %q, %d bytes from %d", p.SkillPath, p.Folder, p.UnpackedSize, p.PackedSize)
		}
		skill, err := p.Skill()
		if err != nil || skill.Name != "demo" {
			t.Errorf("got skill %q, %v", skill.Name, err)
		}
	})
}

func TestReadMultiMemberGzip(t *testing.T) {
	raw := makeTar(t, file("SKILL.md", skillText), file("a", "x"))
	p := read(t, append(compress(t, raw[:700]), compress(t, raw[700:])...))
	if len(p.Files) != 2 {
		t.Errorf("got %d files, want 2", len(p.Files))
	}
}

func TestReadGitArchive(t *testing.T) {
	comment := pax("comment", strings.Repeat("a", 40))
	data := rawTar(t, tarHeader("pax_global_header", 'g', len(comment)), padded(comment),
		tarHeader("demo/", '5', 0), tarHeader("demo/SKILL.md", '0', len(skillText)), padded(skillText))
	if p := read(t, data); p.Folder != "demo" || p.SkillPath != "SKILL.md" {
		t.Errorf("got skill %q in %q", p.SkillPath, p.Folder)
	}
}

func TestReadHardLink(t *testing.T) {
	p := read(t, makeTarGz(t, file("./SKILL.md", skillText), hardLink("./copy.md", "SKILL.md"), hardLink("third.md", "./copy.md")))
	for _, f := range p.Files {
		if f.Kind != skillpkg.Regular || f.SHA256 != sum(skillText) {
			t.Errorf("got %+v, want a copy of SKILL.md", f)
		}
	}
	if len(p.Files) != 3 || p.UnpackedSize != 3*int64(len(skillText)) {
		t.Errorf("got %d files of %d bytes", len(p.Files), p.UnpackedSize)
	}
}

func TestLayout(t *testing.T) {
	skill := func(at string) member { return file(at, skillText) }
	for _, c := range []struct {
		name    string
		members []member
		folder  string
		skill   string
		paths   []string
		code    skillpkg.Code
	}{
		{"root", []member{skill("SKILL.md"), file("a/b", "")}, "", "SKILL.md", []string{"SKILL.md", "a/b"}, ""},
		{"dots", []member{skill("././SKILL.md")}, "", "SKILL.md", []string{"SKILL.md"}, ""},
		{"wrapper", []member{skill("w/SKILL.md"), file("w/a/b", "")}, "w", "SKILL.md", []string{"SKILL.md", "a/b"}, ""},
		{"wrapper after dot", []member{folder("./"), folder("./w/"), skill("./w/SKILL.md")}, "w", "SKILL.md", []string{"SKILL.md"}, ""},
		{"lower case", []member{skill("skill.md")}, "", "skill.md", []string{"skill.md"}, ""},
		{"wrapper and lower case", []member{skill("w/skill.md")}, "w", "skill.md", []string{"skill.md"}, ""},
		{"nested skill is content", []member{skill("SKILL.md"), skill("templates/SKILL.md")}, "", "SKILL.md", []string{"SKILL.md", "templates/SKILL.md"}, ""},
		{
			"junk beside the wrapper",
			[]member{
				file("__MACOSX/w/SKILL.md", "x"), file(".DS_Store", "x"), file(".git/SKILL.md", "x"),
				file("node_modules/SKILL.md", "x"), file("__pycache__/SKILL.md", "x"), file("._w", "x"), skill("w/SKILL.md"),
			},
			"w", "SKILL.md",
			[]string{"SKILL.md"},
			"",
		},
		{"junk inside is content", []member{skill("SKILL.md"), file(".DS_Store", "x")}, "", "SKILL.md", []string{".DS_Store", "SKILL.md"}, ""},
		{"two folders", []member{skill("a/SKILL.md"), skill("b/SKILL.md")}, "", "", []string{"a/SKILL.md", "b/SKILL.md"}, skillpkg.CodeSkillAmbiguous},
		{"files beside the folder", []member{skill("a/SKILL.md"), file("LICENSE", "x")}, "", "", []string{"LICENSE", "a/SKILL.md"}, skillpkg.CodeSkillMissing},
		{"two levels", []member{skill("a/b/SKILL.md")}, "", "", []string{"a/b/SKILL.md"}, skillpkg.CodeSkillMissing},
		{"other spelling", []member{skill("Skill.md")}, "", "", []string{"Skill.md"}, skillpkg.CodeSkillMissing},
		{"link", []member{skill("x.md"), symlink("SKILL.md", "x.md")}, "", "", []string{"SKILL.md", "x.md"}, skillpkg.CodeSkillMissing},
		{"folder", []member{file("SKILL.md/x", "x")}, "", "", []string{"SKILL.md/x"}, skillpkg.CodeSkillMissing},
		{"no files", nil, "", "", nil, skillpkg.CodeSkillMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachFormat(t, c.members, func(t *testing.T, p *skillpkg.Package) {
				var paths []string
				for _, f := range p.Files {
					paths = append(paths, f.Path)
				}
				if diff := cmp.Diff(c.paths, paths); diff != "" {
					t.Error(diff)
				}
				if p.Folder != c.folder || p.SkillPath != c.skill {
					t.Errorf("got skill %q in %q, want %q in %q", p.SkillPath, p.Folder, c.skill, c.folder)
				}
				err := p.RequireSkill()
				if c.code != "" {
					wantCode(t, err, c.code)
					_, err = p.Skill()
					wantCode(t, err, c.code)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestLinks(t *testing.T) {
	members := []member{
		file("SKILL.md", skillText),
		file("docs/deep/a.md", "a"),
		symlink("docs/b.md", "./deep//a.md"),
		symlink("c.md", "docs/b.md"),
		symlink("shared", "docs/"),
		symlink("up", "shared/deep/../../SKILL.md"),
	}
	eachFormat(t, members, func(t *testing.T, p *skillpkg.Package) {
		got := map[string]string{}
		for _, f := range p.Installed() {
			content, err := p.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind != skillpkg.Regular || f.SHA256 != sum(string(content)) {
				t.Errorf("got %+v, want a regular file with its digest", f)
			}
			got[f.Path] = string(content)
		}
		want := map[string]string{
			"SKILL.md": skillText, "c.md": "a", "docs/b.md": "a", "docs/deep/a.md": "a",
			"shared/b.md": "a", "shared/deep/a.md": "a", "up": skillText,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWalk(t *testing.T) {
	members := []member{file("b", "2"), file("SKILL.md", skillText), symlink("l", "b"), file("a", "1")}
	eachFormat(t, members, func(t *testing.T, p *skillpkg.Package) {
		var got []string
		err := p.Walk(t.Context(), func(f skillpkg.File, r io.Reader) error {
			content, err := io.ReadAll(r)
			got = append(got, f.Path+"="+string(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"SKILL.md=" + skillText, "a=1", "b=2"}, got); diff != "" {
			t.Error(diff)
		}
		stop := errors.New("enough")
		if err := p.Walk(t.Context(), func(skillpkg.File, io.Reader) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("got %v, want the caller's error", err)
		}
	})
}

func TestReadFileMissing(t *testing.T) {
	p := read(t, makeZip(t, file("SKILL.md", skillText)))
	if _, err := p.ReadFile("../SKILL.md"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestLargePackageIsSpooled(t *testing.T) {
	content := noise(3 << 20)
	p := read(t, makeTarGz(t, file("a", content), file("SKILL.md", skillText), file("b", content[:1<<20])))
	for path, want := range map[string]string{"a": content, "SKILL.md": skillText, "b": content[:1<<20]} {
		if got, err := p.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: got %d bytes, %v; want %d bytes", path, len(got), err, len(want))
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.ReadFile("a"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v after Close, want os.ErrClosed", err)
	}
}

func TestRatioSparesSmallArchives(t *testing.T) {
	read(t, makeZip(t, file("SKILL.md", skillText), file("zeros", strings.Repeat("\x00", 900<<10))))
}

// bombs are 54 MiB of zeros in both forms, put together from one packed piece.
func bombs(t *testing.T) map[string][]byte {
	const size = 9 << 20
	zeros := make([]byte, size)
	packed := compress(t, zeros)
	var tarGz []byte
	var entries []rawEntry
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		tarGz = append(append(tarGz, compress(t, tarHeader(name, '0', size))...), packed...)
		// A gzip member is a header of 10 bytes, deflate, and 8 bytes of checks.
		entries = append(entries, rawEntry{
			name: name, body: string(packed[10 : len(packed)-8]), method: zip.Deflate,
			size: size, crc: crc32.ChecksumIEEE(zeros),
		})
	}
	return map[string][]byte{"tar": append(tarGz, compress(t, make([]byte, 1024))...), "zip": rawZip(entries, nil)}
}

// A bomb must be refused before it has cost what it would unpack to.
func TestBombIsRefusedEarly(t *testing.T) {
	for name, data := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			if len(data) > 100<<10 {
				t.Fatalf("the bomb has %d bytes", len(data))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := skillpkg.Open(t.Context(), bytes.NewReader(data), int64(len(data)), skillpkg.DefaultLimits())
			runtime.ReadMemStats(&after)
			wantCode(t, err, skillpkg.CodeRatioTooHigh)
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 8<<20 {
				t.Errorf("allocated %d bytes to refuse %d", cost, len(data))
			}
		})
	}
}

func TestHashes(t *testing.T) {
	members := []member{
		file("scripts/x.sh", "echo hi\n"),
		file("SKILL.md", "---\nname: a\n---\n"),
		file(".hidden", "x"),
	}
	seen := map[string]bool{}
	eachFormat(t, members[:2], func(t *testing.T, p *skillpkg.Package) {
		seen[p.TreeDigest()] = true
	})
	eachFormat(t, append(slices.Clone(members), file("node_modules/x", "x"), file(".git/x", "x")),
		func(t *testing.T, p *skillpkg.Package) {
			if seen[p.TreeDigest()] {
				t.Error("the tree digest does not see hidden files")
			}
		})
	if len(seen) != 1 {
		t.Errorf("the tree digest depends on the form: %v", seen)
	}
}
