package attempt

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// contaminated is the problem of a trial in the arm without the skill that had access
// to the skill after all. It gets no verdict, since it would bias the comparison.
func contaminated(how string) error {
	return &Problem{Contaminated, how + "; this trial is the one without it"}
}

// isCalled reports whether a text calls a skill as one does in an agent's prompt, e.g.
// "/pdf-tables" or "$pdf-tables". The bare name doesn't count: it may be a word like
// "pdf".
func isCalled(text, skill string) bool {
	return regexp.MustCompile(`(?:^|\s)[/$]` + regexp.QuoteMeta(skill) + `(?:$|[^\w/-])`).MatchString(text)
}

// frontMatterName is the name in the front matter of a SKILL.md.
var frontMatterName = regexp.MustCompile(`(?s)\A---\r?\n(?:.*?\n)?name:[ \t]*["']?([a-z0-9][a-z0-9-]{0,63})["']?[ \t]*\r?\n.*?\n?---`)

// notInNames matches what a skill's folder name can't have; it becomes a hyphen.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// SkillName returns the name by which agents know a skill, which is also the name of
// its folder: the one in its SKILL.md, or else name with unsuitable characters replaced
// by hyphens.
func SkillName(skillMD, name string) string {
	if found := frontMatterName.FindStringSubmatch(skillMD); found != nil {
		return found[1]
	}
	return cmp.Or(strings.Trim(notInNames.ReplaceAllString(name, "-"), "-"), "skill")
}

// memories are the instruction files that agents load at the start of a session. One
// that mentions the skill leads the agent to it.
var memories = []string{"AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"}

// maxMemory is how many bytes of such a file are searched.
const maxMemory = 1 << 20

// findTrace searches dir for traces of a skill: a SKILL.md in a folder of its name, or
// an instruction file that mentions it. It returns e.g. "the file app/CLAUDE.md", or ""
// if there is none. The folders in without are skipped.
func findTrace(dir, skill string, without ...string) (trace string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	named := regexp.MustCompile(`(?:^|[^\w-])` + regexp.QuoteMeta(skill) + `(?:$|[^\w-])`)
	err = fs.WalkDir(root.FS(), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(without, p) {
			return fs.SkipDir
		}
		isSkill := path.Base(p) == "SKILL.md" && path.Base(path.Dir(p)) == skill
		if isMemory := slices.Contains(memories, path.Base(p)); isMemory && entry.Type().IsRegular() {
			content, err := fs.ReadFile(root.FS(), p)
			if err != nil {
				return err
			}
			isSkill = named.Match(content[:min(len(content), maxMemory)])
		}
		if isSkill {
			trace = "the file " + p
			return fs.SkipAll
		}
		return nil
	})
	return trace, err
}

// systemDirs hold an image's programs and most of its files. Skipping them keeps the
// search fast.
var systemDirs = []string{"bin", "boot", "dev", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr", "var"}

// findTraceInImage is findTrace for an image. The result is cached: images are
// read-only and shared by all trials of the run.
func (m *Maker) findTraceInImage(dir, skill string) (string, error) {
	key := [2]string{dir, skill}
	if found, ok := m.images.Load(key); ok {
		return found.(string), nil
	}
	trace, err := findTrace(dir, skill, systemDirs...)
	if err == nil {
		m.images.Store(key, trace)
	}
	return trace, err
}
