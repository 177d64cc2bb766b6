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
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// Where the parts of a trial stand in its folder.
const (
	archiveFile = "archive"
	rootDir     = "root"
	homeDir     = "home"
	tmpDir      = "tmp"
)

// folderPrefix is how the names of trials' folders begin.
const folderPrefix = "whetstone-task-"

// abandoned is the age from which no trial can still run in its folder.
const abandoned = 24 * time.Hour

// Sweep removes the folders of trials whose process died, and returns how many
// there were.
func (r *Runner) Sweep() (removed int, err error) {
	base, err := r.base()
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), folderPrefix) || time.Since(info.ModTime()) < abandoned {
			continue
		}
		if removeErr := sandbox.Remove(filepath.Join(base, e.Name())); removeErr != nil {
			err = errors.Join(err, removeErr)
			continue
		}
		removed++
	}
	return removed, err
}

// base returns the folder that the trials' folders stand in.
func (r *Runner) base() (string, error) {
	base := r.Dir
	if base == "" {
		base = os.TempDir()
	}
	return filepath.EvalSymlinks(base)
}

// makeFolder makes the trial's own folder. Nobody but the service can look
// into it; the unprivileged user of a service that runs as root can only pass
// through to what is handed to it.
func (r *Runner) makeFolder() (string, error) {
	base, err := r.base()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return "", err
	}
	err = os.Chmod(dir, folderMode())
	for _, name := range []string{rootDir, homeDir, tmpDir} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), folderMode()))
	}
	if err != nil {
		return "", errors.Join(err, sandbox.Remove(dir))
	}
	return dir, nil
}

func folderMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// unpack puts the environment into the trial's root.
func (t *trial) unpack(ctx context.Context, archive *os.File) error {
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	p, err := skillpkg.Open(ctx, archive, info.Size(), t.runner.archive())
	if err != nil {
		return invalid(ctx, err)
	}
	defer p.Close()
	t.host = filepath.Join(t.dir, rootDir)
	if err := unpackInto(ctx, p, t.host); err != nil {
		return invalid(ctx, err)
	}
	if folder := t.wrapper(); folder != "" {
		t.host = filepath.Join(t.host, folder)
	}
	t.root, err = os.OpenRoot(t.host)
	return err
}

// unpackInto writes the files of an archive and the empty folders it names. A
// folder that wraps a SKILL.md and everything else was taken away by the
// reader; whether it is to be is decided here.
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

// invalid gives an error of the archive its code.
func invalid(ctx context.Context, err error) error {
	var f *fault.Error
	if ctx.Err() == nil && errors.As(err, &f) {
		return failed(ArchiveInvalid, "%s", f.Message)
	}
	return err
}

// wrapper returns the one folder that everything stands in, if the verifier is
// found in it and not outside, or "".
func (t *trial) wrapper() string {
	verifier := filepath.FromSlash(t.task.VerifierRef)
	if !filepath.IsLocal(verifier) || isFile(filepath.Join(t.host, verifier)) {
		return ""
	}
	entries, err := os.ReadDir(t.host)
	if err != nil {
		return ""
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isLitter(e.Name()) })
	if len(entries) != 1 || !entries[0].IsDir() || !isFile(filepath.Join(t.host, entries[0].Name(), verifier)) {
		return ""
	}
	return entries[0].Name()
}

// isLitter reports whether systems leave files of that name in archives.
func isLitter(name string) bool {
	return name == "__MACOSX" || name == ".DS_Store" || strings.HasPrefix(name, "._")
}

func isFile(p string) bool {
	info, err := os.Lstat(p)
	return err == nil && info.Mode().IsRegular()
}

// checkPaths refuses references that lead out of the root.
func (t *trial) checkPaths() error {
	refs := []struct{ field, ref string }{
		{"verifier_ref", t.task.VerifierRef},
		{"skill_bundle_ref", t.task.SkillBundleRef},
		{"oracle_ref", t.task.OracleRef},
		{"resource_hints.working_dir", t.task.WorkingDir},
	}
	for _, r := range refs {
		if r.ref != "" && !isInside(r.ref) {
			return failed(PathRefused, "%s must be a path inside the archive, not %q", r.field, r.ref)
		}
	}
	if path.Clean(t.task.SkillBundleRef) == "." {
		return failed(PathRefused, "skill_bundle_ref must be a folder inside the archive, not the archive itself")
	}
	return nil
}

func isInside(ref string) bool {
	return !path.IsAbs(ref) && !strings.ContainsAny(ref, "\\\x00") && !slices.Contains(strings.Split(ref, "/"), "..")
}

// mountSkill copies the skill to its place, which must be free. It must be
// free also when no skill is wanted: one that came with the archive would be
// used instead.
func (t *trial) mountSkill(ctx context.Context) error {
	bundle := path.Clean(t.task.SkillBundleRef)
	if bundle == logs || strings.HasPrefix(bundle, logs+"/") {
		return failed(MountConflict, "skill_bundle_ref is %q, where the runner keeps its logs", bundle)
	}
	if err := t.clearPlaceholder(bundle); err != nil || t.skill == nil {
		return err
	}
	if err := t.root.MkdirAll(bundle, 0o755); err != nil {
		return failed(MountConflict, "%q cannot be made: something in the archive is in the way", bundle)
	}
	place, err := t.root.OpenRoot(bundle)
	if err != nil {
		return err
	}
	defer place.Close()
	return skillpkg.Unpack(ctx, t.skill, place)
}

// clearPlaceholder empties the skill's place if only a placeholder is in it.
// Without a skill nothing is changed.
func (t *trial) clearPlaceholder(bundle string) error {
	entries, err := fs.ReadDir(t.root.FS(), bundle)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(MountConflict, "%q in the archive is not a folder", bundle)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || name != ".GITKEEP" && name != "README" && name != "README.MD" && name != "README.TXT" {
			return failed(MountConflict, "%q in the archive already holds %q; the skill under test belongs there", bundle, e.Name())
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

// prepare checks the working folder and makes those of the logs.
func (t *trial) prepare() error {
	if !t.isFolder(t.task.WorkingDir) {
		return failed(WorkdirMissing, "resource_hints.working_dir %q is not a folder of the archive", t.task.WorkingDir)
	}
	for _, name := range logFolders {
		if err := t.root.MkdirAll(name, 0o755); err != nil {
			return failed(MountConflict, "%q in the archive is in the way of the runner's logs", logs)
		}
	}
	t.tests, t.solution = t.nameOf(testsFolders...), t.nameOf("solution", "oracle")
	return t.freshLogs()
}

// nameOf returns the first of the names that is a folder of the root, or "".
func (t *trial) nameOf(names ...string) string {
	if i := slices.IndexFunc(names, t.isFolder); i >= 0 {
		return names[i]
	}
	return ""
}

// logFolders are those beside the verifier's.
var logFolders = []string{logs + "/agent", logs + "/artifacts"}

// freshLogs makes the verifier's log folder anew: what the archive or the
// oracle put there is no reward.
func (t *trial) freshLogs() error {
	const verifier = logs + "/verifier"
	for _, name := range append([]string{verifier}, logFolders...) {
		if err := t.makeFolders(name); err != nil {
			return err
		}
	}
	return t.emptyFolder(verifier)
}

func (t *trial) emptyFolder(name string) (err error) {
	if err := t.root.Chmod(name, 0o755); err != nil {
		return err
	}
	folder, err := t.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return sandbox.Empty(folder)
}

// isFolder reports whether a path in the root is a folder, and no link leads
// there: the programs that ran before could have replaced it.
func (t *trial) isFolder(name string) bool {
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
