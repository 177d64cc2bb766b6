package taskpkg

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

// imageDir is the folder for what a trial's programs change in the task's image.
const imageDir = "image"

// openImage opens the image of the task, in which its programs run as in a container.
// If it can't be built here they run on the service's own machine, unless the task
// needs its image. It comes before the skill is mounted, which must not become part of
// the image.
func (t *trial) openImage(ctx context.Context) error {
	recipe, ok := t.recipe()
	var missing string
	switch {
	case !ok:
		missing = "the archive has not all that it is made of"
	case t.runner.Environments == nil:
		missing = "images are not built here"
	default:
		missing = t.runner.Environments.Missing(ctx, recipe)
	}
	if missing != "" && t.task.NeedsImage {
		return unsupportedf(NeedsImages, "the task runs in its image only: %s", missing)
	}
	if missing != "" {
		return nil
	}
	image, err := t.runner.Environments.Get(ctx, recipe)
	if err != nil {
		return environmentError(ctx, err)
	}
	t.image, t.outcome.Image = image, image.Digest
	t.imageRoot, err = image.Root(ctx, filepath.Join(t.dir, imageDir))
	return err
}

// runsSkipped says what a trial outside its image may lack.
const runsSkipped = "the RUN lines of its Dockerfile were not carried out: what they install may be missing"

// skipsRuns reports whether the task's image would have more than this machine: it
// wasn't built, and its Dockerfile has RUN lines other than mkdir. Failures for lack of
// that say nothing about the skill.
func (t *trial) skipsRuns() bool {
	if t.image != nil {
		return false
	}
	text, err := t.readText(taskfile.Dockerfile)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(taskfile.DockerInstructions(text), func(line string) bool {
		words := strings.Fields(line)
		return strings.EqualFold(words[0], "RUN") && (len(words) == 1 || words[1] != "mkdir")
	})
}

// environmentError explains why a task's image can't be built, with the end of the
// build's output. Other errors are returned as they are.
func environmentError(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*builder.Failed](err); ok {
		lines := text.Tail(text.PlainLine(failed.Output), 1000)
		return errorf(EnvironmentFailed, "the image of the task cannot be built: %s; the build wrote %q", failed.Reason, lines)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && ctx.Err() == nil {
		return errorf(EnvironmentFailed, "%s", f.Message)
	}
	return err
}

// recipe returns how to make the image of the task, and false if it has none, or if
// the archive has not all that its Dockerfile copies: such archives were laid out
// for the service's own machine.
func (t *trial) recipe() (r environments.Recipe, ok bool) {
	dockerfile, err := t.readText(taskfile.Dockerfile)
	if err != nil {
		image := t.imageName()
		return environments.OfImage(image), image != ""
	}
	for _, name := range taskfile.Copied(dockerfile) {
		if _, err := t.root.Lstat(path.Join(taskfile.EnvironmentDir, name)); err != nil {
			return r, false
		}
	}
	return environments.Recipe{
		Dockerfile: dockerfile, Context: t.hostPath(taskfile.EnvironmentDir), Images: taskfile.Images(dockerfile),
		Timeout: t.settings.BuildTimeout(),
	}, true
}

// imageName returns the image of a task without a Dockerfile, from its compose file or
// task.toml; "" if neither names one.
func (t *trial) imageName() string {
	for _, name := range taskfile.ComposeFiles {
		text, err := t.readText(name)
		if err != nil {
			continue
		}
		if compose, err := taskfile.ParseCompose(text); err == nil && compose.Image() != "" {
			return compose.Image()
		}
	}
	return t.settings.Environment.DockerImage
}

// spec returns the sandbox of a program: in the task's image, or on the service's own
// machine. Variables of the trial replace those of the image.
func (t *trial) spec(argv []string) sandbox.Spec {
	spec := sandbox.Spec{
		Argv: argv, Env: t.env, Dir: path.Join(t.inside, t.task.WorkingDir), Mounts: t.mounts(), Limits: t.outcome.Limits,
	}
	if t.image == nil {
		return spec
	}
	spec.Root, spec.Dir, spec.Env = t.imageRoot, t.imageWorkDir(), maps.Clone(t.image.Env)
	maps.Copy(spec.Env, t.env)
	// Without an overlay the root is a copy of the image, which counts, too.
	if t.imageRoot.Changes == "" {
		spec.Limits.Disk += t.image.Bytes
		spec.Limits.Files = max(spec.Limits.Files, 2_000_000)
	}
	return spec
}

// imageWorkDir is the working folder in the image: the case's, or else the image's own.
func (t *trial) imageWorkDir() string {
	if dir := path.Clean("/" + t.task.WorkingDir); dir != "/" {
		return dir
	}
	return path.Clean("/" + t.image.WorkingDir)
}

// finds reports whether a program can be found where the trial's programs run.
func (t *trial) finds(ctx context.Context, program string) (bool, error) {
	if t.image == nil {
		return sandbox.Finds(ctx, t.runner.Sandbox, program)
	}
	result, err := t.runner.Sandbox.Run(ctx, t.spec([]string{"/bin/sh", "-c", `command -v "$0" >/dev/null`, program}))
	return result.ExitCode == 0, err
}

// hostWorkDir returns the folder on the machine that has the files of the working
// folder. With an image it has only what was changed; the image's own files are below
// the overlay.
func (t *trial) hostWorkDir() (string, error) {
	if t.image == nil {
		return t.hostPath(t.task.WorkingDir), nil
	}
	root, err := os.OpenRoot(t.imageRoot.Written())
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := strings.TrimPrefix(t.imageWorkDir(), "/")
	return filepath.Join(root.Name(), dir), root.MkdirAll(filepath.Clean(dir), 0o755)
}
