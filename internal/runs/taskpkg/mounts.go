package taskpkg

import (
	"path"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/sandbox"
)

// mounts returns what programs see beside the system. They are asked for
// before each program, since the one before may have changed the folders.
func (t *trial) mounts() []sandbox.Mount {
	all := append([]sandbox.Mount{writable(t.host, t.inside)}, t.scratch...)
	if !t.runner.Sandbox.Binds() {
		return all
	}
	for _, p := range t.absolutePaths() {
		all = append(all, writable(p.source, p.target))
	}
	return all
}

func writable(source, target string) sandbox.Mount {
	return sandbox.Mount{Source: source, Target: target, Writable: true}
}

// A place is a folder of this machine and the path at which Harbor's scripts
// expect it.
type place struct{ source, target string }

// absolutePaths returns where scripts of Harbor find what stands in the task's
// root.
func (t *trial) absolutePaths() []place {
	all := []place{{t.firstOf(logs), "/logs"}}
	if source := t.firstOf(t.tests); source != "" {
		all = append(all, place{source, "/tests"})
	}
	if source := t.firstOf(t.solution); source != "" && t.task.OracleRef != "" {
		all = append(all, place{source, "/solution"})
	}
	if source := t.firstOf(t.skills()); source != "" && t.skill != nil {
		all = append(all, place{source, "/skills"})
	}
	return append(all,
		place{t.firstOf("app", t.task.WorkingDir), "/app"},
		place{t.firstOfOr(filepath.Join(t.dir, homeDir), "root"), "/root"},
	)
}

// firstOf returns the first of the names that is a folder, or "".
func (t *trial) firstOf(names ...string) string { return t.firstOfOr("", names...) }

func (t *trial) firstOfOr(otherwise string, names ...string) string {
	for _, name := range names {
		if name != "" && t.isFolder(name) {
			return filepath.Join(t.host, filepath.FromSlash(name))
		}
	}
	return otherwise
}

// skills returns what in the task's root stands at /skills: the skill, or the
// folder of skills that it is one of.
func (t *trial) skills() string {
	bundle := path.Clean(t.task.SkillBundleRef)
	if parent := path.Dir(bundle); path.Base(parent) == "skills" {
		return parent
	}
	return bundle
}
