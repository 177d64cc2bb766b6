package skillpkg

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// PackOptions configure Pack. Both must be set.
type PackOptions struct {
	Format Format
	Limits Limits
}

// Packed is the result of Pack.
type Packed struct {
	// Files are the packed files, sorted by path; links became copies.
	Files []File
	// LeftOut are the paths that were not packed; a folder ends in a slash.
	LeftOut []string
	// ContentHash is the lower-case hex SHA-256 of the archive's bytes.
	ContentHash string
	Size        int64
}

// Pack writes an archive of a folder to w. The same files give the same bytes.
// It leaves out files that are useless or secret (.git, node_modules, .env*,
// .DS_Store, __pycache__, __MACOSX) or listed in the folder's .skillignore, and
// refuses what Open would refuse. fsys should be the FS of an os.Root, which
// keeps symbolic links from leaving the folder.
func Pack(ctx context.Context, fsys fs.FS, w io.Writer, options PackOptions) (_ *Packed, err error) {
	defer fault.Wrap(&err, "pack")
	// The folder is read twice: for the names, which must be sorted, then for the
	// contents.
	f := &folder{fsys: fsys, limits: options.Limits, tree: newTree()}
	if err := f.read(ctx); err != nil {
		return nil, err
	}
	// Links become copies here already, so that the archive also installs with
	// clients that do not follow them.
	files, err := expand(f.tree.root, f.limits)
	if err != nil {
		return nil, err
	}
	counted := &countingWriter{w: w}
	digest := sha256.New()
	out, err := newWriter(io.MultiWriter(counted, digest), options.Format, tar.FormatUnknown)
	if err != nil {
		return nil, err
	}
	result := &Packed{LeftOut: f.leftOut}
	for _, c := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		added, err := f.add(out, c)
		if err != nil {
			return nil, err
		}
		result.Files = append(result.Files, added)
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	result.ContentHash = hex.EncodeToString(digest.Sum(nil))
	result.Size = counted.n
	// The client refuses an archive that the server would refuse.
	if err := options.Limits.checkPacked(result.Size); err != nil {
		return nil, err
	}
	unpacked := int64(0)
	for _, f := range result.Files {
		unpacked += f.Size
	}
	if err := options.Limits.checkRatio(unpacked, result.Size); err != nil {
		return nil, err
	}
	return result, nil
}

// A folder is the state of Pack.
type folder struct {
	fsys    fs.FS
	limits  Limits
	tree    *tree
	files   int
	leftOut []string
}

// read collects the members of the folder.
func (f *folder) read(ctx context.Context) error {
	rules, err := readIgnores(f.fsys)
	if err != nil {
		return err
	}
	return fs.WalkDir(f.fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == "." {
			return nil
		}
		if !ignored(rules, p, d.IsDir()) {
			return f.addMember(p, d)
		}
		if d.IsDir() {
			f.leftOut = append(f.leftOut, p+"/")
			// Before its files are counted: node_modules alone would exceed the
			// limit on files.
			return fs.SkipDir
		}
		f.leftOut = append(f.leftOut, p)
		return nil
	})
}

// addMember adds one member to the tree. The same checks as for an archive, so that
// an author sees the problem before the upload.
func (f *folder) addMember(p string, d fs.DirEntry) error {
	if _, err := cleanPath(p, d.IsDir(), f.limits); err != nil {
		return err
	}
	switch d.Type() {
	case fs.ModeDir:
		return f.tree.addFolder(p)
	case fs.ModeSymlink:
		target, err := fs.ReadLink(f.fsys, p)
		if err != nil {
			return err
		}
		if err := checkTarget(p, target, f.limits); err != nil {
			return err
		}
		return f.addLeaf(p, File{Mode: 0o644, Kind: Link, Target: target})
	case 0:
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := f.limits.checkFile(p, info.Size()); err != nil {
			return err
		}
		return f.addLeaf(p, File{Size: info.Size(), Mode: plainMode(info.Mode()), Kind: Regular})
	}
	return refuse(CodeDevice, p, "devices, FIFOs and sockets cannot be packed; remove it or name it in %s", ignoreFile)
}

// addLeaf adds a file or link whose content is read later, by add.
func (f *folder) addLeaf(p string, file File) error {
	f.files++
	if err := f.limits.checkFiles(f.files); err != nil {
		return err
	}
	n, err := f.tree.addFile(p)
	if err != nil {
		return err
	}
	n.file = file
	return nil
}

// add writes one file to the archive.
func (f *folder) add(out writer, c placed) (_ File, err error) {
	// The path of the node is where it lies, c.path where it goes: a copy of a
	// link's target has two.
	content, err := f.fsys.Open(c.node.path())
	if err != nil {
		return File{}, err
	}
	defer func() { _ = content.Close() }() // it was only read
	file := c.node.file
	file.Path = c.path
	file.SHA256, err = addContent(out, file, content)
	return file, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
