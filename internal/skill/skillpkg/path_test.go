package skillpkg_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// TestInvisibleNames says which character of a name is refused, and still reads
// archives that were stored before it was.
func TestInvisibleNames(t *testing.T) {
	for _, r := range []rune{
		0x00AD, 0x061C, 0x200B, 0x200D, 0x200F, 0x202E, 0x2060, 0x2066, 0xFEFF, 0xE0041, // format characters
		0x00A0, 0x1680, 0x2003, 0x202F, 0x3000, // spaces
		0x2028, 0x2029, // separators
		0x034F, 0x115F, 0x3164, 0xFFA0, // letters and marks that are never seen
	} {
		name := "a" + string(r) + "b.md"
		for form, packed := range map[string][]byte{
			"tar": makeTarGz(t, file("SKILL.md", skillText), file(name, "x")), "zip": makeZip(t, file("SKILL.md", skillText), file(name, "x")),
		} {
			_, err := skillpkg.Open(t.Context(), bytes.NewReader(packed), int64(len(packed)), skillpkg.DefaultLimits())
			if want := fmt.Sprintf("%U", r); err == nil || !strings.Contains(err.Error(), want) || !unicode.IsPrint(r) &&
				strings.ContainsRune(err.Error(), r) {
				t.Errorf("%s: %v, want %s named", form, err, want)
			}
			p, err := skillpkg.Open(t.Context(), bytes.NewReader(packed), int64(len(packed)), skillpkg.StoredLimits())
			if err != nil {
				t.Errorf("%s, stored: %v", form, err)
				continue
			}
			if got, err := p.ReadFile(name); err != nil || string(got) != "x" {
				t.Errorf("%s, stored: %q, %v", form, got, err)
			}
			_ = p.Close()
		}
	}
	plain := makeTarGz(t, file("SKILL.md", skillText), file("größe 2 – 日本語 (é) ❤\uFE0F.md", "x"))
	p, err := skillpkg.Open(t.Context(), bytes.NewReader(plain), int64(len(plain)), skillpkg.DefaultLimits())
	if err != nil {
		t.Fatalf("visible characters are refused: %v", err)
	}
	_ = p.Close()
}
