package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A PackedFolder is a folder's archive, and the package that the server will read from
// it. The caller must Close it.
type PackedFolder struct {
	*skillpkg.Packed
	Archive []byte
	Package *skillpkg.Package
}

// Close releases the package.
func (f PackedFolder) Close() { _ = f.Package.Close() } // opened for reading only

// PackFolder packs a folder and opens the archive as the server does, so that what the
// server would reject is rejected before it is sent. The archive is held in memory: the
// limits of skillpkg bound it.
func PackFolder(ctx context.Context, dir string) (PackedFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return PackedFolder{}, FolderError(dir, err)
	}
	defer func() { _ = root.Close() }() // opened for reading only
	var archive bytes.Buffer
	limits := skillpkg.DefaultLimits()
	packed, err := skillpkg.Pack(ctx, root.FS(), &archive, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits})
	if err != nil {
		return PackedFolder{}, err
	}
	pkg, err := skillpkg.Open(ctx, bytes.NewReader(archive.Bytes()), packed.Size, limits)
	return PackedFolder{packed, archive.Bytes(), pkg}, err
}

// FolderError says why the folder of a skill cannot be read, and what to do if there is
// none.
func FolderError(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Invalid("dir", "There is no folder %s: name the folder of a skill, or make one with `whetstone init NAME`", dir)
	}
	return fault.Invalid("dir", "The folder %s cannot be read: %s", dir, err)
}
