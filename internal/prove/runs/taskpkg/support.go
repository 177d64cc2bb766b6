package taskpkg

import (
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// checkSupport returns an error for a task that needs something this runner lacks. It
// looks before anything runs: otherwise such a task would count in those trials that
// happen to pass, and only in those.
func (t *trial) checkSupport() error {
	s := t.settings
	if s.Environment.GPUs > 0 {
		return unsupportedf(NeedsGPU, "the task needs %d GPUs", s.Environment.GPUs)
	}
	if n := t.services(); n > 1 {
		return unsupportedf(NeedsImages, "the task needs %d containers", n)
	}
	for _, ref := range t.scripts() {
		text, err := t.readText(ref)
		if err != nil {
			continue // its own step reports it
		}
		if tool := taskfile.NetworkUse(text); tool != "" && !t.runner.HasTools {
			return unsupportedf(NeedsNetwork, "%s needs the network (%s), which is off", ref, tool)
		}
		if used := t.missingPath(ref, text); used != "" {
			return unsupportedf(NeedsAbsolutePaths, "%s uses %s, which this sandbox cannot provide", ref, used)
		}
	}
	return nil
}

// missingPath returns an absolute path of the task's image that a script uses and
// that is not mounted there, or "".
func (t *trial) missingPath(ref, text string) string {
	if t.runner.Sandbox.Binds() {
		return t.unmountedPath(ref)
	}
	if found := absolutePath.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	for _, name := range slices.Concat(t.imagePaths, t.unmounted) {
		if p := "/" + name; usesPath(text, p) {
			return p
		}
	}
	return ""
}

// readText reads up to 1 MiB of a file of the archive: more than a script or
// manifest has.
func (t *trial) readText(name string) (string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text), err
}

// unsupportedf is the failure of a task that this runner cannot run.
func unsupportedf(code Code, format string, args ...any) *failure {
	return &failure{verdict: Unsupported, code: code, message: fmt.Sprintf(format, args...)}
}

// services returns how many containers the task's compose file starts; 0 without one.
func (t *trial) services() int {
	for _, name := range taskfile.ComposeFiles {
		text, err := t.readText(name)
		if err != nil {
			continue
		}
		if compose, err := taskfile.ParseCompose(text); err == nil {
			return len(compose.Services)
		}
	}
	return 0
}

// absolutePath matches the fixed paths at which Harbor mounts a task's folders.
var absolutePath = regexp.MustCompile(`(?m)(?:^|[\s"'=(:;|&<>])(/(?:tests|solution|logs|app|root|skills))(?:/|\b)`)
