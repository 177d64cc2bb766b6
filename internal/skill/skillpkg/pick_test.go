package skillpkg_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// takeAll picks all files of an archive, by digest.
func takeAll(t *testing.T, r io.Reader, limits skillpkg.Limits) (map[string]string, error) {
	found := map[string]string{}
	err := skillpkg.Pick(t.Context(), r, limits, func(int64) skillpkg.Choice { return skillpkg.Take },
		func(sum string, content []byte) {
			found[sum] = string(content)
		})
	return found, err
}

func TestPick(t *testing.T) {
	members := []member{
		file("skill/SKILL.md", skillText), file("skill/a", "aa"), folder("skill/d/"),
		file("skill/d/b", "bb"), file("skill/c", "ccc"),
	}
	for name, packed := range map[string][]byte{"tar": makeTarGz(t, members...), "zip": makeZip(t, members...)} {
		for _, r := range []io.Reader{bytes.NewReader(packed), io.MultiReader(bytes.NewReader(packed))} {
			var sizes []int64
			var got []string
			err := skillpkg.Pick(t.Context(), r, skillpkg.DefaultLimits(), func(size int64) skillpkg.Choice {
				sizes = append(sizes, size)
				switch size {
				case 2:
					return skillpkg.Take
				case 3:
					return skillpkg.Stop
				}
				return skillpkg.Skip
			}, func(_ string, content []byte) { got = append(got, string(content)) })
			if err != nil || !slices.Equal(got, []string{"aa", "bb"}) || !slices.Equal(sizes, []int64{int64(len(skillText)), 2, 2, 3}) {
				t.Errorf("%s: got %q of %v, %v", name, got, sizes, err)
			}
		}
	}
	tight := skillpkg.DefaultLimits()
	tight.File = 2
	if found, err := takeAll(t, bytes.NewReader(makeTarGz(t, members...)), tight); err != nil || len(found) != 2 {
		t.Errorf("with files of 2 bytes at most: %q, %v", found, err)
	}
	for _, broken := range [][]byte{nil, []byte("PK"), {0x1f, 0x8b, 8}, []byte("text that is no archive")} {
		if _, err := takeAll(t, bytes.NewReader(broken), skillpkg.DefaultLimits()); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}
