package suites

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
)

// draftTasks reads an archive of one or several Harbor task folders: each
// folder with a task.toml is one.
func (s *Service) draftTasks(ctx context.Context, orgID string, f Import) (d draft, err error) {
	if err := s.Quota.Room(ctx, orgID, f.Size); err != nil {
		return d, err // before anything is stored
	}
	p, err := skillpkg.Open(ctx, f.Content, f.Size, skillpkg.DefaultLimits())
	if err != nil {
		return d, err
	}
	defer p.Close()
	d = draft{NewSuite: NewSuite{SourceKind: Imported, VerifierKind: Deterministic, SupportsNoSkill: true}}
	tasks := tasksOf(p, baseName(f.Filename))
	if len(tasks) < 1 || len(tasks) > maxCases {
		return d, fault.Invalid("file", "the archive must have 1 to %d folders with a task.toml, not %d", maxCases, len(tasks))
	}
	for _, t := range tasks {
		fields, err := s.importTask(ctx, orgID, t, f.Oracle)
		if err != nil {
			return d, err
		}
		if len(t.reasons) > 0 {
			d.refused = append(d.refused, Refusal{t.name, t.reasons})
			continue
		}
		d.Cases = append(d.Cases, fields)
		for _, w := range t.warnings {
			d.warnings = append(d.warnings, t.name+": "+w)
		}
	}
	if len(tasks) == 1 {
		d.Name = tasks[0].name
	}
	if len(d.Cases) == 0 {
		return d, allRefused(d.refused)
	}
	return d, nil
}

func allRefused(refused []Refusal) error {
	var issues []fault.Issue
	for _, r := range refused {
		for _, reason := range r.Reasons {
			issues = append(issues, fault.Issue{Path: []string{"file", r.Task}, Message: r.Task + ": " + reason})
		}
	}
	return fault.Issues(issues...)
}

// A task is a Harbor task folder.
type task struct {
	name     string // of the folder
	files    []skillpkg.File
	root     string // of the folder in the package, with its slash, or ""
	pkg      *skillpkg.Package
	reasons  []string // why it cannot be a case
	warnings []string
	// placed maps paths of the environment's archive to files of the package.
	placed map[string]skillpkg.File
	bytes  int64 // of what was placed
}

// maxTaskText bounds the files of a task that are read as a whole; an
// instruction must fit into a variable.
const maxTaskText = 120 << 10

// tasksOf finds the task folders. The archive's own name stands for that of a
// task at its root.
func tasksOf(p *skillpkg.Package, archive string) []*task {
	var all []*task
	for _, f := range p.Installed() {
		if path.Base(f.Path) != taskfile.Manifest {
			continue
		}
		t := &task{name: path.Base(path.Dir(f.Path)), root: strings.TrimSuffix(f.Path, taskfile.Manifest), pkg: p}
		if t.root == "" {
			t.name = cmp.Or(archive, "task")
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

func (t *task) refuse(reason string) { t.reasons = append(t.reasons, reason) }

func (t *task) warn(warning string) { t.warnings = append(t.warnings, warning) }

// read returns a file of the task, and whether there is one. A task with one
// that is too long is refused.
func (t *task) read(name string) (text string, ok bool, err error) {
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

// put places a file, unless that would make the environment larger than the
// archive that it comes in may be: a Dockerfile can copy a file many times.
func (t *task) put(name string, f skillpkg.File) {
	limits := skillpkg.DefaultLimits()
	if t.bytes += f.Size - t.placed[name].Size; t.bytes > limits.Unpacked || len(t.placed) >= limits.Files {
		t.refuse("its environment is too large")
		return
	}
	t.placed[name] = f
}

// importTask turns a task into a case, and keeps its environment unless the
// task is refused.
func (s *Service) importTask(ctx context.Context, orgID string, t *task, oracle bool) (Fields, error) {
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
	if !ok {
		t.refuse("it has no " + taskfile.DefaultVerifier)
	}
	working, err := t.place()
	if err != nil || len(t.reasons) > 0 {
		return nil, err
	}
	archive, err := t.archive(ctx, working)
	if err != nil {
		return nil, err
	}
	ref, err := s.putEnvironment(ctx, orgID, archive)
	if err != nil {
		return nil, err
	}
	c := harborCase{
		Kind: TaskPackage, Name: cmp.Or(settings.Title(), t.name), TaskID: t.name, Source: "harbor", Tags: settings.Tags(), Weight: 1,
		EnvironmentRef: ref, Instruction: instruction, VerifierRef: taskfile.DefaultVerifier, SkillBundleRef: t.skillBundle(),
		Hints: harborHints{WorkingDir: working, TimeoutMS: settings.TimeoutMS(), Env: t.env(settings.Verifier.Env)},
	}
	if use := taskfile.NetworkUse(verifier); use != "" {
		c.Tags = append(c.Tags, "needs_network")
		t.warn("its verifier needs the network (" + use + "), which the sandbox does not have")
	}
	if oracle {
		c.OracleRef = t.oracle()
	}
	return c.fields()
}

func (t *task) oracle() string {
	if _, ok := t.placed[taskfile.Solution]; ok {
		return taskfile.Solution
	}
	t.warn("it has no " + taskfile.Solution + " to run as oracle")
	return ""
}

// harborCase is the case that a task becomes.
type harborCase struct {
	Kind           CaseKind    `json:"case_kind"`
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
	Env        map[string]string `json:"env,omitempty"`
}

func (c harborCase) fields() (f Fields, err error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return f, json.Unmarshal(raw, &f)
}

// archive packs what was placed, the same bytes for the same files. It holds
// the working folder, also if nothing was copied there.
func (t *task) archive(ctx context.Context, working string) ([]byte, error) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	names := slices.Sorted(maps.Keys(t.placed))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		content, err := t.pkg.ReadFile(t.placed[name].Path)
		if err != nil {
			return nil, err
		}
		if err := writeMember(tw, name, t.placed[name].Mode, content); err != nil {
			return nil, err
		}
	}
	if working != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, working+"/") }) {
		if err := writeMember(tw, working+"/.gitkeep", 0o644, nil); err != nil {
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
