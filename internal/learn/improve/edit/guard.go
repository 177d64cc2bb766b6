package edit

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

const (
	// maxDescription is how many characters the format of skills allows a
	// description.
	maxDescription = 1024
	// maxText bounds the time and the memory of a check: a second or two, and 10 MB.
	maxText = 256 << 10
)

// A Guard checks a changed SKILL.md before anything is spent on scoring it: text
// that a model wrote must not make a skill do something else. It errs on the safe side: a refused
// edit costs one candidate, an allowed one may reach every user of the skill.
type Guard struct {
	// Files are the paths of the other files of the skill, to which the text may
	// link.
	Files []string
	// HeldOut are all texts of the cases that the writer has not seen. A text that
	// repeats them would be scored by what it copied.
	HeldOut []string
}

// Check returns what is wrong with a SKILL.md after changes; what was wrong before
// does not count. The problems quote nothing of either text, so they can be sent to
// the model that wrote it. Its error means that the check could not be made.
func (g Guard) Check(ctx context.Context, before, after string) (problems []string, err error) {
	defer fault.Wrap(&err, "guard")
	if len(before) > maxText || len(after) > maxText {
		return []string{"SKILL.md is longer than 256 KiB"}, nil
	}
	was, err := skillpkg.ParseSkill([]byte(before))
	if err != nil {
		return []string{"the skill has no valid frontmatter"}, nil
	}
	now, err := skillpkg.ParseSkill([]byte(after))
	if err != nil {
		return []string{"the frontmatter is no longer valid"}, nil
	}
	found := func(bad bool, problem string) {
		if bad {
			problems = append(problems, problem)
		}
	}
	found(!slices.EqualFunc(was.Fields, now.Fields, func(f, g skillpkg.Field) bool {
		return f.Key == g.Key && (f.Key == "description" || reflect.DeepEqual(f.Value, g.Value))
	}), "a field of the frontmatter other than description was changed")
	found(utf8.RuneCountInString(now.Description) > maxDescription,
		fmt.Sprintf("the description has more than %d characters", maxDescription))
	grown := utf8.RuneCountInString(after) - utf8.RuneCountInString(before)
	found(grown > growthLimit(before), fmt.Sprintf("the text has grown by more than %d %% and more than about %d tokens",
		int(100*maxGrowth), maxGrowthRunes/runesPerToken))
	found(addsInvisible(before, after), "invisible characters, or ones that turn the direction of text, were added")
	found(adds(before, after, comments), "a hidden comment was added")
	found(adds(before, after, urls), "a URL or a host name was added")
	problems = append(problems, addedCommands(was, now)...)
	found(repeats(g.HeldOut, before, after), "text of a case that the writer must not know was added")
	rules, err := g.newFindings(ctx, before, after)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		problems = append(problems, "validation has a new finding: "+r)
	}
	return problems, nil
}

// newFindings returns the rules of which the validation finds more than before. Findings are
// counted by rule, severity and evidence, and not by line: lines move.
func (g Guard) newFindings(ctx context.Context, before, after string) (rules []string, err error) {
	type kind struct {
		code     string
		severity lint.Severity
		evidence string
	}
	known := map[kind]int{}
	old, err := g.findings(ctx, before)
	if err != nil {
		return nil, err
	}
	for _, f := range old {
		known[kind{f.Code, f.Severity, f.Evidence}]++
	}
	now, err := g.findings(ctx, after)
	if err != nil {
		return nil, err
	}
	for _, f := range now {
		k := kind{f.Code, f.Severity, f.Evidence}
		if known[k]--; known[k] < 0 && !slices.Contains(rules, f.Code) {
			rules = append(rules, f.Code)
		}
	}
	return rules, nil
}

// findings validates a skill whose other files are there, but empty. Their content doesn't matter
// for a change of SKILL.md; that they exist does, for links.
func (g Guard) findings(ctx context.Context, skillMD string) ([]lint.Finding, error) {
	parts := []skillpkg.Part{skillpkg.TextPart("SKILL.md", skillMD)}
	for _, path := range g.Files {
		if path != "SKILL.md" {
			parts = append(parts, skillpkg.TextPart(path, ""))
		}
	}
	limits := skillpkg.StoredLimits()
	limits.Files = max(limits.Files, len(parts))
	pkg, err := skillpkg.FromParts(ctx, parts, limits)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	report, err := lint.Check(ctx, pkg)
	return report.Findings, err
}

// adds reports whether a text has something that it did not have before.
func adds(before, after string, list func(string) []string) bool {
	known := map[string]bool{}
	for _, s := range list(before) {
		known[s] = true
	}
	return slices.ContainsFunc(list(after), func(s string) bool { return !known[s] })
}

// addsInvisible reports whether a text has more of any character that is not seen.
func addsInvisible(before, after string) bool {
	count := map[rune]int{}
	for _, r := range before {
		if isInvisible(r) {
			count[r]++
		}
	}
	for _, r := range after {
		if isInvisible(r) {
			if count[r]--; count[r] < 0 {
				return true
			}
		}
	}
	return false
}

// isInvisible reports whether a character is not seen, or makes others look
// different. Fillers are letters that are drawn as nothing.
func isInvisible(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Bidi_Control) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
