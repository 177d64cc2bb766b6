package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A packer adds files to an archive.
type packer interface {
	add(name string, executable bool, size int64, content io.Reader) error
	Close() error
}

// writeArchive packs the regular files of a folder, in the order of their names.
func writeArchive(out, dir string, at time.Time) (err error) {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var p packer
	switch {
	case strings.HasSuffix(out, ".tar.gz"):
		p, err = newTarball(file, at)
	case strings.HasSuffix(out, ".zip"):
		p = newZip(file, at)
	default:
		err = fmt.Errorf("%s: neither .tar.gz nor .zip", out)
	}
	if err != nil {
		return err
	}
	if err := addFiles(p, dir); err != nil {
		return err
	}
	return p.Close()
}

func addFiles(p packer, dir string) error {
	prefix := filepath.Base(dir)
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		content, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }() // it was only read
		return p.add(path.Join(prefix, filepath.ToSlash(relative)), info.Mode()&0o100 != 0, info.Size(), content)
	})
}

// mode is that of a file in an archive, whatever the umask of the builder was.
func mode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

type tarball struct {
	at   time.Time
	gzip *gzip.Writer
	*tar.Writer
}

func newTarball(w io.Writer, at time.Time) (*tarball, error) {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	return &tarball{at, z, tar.NewWriter(z)}, nil
}

func (t *tarball) add(name string, executable bool, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode(executable)), Size: size, ModTime: t.at, Format: tar.FormatUSTAR}
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(t.Writer, content)
	return err
}

func (t *tarball) Close() error { return errors.Join(t.Writer.Close(), t.gzip.Close()) }

type zipFile struct {
	at time.Time
	*zip.Writer
}

func newZip(w io.Writer, at time.Time) *zipFile {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	return &zipFile{at, z}
}

func (z *zipFile) add(name string, executable bool, _ int64, content io.Reader) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.at}
	header.SetMode(mode(executable))
	w, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}
