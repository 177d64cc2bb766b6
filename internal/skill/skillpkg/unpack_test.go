package skillpkg_test

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func TestUnpack(t *testing.T) {
	members := []member{
		file("w/SKILL.md", skillText),
		{name: "w/scripts/run.sh", body: "x", mode: 0o700, typ: '0'},
		symlink("w/scripts/latest", "run.sh"),
		symlink("w/shared", "scripts"),
	}
	eachFormat(t, members, func(t *testing.T, p *skillpkg.Package) {
		root := makeFolder(t, nil)
		if err := skillpkg.Unpack(t.Context(), p, root); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			info, _ := d.Info()
			if !d.IsDir() {
				got = append(got, path+" "+info.Mode().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"SKILL.md -rw-r--r--", "scripts/latest -rwxr-xr-x", "scripts/run.sh -rwxr-xr-x",
			"shared/latest -rwxr-xr-x", "shared/run.sh -rwxr-xr-x",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := skillpkg.Unpack(t.Context(), p, root); !fault.Is(err, fault.Conflict) {
			t.Errorf("got %v the second time, want Conflict", err)
		}
		if data, _ := pack(t, root.FS(), skillpkg.TarGz); !bytes.Equal(data, repack(t, p, skillpkg.TarGz)) {
			t.Error("the folder packed differs from the package repacked")
		}
	})
}

// A link that waits in the folder must not lead the files elsewhere.
func TestUnpackThroughLink(t *testing.T) {
	outside := t.TempDir()
	root := makeFolder(t, map[string]string{"scripts": "-> " + outside})
	p := read(t, makeZip(t, file("scripts/x", "x")))
	if err := skillpkg.Unpack(t.Context(), p, root); err == nil {
		t.Error("unpacked through a link")
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("wrote %v outside of the folder", entries)
	}
}
