package taskpkg

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/sandbox"
)

// asideDir holds, while the oracle runs, what judges it. No program sees it.
const asideDir = "aside"

// The scratch folders of a verifier that runs after an oracle.
const (
	verifierHome = "verifier-home"
	verifierTmp  = "verifier-tmp"
)

// insideVerifierHome is where such a verifier has its home, if the sandbox binds.
const insideVerifierHome = "/home/verifier"

// testsFolders are the names of the folder that stands at /tests. Newer tasks
// of SkillsBench call it verifier.
var testsFolders = []string{"tests", "verifier"}

// judging returns the paths in the root that decide the verdict: the folder of
// the verifier, and what stands at /tests. A folder in which the programs work
// holds the result as well; of that it is the verifier alone.
func (t *trial) judging() []string {
	verifier := path.Clean(t.task.VerifierRef)
	all := []string{verifier}
	for _, folder := range append([]string{path.Dir(verifier)}, testsFolders...) {
		if isWithin(t.task.WorkingDir, folder) || !t.isFolder(folder) {
			continue
		}
		all = slices.DeleteFunc(all, func(p string) bool { return isWithin(p, folder) })
		if !slices.ContainsFunc(all, func(p string) bool { return isWithin(folder, p) }) {
			all = append(all, folder)
		}
	}
	return all
}

// isWithin reports whether a path of the root is a folder or lies below it.
func isWithin(name, folder string) bool {
	name, folder = path.Clean(name), path.Clean(folder)
	return folder == "." || name == folder || strings.HasPrefix(name, folder+"/")
}

// setAside moves what judges out of the oracle's reach, which gets a copy: it
// may read the tests, but what it does to them does not count.
func (t *trial) setAside() error {
	if _, err := t.root.Lstat(path.Clean(t.task.VerifierRef)); err != nil {
		return failed(VerifierMissing, "there is no file %q in the archive", t.task.VerifierRef)
	}
	t.aside = t.judging()
	for _, name := range t.aside {
		kept := t.asideOf(name)
		if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
			return err
		}
		if err := os.Rename(t.at(name), kept); err != nil {
			return err
		}
		if err := copyTree(kept, t.at(name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file or a folder. There are no links in an archive's tree.
func copyTree(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// putBack puts what judges back in its place, whatever the oracle has made of
// that: other files, links, or folders that only it may enter. None of its
// processes is left.
func (t *trial) putBack() error {
	if err := os.Chmod(t.host, 0o755); err != nil { //nolint:gosec // as it was unpacked
		return err
	}
	for _, name := range t.aside {
		if err := t.makeFolders(path.Dir(name)); err != nil {
			return err
		}
		if err := t.moveAway(name); err != nil {
			return err
		}
		if err := os.Rename(t.asideOf(name), t.at(name)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolders makes a folder of the root and those above it, in place of files
// and links, and lets the service work in them.
func (t *trial) makeFolders(name string) error {
	p := ""
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		p = path.Join(p, part)
		if err := t.makeOneFolder(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) makeOneFolder(name string) error {
	info, err := t.root.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return t.root.Chmod(name, 0o755)
	case err == nil:
		if err := t.root.Remove(name); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return t.root.Mkdir(name, 0o755)
}

// moveAway takes what the oracle left at a path out of the root. It is removed
// with the trial.
func (t *trial) moveAway(name string) error {
	info, err := t.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return t.root.Remove(name)
	}
	if err := t.root.Chmod(name, 0o700); err != nil { // a folder without rights cannot be moved
		return err
	}
	touched, err := os.MkdirTemp(t.dir, "touched-*")
	if err != nil {
		return err
	}
	return os.Rename(t.at(name), filepath.Join(touched, path.Base(name)))
}

// at is where a path of the root is on this machine.
func (t *trial) at(name string) string { return filepath.Join(t.host, filepath.FromSlash(name)) }

// asideOf is where what stands at a path of the root is kept from the oracle.
func (t *trial) asideOf(name string) string {
	return filepath.Join(t.dir, asideDir, filepath.FromSlash(name))
}

// freshScratch gives the verifier a home and a temporary folder that the oracle
// has not seen: shells and interpreters load files from the one, and programs
// trust what they find in the other. What the oracle left in /root stays there.
func (t *trial) freshScratch() error {
	home, tmp := filepath.Join(t.dir, verifierHome), filepath.Join(t.dir, verifierTmp)
	for _, dir := range []string{home, tmp} {
		if err := os.Mkdir(dir, folderMode()); err != nil {
			return err
		}
	}
	t.scratch = []sandbox.Mount{writable(home, home), writable(tmp, tmp)}
	if t.runner.Sandbox.Binds() {
		t.scratch = []sandbox.Mount{writable(home, insideVerifierHome), writable(tmp, t.insideTmp)}
	}
	t.env["HOME"], t.env["TMPDIR"] = t.scratch[0].Target, t.scratch[1].Target
	return nil
}
