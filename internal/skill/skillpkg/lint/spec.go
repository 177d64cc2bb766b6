package lint

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// readSkill parses SKILL.md and turns the parser's notes into findings. If it
// cannot be parsed, c.skill stays nil and the checks that need it are skipped:
// one fault should not be reported several times.
func (c *check) readSkill() error {
	if len(c.pkg.Files) == 0 {
		c.found.add(remark{code: "spec.root.missing"})
		return nil
	}
	if err := c.pkg.RequireSkill(); err != nil {
		refusal, _ := errors.AsType[*skillpkg.Error](err)
		c.found.add(remark{code: "spec.skill_md.missing", message: sentence(refusal)})
		return nil
	}
	if c.pkg.SkillPath != "SKILL.md" {
		c.spec("spec.skill_md.lowercase_name", 0, "")
	}
	skill, err := c.pkg.Skill()
	if refusal, ok := errors.AsType[*skillpkg.Error](err); ok {
		r := remark{code: string(refusal.Code), path: c.pkg.SkillPath, line: refusal.Line}
		if refusal.Code == skillpkg.CodeYAMLInvalid {
			r.message = sentence(refusal) // with the parser's detail
		}
		c.found.add(r)
		return nil
	}
	if err != nil {
		return err
	}
	c.skill = &skill
	for _, note := range skill.Notes {
		c.spec(string(note.Code), note.Line, "")
	}
	return nil
}

// spec adds a finding about SKILL.md.
func (c *check) spec(code string, line int, format string, args ...any) {
	c.found.add(remark{code: code, path: c.pkg.SkillPath, line: line, message: fmt.Sprintf(format, args...)})
}

func (c *check) checkFrontmatter() {
	if extra := c.skill.Extra(); len(extra) > 0 { // once: clients have fields of their own
		var keys []string
		for _, f := range extra {
			keys = append(keys, strconv.Quote(f.Key))
		}
		c.spec("spec.field.unknown", extra[0].Line, "The specification does not know the field %s.", strings.Join(keys, ", "))
	}
	if f := c.field("name"); f.Key == "" {
		c.spec("spec.name.missing", 1, "")
	} else {
		c.checkName(f.Line)
	}
	switch f := c.field("description"); {
	case f.Key == "":
		c.spec("spec.description.missing", 1, "")
	case c.skill.Description == "":
		c.spec("spec.description.empty", f.Line, "")
	default:
		if n := utf8.RuneCountInString(c.skill.Description); n > maxDescription {
			c.spec("spec.description.too_long", f.Line, "The description has %d characters; the limit is %d.", n, maxDescription)
		}
		if strings.ContainsAny(c.skill.Description, "<>") {
			c.spec("port.description.angle_brackets", f.Line, "")
		}
	}
	_, problems := requires.Parse(c.skill.Metadata[requires.Key])
	for _, problem := range problems {
		c.spec("spec.metadata.requires_invalid", c.field("metadata").Line, "metadata.requires: %s.", problem)
	}
	f := c.field("compatibility")
	if _, isText := f.Value.(string); !isText {
		return // the field is missing, or the parser has a note on it
	}
	if c.skill.Compatibility == "" {
		c.spec("spec.compatibility.empty", f.Line, "")
	}
	if n := utf8.RuneCountInString(c.skill.Compatibility); n > maxCompatibility {
		c.spec("spec.compatibility.too_long", f.Line, "compatibility has %d characters; the limit is %d.", n, maxCompatibility)
	}
}

// field returns a field of the frontmatter; its key is "" if there is none.
func (c *check) field(key string) skillpkg.Field {
	for _, f := range c.skill.Fields {
		if f.Key == key {
			return f
		}
	}
	return skillpkg.Field{}
}

func (c *check) checkName(line int) {
	name := c.skill.Name
	if name == "" {
		c.spec("spec.name.empty", line, "")
		return
	}
	if n := utf8.RuneCountInString(name); n > maxName {
		c.spec("spec.name.too_long", line, "The name has %d characters; the limit is %d.", n, maxName)
	}
	if strings.ToLower(name) != name {
		c.spec("spec.name.not_lowercase", line, "")
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		c.spec("spec.name.edge_hyphen", line, "")
	}
	if strings.Contains(name, "--") {
		c.spec("spec.name.double_hyphen", line, "")
	}
	bad := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '-' }
	if i := strings.IndexFunc(name, bad); i >= 0 {
		bad, _ := utf8.DecodeRuneInString(name[i:])
		c.spec("spec.name.bad_character", line, "The name holds the character %s.", strconv.QuoteRune(bad))
	}
	folder := norm.NFKC.String(c.pkg.Folder)
	if folder != "" && folder != name {
		c.spec("spec.name.directory_mismatch", line, "The folder is %s and the name is %s.",
			strconv.Quote(folder), strconv.Quote(name))
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		c.spec("port.name.non_ascii", line, "")
	}
	if reservedWord.MatchString(name) {
		c.spec("port.name.reserved_word", line, "")
	}
}

var reservedWord = regexp.MustCompile(`(^|-)(anthropic|claude)(-|$)`)
