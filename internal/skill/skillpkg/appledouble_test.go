package skillpkg_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// attributes is an AppleDouble file, as a Mac's tar adds it.
const attributes = "\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02"

func TestOmitAppleDouble(t *testing.T) {
	members := []member{
		file("./._.", attributes), folder("./"),
		file("./._SKILL.md", attributes), file("./SKILL.md", skillText),
		file("./._docs", attributes), folder("./docs/"), file("./docs/._a.md", attributes), file("./docs/a.md", "a"),
		file("./._kept", "k"), symlink("./via", "docs"), symlink("./attributes", "docs/._a.md"),
	}
	p := read(t, makeTarGz(t, members...))
	named := []skillpkg.ManifestEntry{{Path: "SKILL.md"}, {Path: "._kept"}, {Path: "docs/a.md"}}
	p.OmitAppleDouble(named)
	want := []skillpkg.ManifestEntry{
		{Path: "._kept", Hash: sum("k"), Size: 1},
		{Path: "SKILL.md", Hash: sum(skillText), Size: int64(len(skillText))},
		{Path: "attributes", Hash: sum(attributes), Size: int64(len(attributes))},
		{Path: "docs/a.md", Hash: sum("a"), Size: 1},
		{Path: "via/a.md", Hash: sum("a"), Size: 1},
	}
	if diff := cmp.Diff(want, p.Manifest()); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	var files []string
	for _, f := range p.Files {
		files = append(files, f.Path)
	}
	if diff := cmp.Diff([]string{"._kept", "SKILL.md", "attributes", "docs/a.md", "via"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if want := int64(len(skillText)) + 2; p.UnpackedSize != want {
		t.Errorf("unpacked size %d, want %d", p.UnpackedSize, want)
	}
	if canonical, err := p.Canonical(t.Context()); canonical || err != nil {
		t.Errorf("canonical %t, %v: it has members that were omitted", canonical, err)
	}
	if got := read(t, repack(t, p, skillpkg.TarGz)); got.TreeDigest() != p.TreeDigest() {
		t.Error("the canonical archive has other files")
	}
}

// TestAppleDoubleOfRoot packs the folder itself, wherever its attributes are in
// the archive.
func TestAppleDoubleOfRoot(t *testing.T) {
	for name, members := range map[string][]member{
		"first":  {file("./._.", attributes), file("./SKILL.md", skillText)},
		"last":   {file("SKILL.md", skillText), file("._.", strings.Repeat(attributes, 100))},
		"twice":  {file("._.", ""), file("SKILL.md", skillText), file("./._.", attributes)},
		"folder": {file("./._.", attributes), file("./._demo", attributes), folder("./demo/"), file("./demo/SKILL.md", skillText)},
	} {
		if p := read(t, makeTarGz(t, members...)); len(p.Files) != 1 || p.SkillPath != "SKILL.md" {
			t.Errorf("%s: files %v", name, p.Files)
		}
	}
}

// TestHostileAppleDouble: what is omitted counts for the limits all the same.
func TestHostileAppleDouble(t *testing.T) {
	var files, roots []member
	for i := range 3_000 {
		files, roots = append(files, file(fmt.Sprintf("._%d", i), "")), append(roots, file("._.", ""))
	}
	skill := file("SKILL.md", skillText)
	for _, c := range []struct {
		name    string
		members []member
		code    skillpkg.Code
	}{
		{"thousands", append(files, skill), skillpkg.CodeTooManyFiles},
		{"thousands of the root", append(roots, skill), skillpkg.CodeTooManyFiles},
		{"bomb", []member{skill, file("._.", strings.Repeat("\x00", 9<<20))}, skillpkg.CodeRatioTooHigh},
		{"large", []member{skill, file("./._.", noise(1<<20)+strings.Repeat("\x00", 10<<20))}, skillpkg.CodeFileTooLarge},
		{"setuid", []member{skill, {name: "._x", typ: '0', mode: 0o4755}}, skillpkg.CodeSpecialMode},
		{"out", []member{skill, file("../._x", "")}, skillpkg.CodePathTraversal},
		{"below a folder", []member{skill, file("d/._.", "")}, skillpkg.CodePathReserved},
	} {
		t.Run(c.name, func(t *testing.T) {
			archive := bytes.NewReader(makeTarGz(t, c.members...))
			_, err := skillpkg.Read(t.Context(), archive, skillpkg.DefaultLimits())
			wantCode(t, err, c.code)
		})
	}
}
