package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// saveRepositories saves the bare repositories of the embedded code host while
// people may push to them. In each, refs are saved before objects: git writes
// objects before the refs that point to them, and never changes an object. A symbolic link in
// the folder is not followed out of it (os.Root).
func (s *saver) saveRepositories(ctx context.Context) error {
	if s.Repositories == "" {
		return nil
	}
	root, err := os.OpenRoot(s.Repositories)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	repositories, err := fs.Glob(root.FS(), "*/*.git")
	if err != nil {
		return err
	}
	for _, name := range repositories {
		if err := s.saveRepository(ctx, root, name); err != nil {
			return err
		}
	}
	return nil
}

// maxListings bounds how often a repository is listed again because git repacked
// it meanwhile. Repacking takes seconds, so a second list nearly always suffices.
const maxListings = 20

// saveRepository saves the files of a repository while git may write to it. A
// file that vanishes was packed or pruned: what replaced it is in the next list.
func (s *saver) saveRepository(ctx context.Context, root *os.Root, name string) error {
	done := map[string]bool{}
	for range maxListings {
		files, err := listRepository(root, name)
		if err != nil {
			return err
		}
		vanished := false
		for _, file := range files {
			if done[file] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			err := s.saveFile(root, file)
			if errors.Is(err, fs.ErrNotExist) {
				vanished = true
				continue
			}
			if err != nil {
				return err
			}
			done[file] = true
		}
		if !vanished {
			return nil
		}
	}
	return errors.New(name + " changes too fast to be saved; try again")
}

// listRepository lists the files of a repository, objects last, without temporary
// files of git.
func listRepository(root *os.Root, name string) (files []string, err error) {
	err = fs.WalkDir(root.FS(), name, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		base := path.Base(file)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(base, "tmp_objdir-") || strings.HasPrefix(base, "incoming-")):
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(base, ".lock") || strings.HasPrefix(base, "tmp_"):
			return nil
		}
		files = append(files, file)
		return nil
	})
	slices.SortStableFunc(files, func(a, b string) int { return rank(name, a) - rank(name, b) })
	return files, err
}

// rank puts refs before objects: git writes objects first, so that every ref
// that was saved has its objects.
func rank(repository, file string) int {
	if strings.HasPrefix(file, repository+"/objects/") {
		return 1
	}
	return 0
}

// saveFile saves a file as it is when it is opened.
func (s *saver) saveFile(root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	body, size := io.Reader(file), info.Size()
	if size <= smallBlob {
		// Some small files grow meanwhile, e.g. logs of refs.
		content, err := io.ReadAll(io.LimitReader(file, size))
		if err != nil {
			return err
		}
		body, size = bytes.NewReader(content), int64(len(content))
	}
	if _, err := s.archive.add(reposDir+name, int64(info.Mode().Perm()&0o700), size, body); err != nil {
		return err
	}
	s.manifest.Repositories.Files++
	s.manifest.Repositories.Bytes += size
	s.progress.Bytes += size
	s.report("repositories")
	return nil
}

// writeFile writes and fsyncs a file of a repository. fill does the same for its
// directory entry. O_EXCL refuses a file that is twice in the backup.
func (s *restorer) writeFile(name string, r io.Reader) error {
	if err := s.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if strings.HasSuffix(name, ".git/HEAD") {
		// Git only recognises a repository with these folders, which may be empty and
		// then are not in the backup.
		for _, dir := range []string{"refs/heads", "refs/tags", "objects/pack"} {
			if err := s.makeDir(path.Join(path.Dir(name), dir)); err != nil {
				return err
			}
		}
	}
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// repositoryOf is the repository of a file: "a/b.git" of "a/b.git/HEAD". Fewer elements give a
// path that the pattern of restoreFile refuses.
func repositoryOf(name string) string {
	elements := strings.SplitN(name, "/", 3)
	return path.Join(elements[:len(elements)-1]...)
}

// makeDir creates a folder, and remembers all above it for fsync.
func (s *restorer) makeDir(dir string) error {
	for above := dir; !s.dirs[above]; above = path.Dir(above) {
		s.dirs[above] = true
	}
	return s.root.MkdirAll(dir, 0o700)
}
