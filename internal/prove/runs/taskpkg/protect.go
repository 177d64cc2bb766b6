package taskpkg

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// stashDir is the folder, in the trial's, that holds the verifier while the oracle or
// an agent runs. It is never mounted, so programs can't see it.
const stashDir = "aside"

// The scratch folders of a verifier that runs after an oracle or an agent.
const (
	verifierHome = "verifier-home"
	verifierTmp  = "verifier-tmp"
)

// insideVerifierHome is the home of such a verifier in a sandbox with bind mounts.
const insideVerifierHome = "/home/verifier"

// testsDirs are the names of the folder that is mounted at /tests. Newer tasks of
// SkillsBench call it verifier.
var testsDirs = []string{"tests", "verifier"}

// verifierPaths returns the paths in the root that decide the verdict: the folder of
// the verifier, and the one that is mounted at /tests. A folder that contains the
// working folder isn't protected, since it will hold the result; then it is the
// verifier alone.
func (t *trial) verifierPaths() []string {
	verifier := path.Clean(t.task.VerifierRef)
	all := []string{verifier}
	for _, folder := range append([]string{path.Dir(verifier)}, testsDirs...) {
		if isWithin(t.task.WorkingDir, folder) || !t.isDir(folder) {
			continue
		}
		all = slices.DeleteFunc(all, func(p string) bool { return isWithin(p, folder) })
		if !slices.ContainsFunc(all, func(p string) bool { return isWithin(folder, p) }) {
			all = append(all, folder)
		}
	}
	return all
}

// isWithin reports whether a path is a folder or below it.
func isWithin(name, folder string) bool {
	name, folder = path.Clean(name), path.Clean(folder)
	return folder == "." || name == folder || strings.HasPrefix(name, folder+"/")
}

// A stash says what a program sees of the verifier while it is stashed.
type stash bool

const (
	copied stash = true  // a copy: the program may read it, but its changes must not count
	hidden stash = false // nothing, and no solution either
)

// stashVerifier moves the verifier and the tests out of a program's reach. An oracle
// may read a copy of them; an agent sees neither them nor the solution.
func (t *trial) stashVerifier(how stash) error {
	if _, err := t.root.Lstat(path.Clean(t.task.VerifierRef)); err != nil {
		return errorf(VerifierMissing, "there is no file %q in the archive", t.task.VerifierRef)
	}
	t.stashed = t.verifierPaths()
	if how == hidden {
		t.stashed = append(t.stashed, t.solutionPaths()...)
	}
	for _, name := range t.stashed {
		stashed := t.stashPath(name)
		if err := os.MkdirAll(filepath.Dir(stashed), 0o700); err != nil {
			return err
		}
		if err := os.Rename(t.hostPath(name), stashed); err != nil {
			return err
		}
		if how == hidden {
			continue
		}
		if err := copyTree(stashed, t.hostPath(name)); err != nil {
			return err
		}
	}
	return nil
}

// solutionPaths returns the paths in the root that have a solution, apart from
// those of the verifier.
func (t *trial) solutionPaths() (all []string) {
	candidates := []string{"solution", "oracle"}
	if t.task.OracleRef != "" {
		candidates = append(candidates, path.Clean(t.task.OracleRef))
	}
	for _, name := range candidates {
		_, err := t.root.Lstat(name)
		taken := slices.ContainsFunc(append(t.stashed, all...), func(p string) bool {
			return isWithin(name, p) || isWithin(p, name)
		})
		if err == nil && !taken && !isWithin(t.task.WorkingDir, name) {
			all = append(all, name)
		}
	}
	return all
}

// copyTree copies a file or a folder. Archives are unpacked without links, so there are
// none to follow.
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

// restoreVerifier moves the verifier and the tests back, whatever a program has put in
// their place: other files, links, or folders without permissions. None of its
// processes is running any more.
func (t *trial) restoreVerifier() error {
	if err := os.Chmod(t.host, 0o755); err != nil { // as it was unpacked
		return err
	}
	for _, name := range t.stashed {
		if err := t.makeDirs(path.Dir(name)); err != nil {
			return err
		}
		if err := t.displace(name); err != nil {
			return err
		}
		if err := os.Rename(t.stashPath(name), t.hostPath(name)); err != nil {
			return err
		}
	}
	return nil
}

// makeDirs creates a folder of the root and its parents, in place of files and
// links, with permissions for the service.
func (t *trial) makeDirs(name string) error {
	p := ""
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		p = path.Join(p, part)
		if err := t.makeOneDir(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) makeOneDir(name string) error {
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

// displace moves what a program left at a path out of the root. It is removed with the
// trial's folder.
func (t *trial) displace(name string) error {
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
	if err := t.root.Chmod(name, 0o700); err != nil { // a folder without permissions cannot be moved
		return err
	}
	displaced, err := os.MkdirTemp(t.dir, "displaced-*")
	if err != nil {
		return err
	}
	return os.Rename(t.hostPath(name), filepath.Join(displaced, path.Base(name)))
}

// hostPath is the path on the host of a path in the root.
func (t *trial) hostPath(name string) string { return filepath.Join(t.host, filepath.FromSlash(name)) }

// stashPath is the path on the host at which a path in the root is stashed.
func (t *trial) stashPath(name string) string {
	return filepath.Join(t.dir, stashDir, filepath.FromSlash(name))
}

// newScratch gives the verifier an empty home and temporary folder. Shells and
// interpreters load settings from the one, and programs trust what they find in the
// other, so an oracle or agent could change the verdict by them. What it left in /root
// stays there.
func (t *trial) newScratch() error {
	home, tmp := filepath.Join(t.dir, verifierHome), filepath.Join(t.dir, verifierTmp)
	for _, dir := range []string{home, tmp} {
		if err := errors.Join(sandbox.Remove(dir), os.Mkdir(dir, dirMode())); err != nil { // one of an earlier step
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
