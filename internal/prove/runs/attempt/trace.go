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

// contaminated is the problem of a trial without the skill that was not without it:
// what it would be compared with is not what it looks like.
func contaminated(how string) error {
	return &Problem{Contaminated, how + "; this trial is the one without it"}
}

// isCalled reports whether a text calls a skill in the way of agents, e.g.
// "/pdf-tables" or "$pdf-tables". The bare name may be a word like "pdf".
func isCalled(text, skill string) bool {
	return regexp.MustCompile(`(?:^|\s)[/$]` + regexp.QuoteMeta(skill) + `(?:$|[^\w/-])`).MatchString(text)
}

// frontMatterName is the name in the front matter of a SKILL.md.
var frontMatterName = regexp.MustCompile(`(?s)\A---\r?\n(?:.*?\n)?name:[ \t]*["']?([a-z0-9][a-z0-9-]{0,63})["']?[ \t]*\r?\n.*?\n?---`)

var notInNames = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// SkillName is the name under which agents know a skill, which is also its folder:
// that of its SKILL.md, or else the given one, as far as it can be a folder.
func SkillName(skillMD, name string) string {
	if found := frontMatterName.FindStringSubmatch(skillMD); found != nil {
		return found[1]
	}
	return cmp.Or(strings.Trim(notInNames.ReplaceAllString(name, "-"), "-"), "skill")
}

// memories are the files that agents read before they begin.
var memories = []string{"AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"}

// maxMemory is how much of such a file is read.
const maxMemory = 1 << 20

// findTrace returns what names a skill in an environment: its folder, or a file
// that agents read before they begin; "" if there is nothing. It does not look into
// the folders without.
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

// systemDirs of an image have programs, and most of its files.
var systemDirs = []string{"bin", "boot", "dev", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr", "var"}

// findTraceInImage is findTrace for an image. It is the same for all trials.
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
