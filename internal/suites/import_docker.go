package suites

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
)

// layOut decides the path of each file of the task in the environment's archive:
// tests, solution and the files beside them stay where they are, and the files
// of the environment go where its Dockerfile copies them. No image is built. It
// returns the folder in which the verifier starts.
func (t *task) layOut() (workingDir string, err error) {
	t.layout = map[string]skillpkg.File{}
	for _, f := range t.files {
		name := strings.TrimPrefix(f.Path, t.root)
		if top, _, nested := strings.Cut(name, "/"); !nested || top == "tests" || top == "solution" {
			t.put(name, f)
		}
	}
	if err := t.checkCompose(); err != nil {
		return "", err
	}
	text, ok, err := t.read(taskfile.Dockerfile)
	if err != nil || !ok {
		return "", err
	}
	d := dockerfile{task: t, workdir: "/"}
	for _, line := range taskfile.DockerInstructions(text) {
		if d.execute(line); len(t.reasons) > 0 {
			return "", nil
		}
	}
	if d.hasRun {
		t.warn("the RUN lines of its Dockerfile are not carried out: what they install must be on the service's machine")
	}
	return strings.Trim(d.workdir, "/"), nil
}

// checkCompose refuses an environment of several services.
func (t *task) checkCompose() error {
	for _, file := range taskfile.ComposeFiles {
		text, ok, err := t.read(file)
		if err != nil {
			return err
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
		if len(compose.Services) > 1 {
			t.refuse("its " + name + " has more than one service")
		}
		for _, service := range compose.Services {
			if service.Image != "" {
				t.checkImage(service.Image)
			}
		}
	}
	return nil
}

// replaceableImages are those for which the service's own machine can stand in:
// what tasks use of them is a shell and an interpreter.
var replaceableImages = []string{"scratch", "debian", "ubuntu", "buildpack-deps", "bash", "python"}

// checkImage takes an image reference, e.g. "docker.io/library/python:3.12@sha256:...".
func (t *task) checkImage(image string) {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/"), "@")
	name, _, _ = strings.Cut(name, ":")
	if !slices.Contains(replaceableImages, name) {
		t.refuse("its image " + image + " cannot be built here; tasks on " +
			strings.Join(replaceableImages[1:], ", ") + " can be imported")
		return
	}
	if name != "scratch" {
		t.warn("it runs on the service's own system, not in " + image)
	}
}

// A dockerfile interprets the instructions that copy files.
type dockerfile struct {
	task    *task
	workdir string
	hasFrom bool
	hasRun  bool
}

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
	case "RUN":
		d.hasRun = true
	case "COPY", "ADD":
		d.copy(instruction, rest)
	}
}

func dropFlags(words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "--") })
}

// resolve makes a path of the image absolute. Clean keeps it below the root.
func (d *dockerfile) resolve(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = d.workdir + "/" + p
	}
	return path.Clean("/" + p)
}

// copy takes the operands of COPY and ADD, as words or as a JSON array. It
// refuses other stages, here-documents, URLs and variables.
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

const skillsDir = "skills/"

// skillBundle returns where to put the skill under test: in the place of the
// environment's only skill, or at the default path.
func (t *task) skillBundle() string {
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
