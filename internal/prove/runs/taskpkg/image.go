package taskpkg

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// A task's image would have the task's files at absolute paths, e.g.
// /workspace/data.csv. Where it isn't built, the archive has them at the same path
// below its root, and what is at the archive's top is bind-mounted where the image has
// it.

// ownNames are entries at the top of an archive that don't belong to the image: they
// have mounts of their own, or scripts find them in TASK_ROOT.
var ownNames = []string{
	"app", "environment", "instruction.md", "logs", "oracle", "root", "skills", "solution", "steps", "task.toml",
	"tests", "verifier",
}

// maxImagePaths bounds the number of bind mounts of a program.
const maxImagePaths = 100

// findImagePaths decides which parts of the archive are mounted where the image has
// them. The rest goes to unmounted: programs find it below TASK_ROOT only.
func (t *trial) findImagePaths() error {
	skill, _, _ := strings.Cut(path.Clean(t.task.SkillBundleRef), "/")
	top, err := fs.ReadDir(t.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range top {
		name := entry.Name()
		if slices.Contains(ownNames, name) || name == skill {
			continue
		}
		if sandbox.CanMount("/"+name) || !entry.IsDir() {
			t.addImagePath(name)
			continue
		}
		// What can't be mounted as a whole may have entries that can.
		below, err := fs.ReadDir(t.root.FS(), name)
		if err != nil {
			return err
		}
		for _, entry := range below {
			t.addImagePath(path.Join(name, entry.Name()))
		}
	}
	return nil
}

func (t *trial) addImagePath(name string) {
	target := "/" + name
	taken := target == insideRoot || target == insideVerifierHome || isWithin(target, "/tmp")
	if taken || !sandbox.CanMount(target) || len(t.imagePaths) == maxImagePaths {
		t.unmounted = append(t.unmounted, name)
		return
	}
	t.imagePaths = append(t.imagePaths, name)
}

// maxWalked bounds how many unmounted files are looked for, and in how many scripts.
const maxWalked = 1000

// unmountedPath returns the working folder or a file of the archive that a script,
// or a file beside it, uses by its path in the image, where it is not mounted. It
// returns "" if there is none.
func (t *trial) unmountedPath(script string) (used string) {
	var unmounted []string
	for _, name := range t.unmounted {
		if isWithin(t.task.WorkingDir, name) {
			unmounted = append(unmounted, "/"+path.Clean(t.task.WorkingDir))
		}
		t.walk(name, func(p string) bool {
			unmounted = append(unmounted, "/"+p)
			return len(unmounted) < maxWalked
		})
	}
	if len(unmounted) == 0 {
		return ""
	}
	scripts := 0
	t.walk(path.Dir(path.Clean(script)), func(p string) bool {
		text, err := t.readText(p)
		if i := slices.IndexFunc(unmounted, func(u string) bool { return usesPath(text, u) }); err == nil && i >= 0 {
			used = unmounted[i]
		}
		scripts++
		return used == "" && scripts < maxWalked
	})
	return used
}

// walk calls a function with the files in a folder of the root while it returns true.
func (t *trial) walk(folder string, visit func(p string) bool) {
	_ = fs.WalkDir(t.root.FS(), folder, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !visit(p) {
			return fs.SkipAll
		}
		return nil // what cannot be read is not mounted, either
	})
}

// usesPath reports whether a script contains an absolute path, or one below it.
func usesPath(script, p string) bool {
	return strings.Contains(script, p) &&
		regexp.MustCompile(`(?m)(?:^|[\s"'=(:;|&<>])`+regexp.QuoteMeta(p)+`(?:/|\b|$)`).MatchString(script)
}

// insideBin is a folder of programs that the image has and the machine may not. It
// comes last in PATH, so that it never shadows the machine's own.
const insideBin = "/run/image/bin"

// addPrograms creates the folder of insideBin if the task's image has such programs.
func (t *trial) addPrograms() error {
	if !t.needsPython() {
		return nil
	}
	dir := filepath.Join(t.dir, "bin")
	inside := dir
	if t.runner.Sandbox.Binds() {
		inside = insideBin
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	t.programs = &sandbox.Mount{Source: dir, Target: inside}
	return os.WriteFile(filepath.Join(dir, "python"), []byte("#!/bin/sh\nexec python3 \"$@\"\n"), 0o755)
}

// needsPython reports whether the task's image has a program python, which many
// machines call python3 only.
func (t *trial) needsPython() bool {
	text, err := t.readText(taskfile.Dockerfile)
	if err != nil {
		return taskfile.ImageName(t.settings.Environment.DockerImage) == "python"
	}
	bases := taskfile.BaseImages(text)
	return len(bases) > 0 && taskfile.ImageName(bases[len(bases)-1]) == "python"
}
