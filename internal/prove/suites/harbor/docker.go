package harbor

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// layOut decides the path of each file of the task in the environment's archive:
// tests, solution, steps, the build context and the files at the top stay where they
// are. For a service without the task's image, the files of the context are also
// where its Dockerfile copies them, as far as that can be followed. It returns the
// folder in which the verifier starts, or "" for the image's own.
func (t *Task) layOut(s taskfile.Settings) (workingDir string, err error) {
	t.layout = map[string]skillpkg.File{}
	for _, f := range t.files {
		name := strings.TrimPrefix(f.Path, t.root)
		top, _, nested := strings.Cut(name, "/")
		if rest, ok := strings.CutPrefix(name, taskfile.EnvironmentDir+skillsDir); ok {
			// Keep the folder of a skill that is left out: a Dockerfile may copy it.
			folder := path.Join(taskfile.EnvironmentDir, skillsDir)
			if name, _, nested := strings.Cut(rest, "/"); nested {
				folder = path.Join(folder, name)
			}
			t.addFolder(folder) // the skill under test replaces it
			continue
		}
		if !nested || slices.Contains(keptFolders, top) {
			t.put(name, f)
		}
	}
	if len(t.Reasons) > 0 {
		return "", nil
	}
	plain, folders, warnings := maps.Clone(t.layout), slices.Clone(t.folders), slices.Clone(t.Warnings)
	if workingDir, err = t.standIn(s); err != nil || !t.buildable || t.severalServices {
		return workingDir, err
	}
	t.Warnings = warnings // it does not run on the service's own system
	if len(t.Reasons) > 0 {
		t.layout, t.folders, t.Reasons, t.needsImage = plain, folders, nil, true
		workingDir = strings.Trim(path.Clean("/"+s.Environment.WorkDir), "/")
	}
	return workingDir, nil
}

// composeImage returns the image of the task's only service, or "".
func (t *Task) composeImage() string {
	for _, file := range taskfile.ComposeFiles {
		text, ok, err := t.read(file)
		if err != nil || !ok {
			continue
		}
		compose, _ := taskfile.ParseCompose(text) // readCompose refuses one that cannot be read
		return compose.Image()
	}
	return ""
}

// keptFolders are the folders of a task that go into its archive unchanged.
var keptFolders = []string{"environment", "solution", "steps", "tests"}

// standIn lays the files out for the service's own machine, and refuses the task if
// that machine can't stand in for its image.
func (t *Task) standIn(s taskfile.Settings) (workingDir string, err error) {
	text, ok, err := t.read(taskfile.Dockerfile)
	if err != nil {
		return "", err
	}
	// If there is a Dockerfile, an image that its authors have built of it isn't
	// needed.
	if s.Environment.DockerImage != "" && !ok {
		t.checkImage(s.Environment.DockerImage)
	}
	service, err := t.readCompose(ok)
	if err != nil {
		return "", err
	}
	d := dockerfile{task: t, workdir: "/"}
	for _, line := range taskfile.DockerInstructions(text) {
		if d.execute(line); len(t.Reasons) > 0 {
			return "", nil
		}
	}
	if d.hasRun {
		t.warn("the RUN lines of its Dockerfile are not carried out: what they install must be on the service's machine")
	}
	if dir := cmp.Or(s.Environment.WorkDir, service.WorkingDir); dir != "" {
		d.execute("WORKDIR " + dir)
	}
	return strings.Trim(d.workdir, "/"), nil
}

// findImage decides whether the task's image can be built here.
func (t *Task) findImage(ctx context.Context, s Service, settings taskfile.Settings) error {
	text, ok, err := t.read(taskfile.Dockerfile)
	if err != nil {
		return err
	}
	recipe := environments.Recipe{Dockerfile: text, Images: taskfile.Images(text)}
	if !ok {
		recipe = environments.OfImage(cmp.Or(t.composeImage(), settings.Environment.DockerImage))
	}
	if slices.Contains(recipe.Images, "") {
		return nil // it has no image
	}
	t.missing = s.Missing(ctx, recipe)
	t.buildable = t.missing == ""
	return nil
}

// readCompose returns the only service of the task's docker-compose.yaml, if it has
// one. It refuses a task of several services.
func (t *Task) readCompose(hasDockerfile bool) (service taskfile.Service, err error) {
	for _, file := range taskfile.ComposeFiles {
		text, ok, err := t.read(file)
		if err != nil {
			return service, err
		}
		if !ok {
			continue
		}
		name := path.Base(file)
		compose, err := taskfile.ParseCompose(text)
		if err != nil {
			t.refuse("its " + name + " cannot be read")
			continue
		}
		if t.severalServices = len(compose.Services) > 1; t.severalServices {
			t.refuse("its " + name + " has more than one service")
		}
		for _, service = range compose.Services {
			switch {
			case !service.Builds():
				t.checkImage(service.Image)
			case !service.Build.IsDefault():
				t.refuse("its " + name + " does not build environment/Dockerfile")
			case !hasDockerfile:
				t.refuse("its " + name + " builds environment/Dockerfile, which is not there")
			}
		}
		t.variables = service.Environment
		break // Compose reads the first
	}
	return service, nil
}

// replaceableImages are images for which the service's own machine can stand in: tasks
// use only a shell and an interpreter of them.
var replaceableImages = []string{"scratch", "debian", "ubuntu", "buildpack-deps", "bash", "python"}

// checkImage refuses an image that the service's own machine can't stand in for.
func (t *Task) checkImage(image string) {
	name := taskfile.ImageName(image)
	if !slices.Contains(replaceableImages, name) {
		t.refuse("its image " + image + " cannot be had here (" + t.missing + "), and the service's own system stands in for " +
			strings.Join(replaceableImages[1:], ", ") + " only")
		return
	}
	if name != "scratch" {
		t.warn("it runs on the service's own system, not in " + image)
	}
}

// A dockerfile follows what a Dockerfile does with files and folders, without building
// it.
type dockerfile struct {
	task    *Task
	workdir string
	hasFrom bool
	hasRun  bool
}

// execute follows one instruction; those that concern neither files nor folders are
// ignored.
func (d *dockerfile) execute(line string) {
	instruction, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToUpper(instruction) {
	case "FROM":
		if d.hasFrom {
			d.task.refuse("its Dockerfile has several stages")
			return
		}
		d.hasFrom = true
		if words := dropFlags(strings.Fields(rest)); len(words) > 0 {
			d.task.checkImage(words[0])
		}
	case "WORKDIR":
		d.workdir = d.resolve(strings.Trim(rest, `"`))
		d.task.addFolder(d.workdir)
	case "RUN":
		d.run(rest)
	case "COPY", "ADD":
		d.copy(instruction, rest)
	}
}

// run creates the folders that a RUN line makes by mkdir. The rest of the line isn't
// carried out.
func (d *dockerfile) run(line string) {
	for command := range strings.SplitSeq(line, "&&") {
		words := strings.Fields(command)
		if len(words) < 2 || words[0] != "mkdir" {
			d.hasRun = true
			continue
		}
		for _, folder := range words[1:] {
			if !strings.HasPrefix(folder, "-") && !strings.ContainsAny(folder, "$*?[{;|<>\"'`\\") {
				d.task.addFolder(d.resolve(folder))
			}
		}
	}
}

func dropFlags(words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "--") })
}

// resolve makes a path in the image absolute. Clean keeps it below the root.
func (d *dockerfile) resolve(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = d.workdir + "/" + p
	}
	return path.Clean("/" + p)
}

// copy follows COPY and ADD, whose operands are words or a JSON array. Other stages,
// here-documents, URLs and variables are refused: they can't be followed without a
// build.
func (d *dockerfile) copy(instruction, rest string) {
	unsupported := slices.ContainsFunc([]string{"--from=", "<<", "://", "$"}, func(s string) bool {
		return strings.Contains(rest, s)
	})
	words := dropFlags(strings.Fields(rest))
	if unsupported || strings.HasPrefix(rest, "[") && json.Unmarshal([]byte(rest), &words) != nil || len(words) < 2 {
		d.task.refuse("its Dockerfile has a line that cannot be followed: " + instruction + " " + rest)
		return
	}
	to := words[len(words)-1]
	for _, from := range words[:len(words)-1] {
		if !d.copyOne(strings.Trim(path.Clean("/"+from), "/"), to, len(words) > 2) {
			d.task.refuse("its Dockerfile copies " + from + ", which is not in its environment")
		}
	}
}

// copyOne copies a file, the files of a folder, or those that match a pattern,
// and reports whether there are any. The skills of the environment are left out:
// the skill under test replaces them.
func (d *dockerfile) copyOne(from, to string, several bool) bool {
	found := false
	for _, f := range d.task.files {
		name, ok := strings.CutPrefix(f.Path, d.task.root+taskfile.EnvironmentDir)
		if !ok || name == "Dockerfile" {
			continue
		}
		rest, ok := cutDir(name, from)
		if !ok {
			continue
		}
		found = true
		if strings.HasPrefix(name, skillsDir) {
			continue
		}
		target := d.resolve(to)
		if rest != "" {
			target = path.Join(target, rest)
		} else if several || strings.HasSuffix(to, "/") || to == "." || strings.ContainsAny(from, "*?[") {
			target = path.Join(target, path.Base(name))
		}
		d.task.put(strings.TrimPrefix(target, "/"), f)
	}
	return found
}

// cutDir returns the path of a file relative to a folder, and "" for the file
// that from names or matches as a pattern.
func cutDir(name, from string) (rest string, ok bool) {
	if from == "" {
		return name, true
	}
	if matches, err := path.Match(from, name); name == from || err == nil && matches {
		return "", true
	}
	return strings.CutPrefix(name, from+"/")
}

// skillsDir is the folder of skills in a task's build context.
const skillsDir = "skills/"

// skillBundle returns where to put the skill under test: in the place of the
// environment's only skill, or at the default path.
func (t *Task) skillBundle() string {
	var names []string
	for _, f := range t.files {
		rest, ok := strings.CutPrefix(f.Path, t.root+taskfile.EnvironmentDir+skillsDir)
		if name, file, _ := strings.Cut(rest, "/"); ok && file == "SKILL.md" {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return taskfile.EnvironmentDir + skillsDir + names[0]
	}
	if len(names) > 1 {
		t.warn("it comes with several skills, none of which is there when it runs: only the skill under test is")
	}
	return taskfile.DefaultSkillBundle
}
