// Package folder has the commands on the skill in a folder that need no login, and
// packs it for the others.
package folder

import (
	"bytes"
	"context"
	"os"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Packed is a folder's archive, and the package that the server will
// read from it.
type Packed struct {
	*skillpkg.Packed
	Archive []byte
	Package *skillpkg.Package
}

// Close releases the package.
func (f Packed) Close() { _ = f.Package.Close() } // opened for reading only

// Pack packs a folder and opens the archive as the server does, so that
// what the server would reject is rejected before it is sent.
func Pack(ctx context.Context, dir string) (Packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Packed{}, fault.Invalid("dir", "dir: %s", err)
	}
	defer func() { _ = root.Close() }() // opened for reading only
	var archive bytes.Buffer
	limits := skillpkg.DefaultLimits()
	packed, err := skillpkg.Pack(ctx, root.FS(), &archive, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits})
	if err != nil {
		return Packed{}, err
	}
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive.Bytes()), packed.Size, limits)
	return Packed{packed, archive.Bytes(), pkg}, err
}
