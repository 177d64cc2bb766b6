package skillpkg

import (
	"archive/zip"
	"hash/crc32"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// AddTo adds the Installed files to a zip, below a folder that ends with a slash or
// is "". They are not compressed, so that the same files give the same bytes in
// every release, whatever the compression library does, and have their sizes in
// front, which readers of streams need.
func (p *Package) AddTo(out *zip.Writer, folder string) (err error) {
	defer fault.Wrap(&err, "add to a zip")
	for _, f := range p.installed {
		sum := crc32.NewIEEE()
		if _, err := spool.Copy(sum, p.content(f)); err != nil {
			return err
		}
		size := uint64(f.Size) // a size is not negative
		h := &zip.FileHeader{
			Name: folder + f.Path, Method: zip.Store, Modified: packTime(), CRC32: sum.Sum32(),
			CompressedSize64: size, UncompressedSize64: size,
		}
		h.SetMode(f.Mode)
		w, err := out.CreateRaw(h)
		if err != nil {
			return err
		}
		if _, err := spool.Copy(w, p.content(f)); err != nil {
			return err
		}
	}
	return nil
}
