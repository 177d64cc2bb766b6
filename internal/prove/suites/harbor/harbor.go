// Package harbor converts task folders in the format of Harbor and SkillsBench into
// cases. It finds out what a task needs, says why one can't be a case here, and packs
// its environment. It owns no tables.
package harbor

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// maxEnvironments bounds the environments of all tasks of an archive together,
// unpacked: each file of the archive twice, on average.
const maxEnvironments = 100 << 20

// environmentSpace is what the tasks of one archive share. An archive may have
// hundreds of tasks, and the Dockerfile of each may copy the same file many
// times: with a limit for each task only, 10 MiB would become gigabytes of blobs.
type environmentSpace struct {
	left int64 // of maxEnvironments
}

// A Task is a Harbor task folder.
type Task struct {
	Name string // of the folder
	// Reasons say why the task can't be a case, and Warnings in what it will run
	// differently from what its author meant. Case sets both.
	Reasons, Warnings []string

	files []skillpkg.File
	root  string // of the folder in the package, with its slash, or ""
	pkg   *skillpkg.Package
	// layout maps paths in the environment's archive to files of the package. folders
	// are those that must exist even if they are empty.
	layout    map[string]skillpkg.File
	folders   []string
	variables map[string]string // of its docker-compose.yaml
	bytes     int64             // of the files in layout
	space     *environmentSpace
	// buildable means that the task's image can be built here; if not, missing is the
	// reason. needsImage means that the service's own machine can't stand in for the
	// image.
	buildable, needsImage bool
	missing               string
	severalServices       bool
}

// maxTaskText bounds the text files of a task: the instruction must fit into an
// environment variable, which Linux bounds to 128 KiB.
const maxTaskText = 120 << 10

// Find returns the task folders of an archive: those with a task.toml. A task at the
// root is named after the archive.
func Find(p *skillpkg.Package, archive string) []*Task {
	var all []*Task
	space := &environmentSpace{left: maxEnvironments}
	for _, f := range p.Installed() {
		if path.Base(f.Path) != taskfile.Manifest {
			continue
		}
		t := &Task{
			Name: path.Base(path.Dir(f.Path)), root: strings.TrimSuffix(f.Path, taskfile.Manifest), pkg: p, space: space,
		}
		if t.root == "" {
			t.Name = cmp.Or(archive, "task")
		}
		for _, f := range p.Installed() {
			if rest, ok := strings.CutPrefix(f.Path, t.root); ok && rest != "" {
				t.files = append(t.files, f)
			}
		}
		all = append(all, t)
	}
	return all
}

// refuse adds a reason why the task can't be a case.
func (t *Task) refuse(reason string) {
	if !slices.Contains(t.Reasons, reason) { // a limit is exceeded by every further file
		t.Reasons = append(t.Reasons, reason)
	}
}

func (t *Task) warn(warning string) { t.Warnings = append(t.Warnings, warning) }

// read returns a file of the task, and whether there is one. A file that is too long
// makes the task refused.
func (t *Task) read(name string) (text string, ok bool, err error) {
	i := slices.IndexFunc(t.files, func(f skillpkg.File) bool { return f.Path == t.root+name })
	if i < 0 {
		return "", false, nil
	}
	if t.files[i].Size > maxTaskText {
		t.refuse("its " + name + " is longer than 120 KiB")
		return "", true, nil
	}
	content, err := t.pkg.ReadFile(t.root + name)
	return string(content), true, err
}

// put adds a file to the layout. A Dockerfile can copy a file many times, so the sum is
// bounded like an upload, and over all tasks of the archive.
func (t *Task) put(name string, f skillpkg.File) {
	limits, added := skillpkg.DefaultLimits(), f.Size-t.layout[name].Size
	if t.bytes += added; t.bytes > limits.Unpacked || len(t.layout) >= limits.Files {
		t.refuse("its environment is too large")
		return
	}
	if t.space.left -= added; t.space.left < 0 {
		t.refuse(fmt.Sprintf("the environments of the archive have more than %d MiB together; import fewer tasks at once",
			maxEnvironments>>20))
		return
	}
	t.layout[name] = f
}

// maxFolders bounds the folders that a Dockerfile creates.
const maxFolders = 100

// addFolder adds a folder, by its path in the image, to the archive.
func (t *Task) addFolder(name string) {
	if name = strings.TrimPrefix(name, "/"); name != "" && len(t.folders) < maxFolders {
		t.folders = append(t.folders, name)
	}
}

// A Service is where the cases will run.
type Service struct {
	// Missing says why the image of a task cannot be had there, or "".
	Missing func(context.Context, environments.Recipe) string
	// Store keeps the archive of an environment, and returns a reference to it.
	Store func(ctx context.Context, archive []byte) (ref string, err error)
}

// Case converts the task into the fields of a case, and stores its environment. If the
// task is refused it returns nil, and Reasons say why. An error means that the service
// failed.
func (t *Task) Case(ctx context.Context, s Service, oracle bool) (map[string]json.RawMessage, error) {
	settings, err := t.settings()
	if err != nil {
		return nil, err
	}
	instruction, _, err := t.read(taskfile.Instruction)
	if err != nil {
		return nil, err
	}
	verifier, ok, err := t.read(taskfile.DefaultVerifier)
	if err != nil {
		return nil, err
	}
	if len(settings.Steps) > 0 {
		if instruction, verifier, err = t.readSteps(settings.Steps, ok); err != nil {
			return nil, err
		}
	} else if !ok {
		t.refuse("it has no " + taskfile.DefaultVerifier)
	}
	if err := t.findImage(ctx, s, settings); err != nil {
		return nil, err
	}
	workingDir, err := t.layOut(settings)
	if err != nil || len(t.Reasons) > 0 {
		return nil, err
	}
	archive, err := t.pack(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := s.Store(ctx, archive)
	if err != nil {
		return nil, err
	}
	c := harborCase{
		Kind: "task_package", Name: cmp.Or(settings.Title(), t.Name), TaskID: t.Name, Source: "harbor",
		Tags: settings.Tags(), Weight: 1,
		EnvironmentRef: ref, Instruction: instruction, VerifierRef: taskfile.DefaultVerifier, SkillBundleRef: t.skillBundle(),
		Hints: harborHints{WorkingDir: workingDir, TimeoutMS: settings.TimeoutMS(), Env: t.env(settings)},
	}
	c.Hints.NeedsImage = t.needsImage
	needs := settings.Resources()
	c.Hints.CPUs, c.Hints.MemoryMB, c.Hints.StorageMB = needs.CPUs, needs.Memory>>20, needs.Storage>>20
	if use := taskfile.NetworkUse(verifier); use != "" {
		c.Tags = append(c.Tags, "needs_network")
		t.warn("its verifier needs the network (" + use + "), which the sandbox does not have")
	}
	if oracle {
		if c.OracleRef = t.oracle(settings.Steps); c.OracleRef == "" {
			t.warn("it has no " + taskfile.Solution + " to run as oracle")
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(raw, &fields)
}

// readSteps returns the instructions and the verifiers of all steps. It refuses a task
// if one of its steps has none.
func (t *Task) readSteps(steps []taskfile.Step, hasVerifier bool) (instructions, verifiers string, err error) {
	for i, step := range steps {
		dir := taskfile.StepsDir + step.Name + "/"
		instruction, ok, err := t.read(dir + taskfile.Instruction)
		if err != nil {
			return "", "", err
		}
		if !ok {
			t.refuse("its step " + step.Name + " has no " + taskfile.Instruction)
		}
		verifier, ok, err := t.read(dir + taskfile.DefaultVerifier)
		if err != nil {
			return "", "", err
		}
		if !ok && !hasVerifier {
			t.refuse("its step " + step.Name + " has no " + taskfile.DefaultVerifier)
		}
		instructions += fmt.Sprintf("Step %d of %d: %s\n\n%s\n", i+1, len(steps), step.Name, strings.TrimSpace(instruction))
		verifiers += verifier + "\n"
	}
	if len(instructions) > maxTaskText {
		t.refuse("the instructions of its steps are longer than 120 KiB")
	}
	return instructions, verifiers, nil
}

// oracle returns the path of the task's solution, or of the first that a step has;
// "" if there is none.
func (t *Task) oracle(steps []taskfile.Step) string {
	candidates := []string{taskfile.Solution}
	for _, step := range steps {
		candidates = append(candidates, taskfile.StepsDir+step.Name+"/"+taskfile.Solution)
	}
	for _, name := range candidates {
		if _, ok := t.layout[name]; ok {
			return name
		}
	}
	return ""
}

// settings parses task.toml, and refuses what no sandbox here provides: GPUs and MCP
// servers.
func (t *Task) settings() (s taskfile.Settings, err error) {
	text, _, err := t.read(taskfile.Manifest)
	if err != nil {
		return s, err
	}
	if s, err = taskfile.ParseManifest(text); err != nil {
		t.refuse("its task.toml cannot be read: " + err.Error())
		return s, nil //nolint:nilerr // a bad task is refused by itself, and the import goes on
	}
	if s.Environment.GPUs > 0 {
		t.refuse(fmt.Sprintf("it needs %d GPUs, and there are none", s.Environment.GPUs))
	}
	if len(s.Environment.MCPServers) > 0 {
		t.refuse("it needs MCP servers, and there are none")
	}
	return s, nil
}

// env returns the environment variables of the task's case: those of its service, its
// environment and its verifier, without the ones that a case may not set.
func (t *Task) env(s taskfile.Settings) map[string]string {
	given, all := map[string]string{}, map[string]string{}
	for _, more := range []map[string]string{t.variables, s.Environment.Env, s.Verifier.Env} {
		maps.Copy(given, more)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, ok := taskfile.ExpandDefaults(given[name])
		reason := taskfile.RefusedVariable(name)
		switch {
		case reason != "":
			t.warn("the variable " + name + " is left out: " + reason)
		case !ok:
			t.warn("the variable " + name + " is left out: its value would come from the machine that starts the task")
		default:
			all[name] = value
		}
	}
	return all
}

// harborCase is the JSON of the case that a task becomes.
type harborCase struct {
	Kind           string      `json:"case_kind"`
	Name           string      `json:"name"`
	TaskID         string      `json:"task_id"`
	Source         string      `json:"source"`
	Tags           []string    `json:"tags,omitempty"`
	Weight         int         `json:"weight"`
	EnvironmentRef string      `json:"environment_ref"`
	Instruction    string      `json:"instruction"`
	VerifierRef    string      `json:"verifier_ref"`
	SkillBundleRef string      `json:"skill_bundle_ref"`
	OracleRef      string      `json:"oracle_ref,omitempty"`
	Hints          harborHints `json:"resource_hints"`
}

type harborHints struct {
	WorkingDir string            `json:"working_dir,omitempty"`
	TimeoutMS  int64             `json:"timeout_ms"`
	CPUs       float64           `json:"cpus,omitempty"`
	MemoryMB   int64             `json:"memory_mb,omitempty"`
	StorageMB  int64             `json:"storage_mb,omitempty"`
	NeedsImage bool              `json:"needs_image,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
}

// pack makes the environment's archive, a tar.gz. It is reproducible: the same
// files give the same bytes, and so the same blob.
func (t *Task) pack(ctx context.Context) ([]byte, error) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	names := slices.Sorted(maps.Keys(t.layout))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		content, err := t.pkg.ReadFile(t.layout[name].Path)
		if err != nil {
			return nil, err
		}
		if err := writeMember(tw, name, t.layout[name].Mode, content); err != nil {
			return nil, err
		}
	}
	slices.Sort(t.folders)
	for _, name := range slices.Compact(t.folders) {
		if slices.ContainsFunc(names, func(file string) bool { return name == file || strings.HasPrefix(name, file+"/") }) {
			continue // a file is in its place
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	err := zw.Close()
	return buf.Bytes(), err
}

func writeMember(tw *tar.Writer, name string, mode fs.FileMode, content []byte) error {
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: int64(mode.Perm())})
	if err != nil {
		return err
	}
	_, err = tw.Write(content)
	return err
}
