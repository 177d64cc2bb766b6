package skillpkg

import (
	"archive/zip"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// readZip adds the members of a zip.
func (s *scan) readZip() error {
	// Two parsers read the directory: archive/zip for the content, ours for what it
	// does not check or export. Whatever they disagree on is refused.
	entries, directory, err := s.readZipDirectory()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(s.source, s.size)
	if err != nil {
		return err
	}
	if len(archive.File) != len(entries) {
		return refuse(CodeMalformed, "", "the zip's directory is damaged; pack the folder again")
	}
	for i, f := range archive.File {
		if err := s.readLocal(&entries[i], f.CompressedSize64); err != nil {
			return err
		}
	}
	if err := checkOverlap(entries, directory); err != nil {
		return err
	}
	// Content is only read once the layout of the whole archive is known to be
	// sound.
	for i, f := range archive.File {
		if err := s.addZipMember(f, entries[i].flags); err != nil {
			return err
		}
	}
	return nil
}

// addZipMember adds a member by its mode. The flags are those of both of its
// headers, since a reader may go by either.
func (s *scan) addZipMember(f *zip.File, flags uint16) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if flags&zipEncrypted != 0 {
		return refuse(CodeEncrypted, f.Name, "the member is encrypted; pack without a password")
	}
	if f.Method != zip.Store && f.Method != zip.Deflate {
		return refuse(CodeMethod, f.Name, "the member is packed by method %d; use deflate", f.Method)
	}
	mode := f.Mode()
	switch mode.Type() {
	case 0, fs.ModeSymlink:
	case fs.ModeDir:
		// Other tools write that content to a file of the name.
		if f.UncompressedSize64 != 0 {
			return refuse(CodePathConflict, f.Name, "the folder has content of its own; pack it again")
		}
		return s.addFolder(f.Name, mode)
	case fs.ModeDir | fs.ModeSymlink:
		return refuse(CodePathConflict, f.Name, "the member is a folder and a link at once; pack it again")
	default:
		return refuse(CodeDevice, f.Name, "devices, FIFOs and sockets are not allowed; remove it")
	}
	body, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it only frees a decompressor
	if mode.IsRegular() {
		return s.addFile(f.Name, mode, body)
	}
	// One byte beyond the limit, so that addLink can tell that the target is too
	// long.
	var target strings.Builder // of the link: its content
	if _, err := io.Copy(&target, io.LimitReader(body, int64(s.limits.PathLength)+1)); err != nil {
		return err
	}
	return s.addLink(f.Name, target.String())
}

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
