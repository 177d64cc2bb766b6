// Package skillpkg reads untrusted archives of agent skills, and is the only
// package that does. It validates a tar.gz or zip (path traversal, symbolic
// links, decompression bombs, names that differ between file systems), lists its
// files, and writes canonical archives and folders from it. It owns no tables.
package skillpkg

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// A Format is an archive format.
type Format string

// The formats that are read and written.
const (
	TarGz Format = "tar.gz"
	Zip   Format = "zip"
)

// A Kind is the kind of a member of a package.
type Kind string

// The kinds. Folders are not listed: they follow from the paths.
const (
	Regular Kind = "file"
	Link    Kind = "link"
)

// A File is one member of a package.
type File struct {
	// Path is relative to the root of the skill, with slashes and without "./".
	Path string
	Size int64
	// SHA256 is the lower-case hex digest of the content.
	SHA256 string
	// Mode is 0644, or 0755 if anyone may execute the file.
	Mode fs.FileMode
	Kind Kind
	// Target is where a link points, as written in the archive; a link has
	// neither size nor digest of its own.
	Target string
}

// A Package is an archive that was read and validated. Its contents are kept in
// memory if they are small and in a temporary file otherwise, so that many
// packages can be open at once; Close frees both. A Package is safe for
// concurrent reads.
type Package struct {
	// Files are the regular files and links, sorted by path.
	Files []File
	// Folders are those that the archive lists, sorted by path. They matter
	// where an empty one is needed: Unpack creates only those with files.
	Folders []string
	// Folder is the name of the wrapper folder of the skill in the archive, or
	// "" if the skill is at the archive's root.
	Folder string
	// SkillPath is SKILL.md, or skill.md if only that exists, or "" if
	// RequireSkill returns an error.
	SkillPath string
	Format    Format
	// PackedSize is the size of the archive, UnpackedSize that of the regular
	// files in it.
	PackedSize, UnpackedSize int64

	installed []File
	noSkill   *Error
	tar       *maphash.Hash // nil if the archive cannot be canonical
	contents  *spool.Spool
	// offsets are, by digest, where a file begins in contents.
	offsets map[string]int64
}

// Read reads an archive of unknown length. See Open.
func Read(ctx context.Context, r io.Reader, limits Limits) (*Package, error) {
	packed, err := spool.Fill(-1, func(w io.Writer) error {
		_, err := spool.Copy(w, io.LimitReader(r, limits.Packed+1))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	defer packed.Close()
	return Open(ctx, packed, packed.Size(), limits)
}

// Open reads the archive in the first size bytes of r, which is not used after
// Open returns. The format is detected by the first bytes. An archive that is
// over a limit, damaged or unsafe is an *Error. Whether it contains a skill is
// checked by RequireSkill. The caller must Close the package.
func Open(ctx context.Context, r io.ReaderAt, size int64, limits Limits) (_ *Package, err error) {
	if err := limits.checkPacked(size); err != nil {
		return nil, err
	}
	s := newScan(ctx, &source{ctx: ctx, r: r}, size, limits)
	defer func() {
		if err != nil {
			err = s.blame(err)
			_ = s.contents.Close() // the first error is the cause
		}
	}()
	format, err := s.format()
	if err != nil {
		return nil, err
	}
	readMembers := s.readTarGz
	if format == Zip {
		readMembers = s.readZip
	}
	if err := readMembers(); err != nil {
		return nil, err
	}
	p, err := s.finish()
	if err != nil {
		return nil, err
	}
	p.Format = format
	return p, nil
}

// finish finds the root of the skill and makes a package of its files.
func (s *scan) finish() (*Package, error) {
	found := locate(s.tree.root)
	root := found.root
	// The wrapper folder is no part of the skill: links must not leave the skill's
	// own root.
	root.parent = nil
	p := &Package{
		Files:      root.list(),
		Folders:    root.folders(),
		Folder:     root.name,
		SkillPath:  found.path,
		PackedSize: s.size,
		noSkill:    found.missing,
		contents:   s.contents,
		offsets:    s.offsets,
	}
	if s.plainGzip {
		p.tar = &s.tar
	}
	for _, f := range p.Files {
		p.UnpackedSize += f.Size
	}
	placed, err := expand(root, s.limits)
	if err != nil {
		return nil, err
	}
	for _, c := range placed {
		f := c.node.file
		f.Path = c.path
		p.installed = append(p.installed, f)
	}
	return p, nil
}

// Close frees the contents. The lists and names stay usable.
func (p *Package) Close() error { return p.contents.Close() }

// RequireSkill returns an *Error if the package has no SKILL.md at its root, or
// if it is ambiguous. Only entries of type skill need one.
func (p *Package) RequireSkill() error {
	if p.noSkill != nil {
		return p.noSkill
	}
	return nil
}

// Skill parses the package's SKILL.md. Without one it returns the error of
// RequireSkill.
func (p *Package) Skill() (Skill, error) {
	if err := p.RequireSkill(); err != nil {
		return Skill{}, err
	}
	raw, err := p.ReadFile(p.SkillPath)
	if err != nil {
		return Skill{}, err
	}
	return ParseSkill(raw)
}

// Installed returns the regular files of an installation, sorted by path: links
// are replaced by copies of their targets.
func (p *Package) Installed() []File { return p.installed }

// Open returns the content of one of the Installed files.
func (p *Package) Open(path string) (*io.SectionReader, error) {
	for _, f := range p.installed {
		if f.Path == path {
			return p.content(f), nil
		}
	}
	return nil, fault.New(fault.NotFound, "File not found")
}

// ReadFile returns the whole content of one of the Installed files.
func (p *Package) ReadFile(path string) (_ []byte, err error) {
	defer fault.Wrap(&err, "file %s", quote(path))
	r, err := p.Open(path)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Walk calls fn with every regular file of the archive, sorted by path, and
// stops at the first error. Links are left out.
func (p *Package) Walk(ctx context.Context, fn func(File, io.Reader) error) error {
	for _, f := range p.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Kind != Regular {
			continue
		}
		if err := fn(f, p.content(f)); err != nil {
			return err
		}
	}
	return nil
}

// content returns the bytes of a file. Files of equal content share their bytes,
// hence the lookup by digest.
func (p *Package) content(f File) *io.SectionReader {
	return io.NewSectionReader(p.contents, p.offsets[f.SHA256], f.Size)
}
