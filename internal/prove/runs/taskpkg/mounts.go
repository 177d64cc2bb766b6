package taskpkg

import (
	"path"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// mounts returns the mounts of a program beside the system's. They are computed
// for each program, since the one before may have changed the folders.
func (t *trial) mounts() []sandbox.Mount {
	all := append([]sandbox.Mount{writable(t.host, t.inside)}, t.scratch...)
	if t.programs != nil {
		all = append(all, *t.programs)
	}
	if !t.runner.Sandbox.Binds() {
		return all
	}
	for _, p := range t.fixedPaths() {
		all = append(all, writable(p.source, p.target))
	}
	return all
}

func writable(source, target string) sandbox.Mount {
	return sandbox.Mount{Source: source, Target: target, Writable: true}
}

// A bind is a folder on the host and its path in the sandbox.
type bind struct{ source, target string }

// fixedPaths returns the mounts at the absolute paths that scripts of Harbor
// expect, and those of the task's image if the trial runs on the service's machine.
func (t *trial) fixedPaths() []bind {
	all := []bind{{t.hostDir(logs), "/logs"}}
	if source := t.hostDir(t.tests); source != "" {
		all = append(all, bind{source, "/tests"})
	}
	// The solution is for the oracle: an agent must not find it.
	if source := t.hostDir(t.solution); source != "" && t.task.OracleRef != "" {
		all = append(all, bind{source, "/solution"})
	}
	skills := path.Clean(t.task.SkillBundleRef)
	if parent := path.Dir(skills); path.Base(parent) == "skills" {
		skills = parent // scripts look for skills by name in it
	}
	if source := t.hostDir(skills); source != "" && t.skill != nil {
		all = append(all, bind{source, "/skills"})
	}
	if t.image != nil {
		return all
	}
	all = append(all,
		bind{t.hostDir("app", t.task.WorkingDir), "/app"},
		bind{t.hostDirOr(filepath.Join(t.dir, homeDir), "root"), "/root"},
	)
	for _, name := range t.imagePaths {
		if t.isDir(name) || t.isDir(path.Dir(name)) && isFile(t.hostPath(name)) {
			all = append(all, bind{t.hostPath(name), "/" + name})
		}
	}
	return all
}

// hostDir returns the path on the host of the first name that is a folder, or "".
func (t *trial) hostDir(names ...string) string { return t.hostDirOr("", names...) }

func (t *trial) hostDirOr(otherwise string, names ...string) string {
	for _, name := range names {
		if name != "" && t.isDir(name) {
			return filepath.Join(t.host, filepath.FromSlash(name))
		}
	}
	return otherwise
}
