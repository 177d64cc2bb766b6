package skillpkg

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// Unpack writes the Installed files of a package below dst, with modes 0644 and
// 0755. It overwrites nothing: an existing file is a Conflict. After an error
// some files may have been written, so dst should be a new folder that is renamed
// once Unpack has succeeded.
func Unpack(ctx context.Context, p *Package, dst *os.Root) (err error) {
	defer fault.Wrap(&err, "unpack")
	for _, f := range p.installed {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := dst.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := writeFile(dst, f, p.content(f)); err != nil {
			return err
		}
	}
	return nil
}

// writeFile goes through os.Root, which keeps a file inside dst even if someone
// replaces a folder by a link meanwhile.
func writeFile(dst *os.Root, f File, content io.Reader) (err error) {
	out, err := dst.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "%s is already there", quote(f.Path)).Because(err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := spool.Copy(out, content); err != nil {
		return err
	}
	// The umask of the process may have removed bits.
	return out.Chmod(f.Mode)
}
