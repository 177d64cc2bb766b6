package taskpkg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// The parts of a trial's folder.
const (
	archiveFile = "archive"
	rootDir     = "root"
	homeDir     = "home"
	tmpDir      = "tmp"
)

// dirPrefix is the prefix of the trials' folders, by which Sweep finds them.
const dirPrefix = "whetstone-task-"

// Sweep removes the folders of trials whose process died, and returns their
// number.
func (r *Runner) Sweep() (removed int, err error) {
	base, err := r.base()
	if err != nil {
		return 0, err
	}
	return sandbox.Sweep(base, dirPrefix, &r.running)
}

// base returns the parent of the trials' folders.
func (r *Runner) base() (string, error) {
	base := r.Dir
	if base == "" {
		base = os.TempDir()
	}
	return filepath.EvalSymlinks(base)
}

// makeDir creates the trial's folder, which only the service can list. The caller
// removes it, even if it comes with an error. If the service runs as root, the sandbox
// has another user, who can only pass through the folder to what is mounted.
func (r *Runner) makeDir() (string, error) {
	base, err := r.base()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return "", err
	}
	r.running.Store(dir, nil)
	err = os.Chmod(dir, dirMode())
	for _, name := range []string{rootDir, homeDir, tmpDir} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), dirMode()))
	}
	return dir, err
}

// dirMode lets another user pass through a folder only if there is one.
func dirMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// unpack unpacks the environment into the trial's root.
func (t *trial) unpack(ctx context.Context, archive *os.File) error {
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	p, err := skillpkg.Open(ctx, archive, info.Size(), t.runner.archiveLimits())
	if err != nil {
		return archiveError(ctx, err)
	}
	defer p.Close()
	t.host = filepath.Join(t.dir, rootDir)
	if err := unpackInto(ctx, p, t.host); err != nil {
		return archiveError(ctx, err)
	}
	if folder := t.wrapperDir(); folder != "" {
		t.host = filepath.Join(t.host, folder)
	}
	t.root, err = os.OpenRoot(t.host)
	return err
}

// unpackInto writes the files of an archive and its empty folders. The reader
// has removed a folder that wraps everything if there is a SKILL.md in it; here
// it is restored, since wrapperDir decides.
func unpackInto(ctx context.Context, p *skillpkg.Package, dir string) error {
	dir = filepath.Join(dir, p.Folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := skillpkg.Unpack(ctx, p, root); err != nil {
		return err
	}
	for _, folder := range p.Folders {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// archiveError gives an error of the archive its code; errors of the disk have none.
func archiveError(ctx context.Context, err error) error {
	var f *fault.Error
	if ctx.Err() == nil && errors.As(err, &f) {
		return errorf(ArchiveInvalid, "%s", f.Message)
	}
	return err
}

// wrapperDir returns the folder that wraps everything, or "". It wraps if it is
// the only one, and the verifier is found in it and not outside.
func (t *trial) wrapperDir() string {
	verifier := filepath.FromSlash(t.task.VerifierRef)
	if !filepath.IsLocal(verifier) || isFile(filepath.Join(t.host, verifier)) {
		return ""
	}
	entries, err := os.ReadDir(t.host)
	if err != nil {
		return ""
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { // what macOS adds to archives
		return e.Name() == "__MACOSX" || e.Name() == ".DS_Store" || strings.HasPrefix(e.Name(), "._")
	})
	if len(entries) != 1 || !entries[0].IsDir() || !isFile(filepath.Join(t.host, entries[0].Name(), verifier)) {
		return ""
	}
	return entries[0].Name()
}

// isFile reports whether a path is a regular file; symbolic links aren't followed.
func isFile(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode().IsRegular()
}

// checkPaths refuses references that lead out of the root (path traversal).
func (t *trial) checkPaths() error {
	refs := []struct{ field, ref string }{
		{"verifier_ref", t.task.VerifierRef},
		{"skill_bundle_ref", t.task.SkillBundleRef},
		{"oracle_ref", t.task.OracleRef},
		{"resource_hints.working_dir", t.task.WorkingDir},
	}
	for _, r := range refs {
		if r.ref != "" && !isInside(r.ref) {
			return errorf(PathRefused, "%s must be a path inside the archive, not %q", r.field, r.ref)
		}
	}
	if path.Clean(t.task.SkillBundleRef) == "." {
		return errorf(PathRefused, "skill_bundle_ref must be a folder inside the archive, not the archive itself")
	}
	return nil
}

// isInside reports whether a slash-separated path can't lead out of its root.
func isInside(ref string) bool {
	return !path.IsAbs(ref) && !strings.ContainsAny(ref, "\\\x00") && !slices.Contains(strings.Split(ref, "/"), "..")
}

// mountSkill unpacks the skill at its path, which must be free. It must be free
// in the arm no_skill, too: a skill that came with the archive would be used.
func (t *trial) mountSkill(ctx context.Context) error {
	bundle := path.Clean(t.task.SkillBundleRef)
	if bundle == logs || strings.HasPrefix(bundle, logs+"/") {
		return errorf(MountConflict, "skill_bundle_ref is %q, where the runner keeps its logs", bundle)
	}
	if err := t.clearPlaceholder(bundle); err != nil || t.skill == nil || t.task.Agent != nil {
		return err // an agent has its skills elsewhere
	}
	if err := t.root.MkdirAll(bundle, 0o755); err != nil {
		return errorf(MountConflict, "%q cannot be made: something in the archive is in the way", bundle)
	}
	dir, err := t.root.OpenRoot(bundle)
	if err != nil {
		return err
	}
	defer dir.Close()
	return skillpkg.Unpack(ctx, t.skill, dir)
}

// clearPlaceholder removes a placeholder such as .gitkeep from the skill's folder;
// anything else in it is a MountConflict. In the arm without the skill the folder is
// only checked.
func (t *trial) clearPlaceholder(bundle string) error {
	entries, err := fs.ReadDir(t.root.FS(), bundle)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errorf(MountConflict, "%q in the archive is not a folder", bundle)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || name != ".GITKEEP" && name != "README" && name != "README.MD" && name != "README.TXT" {
			return errorf(MountConflict, "%q in the archive already holds %q; the skill under test belongs there",
				bundle, e.Name())
		}
	}
	if t.skill == nil {
		return nil
	}
	for _, e := range entries {
		if err := t.root.Remove(path.Join(bundle, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// prepare checks the working folder, creates those of the logs, and looks up what
// the task's image would have.
func (t *trial) prepare() error {
	if t.image == nil && !t.isDir(t.task.WorkingDir) {
		return errorf(WorkdirMissing, "resource_hints.working_dir %q is not a folder of the archive", t.task.WorkingDir)
	}
	for _, name := range logDirs {
		if err := t.root.MkdirAll(name, 0o755); err != nil {
			return errorf(MountConflict, "%q in the archive is in the way of the runner's logs", logs)
		}
	}
	t.tests, t.solution = t.firstDir(testsDirs...), t.firstDir("solution", "oracle")
	if t.image == nil {
		if err := errors.Join(t.findImagePaths(), t.addPrograms()); err != nil {
			return err
		}
	}
	return t.resetLogs()
}

// readSettings reads task.toml and applies its limits. A task without one, or with one
// that can't be parsed, has no settings.
func (t *trial) readSettings() {
	if text, err := t.readText(taskfile.Manifest); err == nil {
		t.settings, _ = taskfile.ParseManifest(text) // what cannot be parsed needs nothing
	}
	t.task.Resources = t.task.Resources.Or(t.settings.Resources())
	t.outcome.Limits, t.short = t.runner.limits(t.task)
}

// firstDir returns the first of the names that is a folder of the root, or "".
func (t *trial) firstDir(names ...string) string {
	if i := slices.IndexFunc(names, t.isDir); i >= 0 {
		return names[i]
	}
	return ""
}

// logDirs are the log folders beside the verifier's.
var logDirs = []string{logs + "/agent", logs + "/artifacts"}

// resetLogs empties the verifier's log folder: what the archive or the oracle
// wrote there is no reward.
func (t *trial) resetLogs() (err error) {
	const verifier = logs + "/verifier"
	for _, name := range append([]string{verifier}, logDirs...) {
		if err := t.makeDirs(name); err != nil {
			return err
		}
	}
	if err := t.root.Chmod(verifier, 0o755); err != nil { // the oracle may have removed its permissions
		return err
	}
	folder, err := t.root.OpenRoot(verifier)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return sandbox.Empty(folder)
}

// isDir reports whether a path in the root is a folder without symbolic links
// in its way, by which an earlier program could have replaced it.
func (t *trial) isDir(name string) bool {
	p := ""
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		p = path.Join(p, part)
		info, err := t.root.Lstat(p)
		if err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}
