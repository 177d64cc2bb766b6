package skillpkg_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func part(path, content string) skillpkg.Part {
	return skillpkg.Part{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// canonical is the bytes by which a package is known.
func canonical(t *testing.T, p *skillpkg.Package, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	return string(repack(t, p, skillpkg.TarGz))
}

// TestFromParts checks that the same files are the same package in whatever
// way and order they came.
func TestFromParts(t *testing.T) {
	script := member{name: "x/scripts/run.sh", body: "#!/bin/sh\n", typ: '0', mode: 0o755}
	archive, err := skillpkg.Read(t.Context(), bytes.NewReader(makeTarGz(t, file("x/SKILL.md", skillText), script)), tight())
	want := canonical(t, archive, err)
	skill, run := part("SKILL.md", skillText), part("scripts/run.sh", "#!/bin/sh\n")
	wrapped := []skillpkg.Part{part("x/scripts/run.sh", "#!/bin/sh\n"), part("x/SKILL.md", skillText)}
	for name, parts := range map[string][]skillpkg.Part{
		"in order": {skill, run}, "turned round": {run, skill},
		"in a folder": wrapped,
	} {
		p, err := skillpkg.FromParts(t.Context(), parts, tight())
		if canonical(t, p, err) != want {
			t.Errorf("%s: other bytes than those of the archive", name)
		}
	}
	p, err := skillpkg.FromParts(t.Context(), []skillpkg.Part{skill, run}, tight())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := p.Skill(); err != nil || got.Name != "demo" {
		t.Errorf("skill %q, %v", got.Name, err)
	}
	want64 := []int64{int64(len(skillText)) + 10, int64(len(skillText)) + 10}
	if diff := cmp.Diff(want64, []int64{p.PackedSize, p.UnpackedSize}); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestFromPartsRefuses(t *testing.T) {
	var many []skillpkg.Part
	for _, c := range strings.Split(strings.Repeat("x", 21), "") {
		many = append(many, part(c+strings.Repeat("y", len(many)), ""))
	}
	for _, c := range []struct {
		name  string
		parts []skillpkg.Part
		code  skillpkg.Code
	}{
		{"too many", many, skillpkg.CodeTooManyFiles},
		{"file too large", []skillpkg.Part{part("big", noise(101<<10))}, skillpkg.CodeFileTooLarge},
		{"all too large", []skillpkg.Part{part("a", noise(90<<10)), part("b", noise(90<<10)), part("c", noise(90<<10)), part("d", noise(90<<10))}, skillpkg.CodeUnpackedTooLarge},
		{"body too large", []skillpkg.Part{part("a", noise(513<<10))}, skillpkg.CodeCompressedTooLarge},
		{"parent", []skillpkg.Part{part("../x", "")}, skillpkg.CodePathTraversal},
		{"absolute", []skillpkg.Part{part("/x", "")}, skillpkg.CodePathTraversal},
		{"folder", []skillpkg.Part{part("x/", "")}, skillpkg.CodePathEmpty},
		{"no name", []skillpkg.Part{part("", "")}, skillpkg.CodePathEmpty},
		{"twice", []skillpkg.Part{part("a", ""), part("./a", "")}, skillpkg.CodePathDuplicate},
		{"collision", []skillpkg.Part{part("a", ""), part("A", "")}, skillpkg.CodePathCollision},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := skillpkg.FromParts(t.Context(), c.parts, tight())
			wantCode(t, err, c.code)
		})
	}
}

// TestFromPartsSourceFails does not blame the sender for a disk of ours.
func TestFromPartsSourceFails(t *testing.T) {
	fire := errors.New("disk on fire")
	for name, open := range map[string]func() (io.ReadCloser, error){
		"open": func() (io.ReadCloser, error) { return nil, fire },
		"read": func() (io.ReadCloser, error) { return io.NopCloser(&failing{fire}), nil },
	} {
		_, err := skillpkg.FromParts(t.Context(), []skillpkg.Part{{Path: "a", Open: open}}, tight())
		if _, blamed := errors.AsType[*skillpkg.Error](err); blamed || !errors.Is(err, fire) {
			t.Errorf("%s: got %v, want the disk's error", name, err)
		}
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
