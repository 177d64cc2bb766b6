package skillpkg

import (
	"path"
	"slices"
	"strings"
)

// macOS keeps the extended attributes of a file in a second one, in the format
// AppleDouble, whose name begins with "._". Its tar adds one for nearly every
// file and folder, without its user seeing any of them.
const appleDouble = "._"

// rootAppleDouble is the name of the one for the packed folder itself, as in
// "tar -czf skill.tar.gz .". It ends in a dot, so no file may have it.
const rootAppleDouble = appleDouble + "."

// OmitAppleDouble removes the AppleDouble files that a manifest leaves out: its
// author did not see them, and nothing reads them. One that the manifest names
// is a file like any other. The archive itself still has them.
func (p *Package) OmitAppleDouble(manifest []ManifestEntry) {
	listed := map[string]bool{}
	for _, e := range manifest {
		listed[e.Path] = true
	}
	omitted := func(f File) bool {
		return strings.HasPrefix(path.Base(f.Path), appleDouble) && !listed[f.Path]
	}
	for _, f := range p.Files {
		if omitted(f) {
			p.UnpackedSize -= f.Size
		}
	}
	p.Files = slices.DeleteFunc(p.Files, omitted)
	p.installed = slices.DeleteFunc(p.installed, omitted)
}
