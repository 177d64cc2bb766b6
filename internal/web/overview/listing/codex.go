package listing

import "unicode/utf8"

// Codex: two percent of the context window, in tokens; a description of at most so
// many characters, with its suffix.
const (
	codexPercent        = 2
	codexMaxDescription = 1_024
	codexSuffix         = "..."
	// codexRoot is where skills are taken to be installed: their paths are part of the
	// list.
	codexRoot = "/home/user/.agents/skills"
)

// codex lists descriptions as long as all fit. Then it hands out what is left beside
// the names, one character to each description in turn; if the names alone are too
// much, there are no descriptions and the last names by the alphabet are left out. When
// something does not fit, it may replace the folder in all paths by a short alias.
func codex(skills []Skill, window int64) Listing {
	limit := max(1, window*codexPercent/100)
	absolute := codexListing(skills, limit, codexRoot, 0)
	if absolute.complete() {
		return absolute
	}
	table := TokensOfBytes(len("### Skill roots\n") + len("- `r0` = `"+codexRoot+"`\n"))
	aliased := codexListing(skills, limit, "r0", table)
	if aliased.betterThan(absolute) {
		aliased.Needed = absolute.Needed
		return aliased
	}
	return absolute
}

// complete reports whether every description fits whole.
func (l Listing) complete() bool { return l.Needed <= l.Limit }

// betterThan compares two ways to list the same skills as Codex does.
func (l Listing) betterThan(o Listing) bool {
	omitted, cut := l.losses()
	otherOmitted, otherCut := o.losses()
	switch {
	case omitted != otherOmitted:
		return omitted < otherOmitted
	case cut != otherCut:
		return cut < otherCut
	}
	return l.Used < o.Used
}

// losses counts what the model does not see: skills, and characters of descriptions.
func (l Listing) losses() (omitted, cut int) {
	for _, line := range l.Lines {
		if line.Form == Omitted {
			omitted++
		}
		if line.Form == Truncated || line.Form == Bare {
			cut += min(runes(line.Text), codexMaxDescription) - line.Kept
		}
	}
	return omitted, cut
}

// codexListing makes the list with one way to write paths; table is what it takes to
// explain an alias.
func codexListing(skills []Skill, limit int64, root string, table int64) Listing {
	l := Listing{Unit: Tokens, Limit: limit, Needed: table, Used: table, Lines: make([]Line, len(skills))}
	names := int64(0)
	texts, allowed := make([]string, len(skills)), make([]bool, len(skills))
	for i, k := range skills {
		line := &l.Lines[i]
		line.Text = oneLine(k.Description)
		if k.Visibility.hides() { // policy.allow_implicit_invocation of agents/openai.yaml is false
			line.Form = Hidden
			continue
		}
		texts[i], allowed[i] = codexText(line.Text), true
		line.Form, line.Shown = Bare, codexLine(k.Name, "", root)
		line.Cost = TokensOf(line.Shown)
		line.Needed = TokensOf(codexLine(k.Name, texts[i], root))
		names += line.Cost
		l.Needed += line.Needed
	}
	// What remains for descriptions once every name is listed.
	left := limit - table - names
	if left < 0 {
		l.keepNames(skills, allowed, limit-table)
		return l
	}
	if l.complete() {
		left = l.Needed - table - names
	}
	kept := share(skills, texts, l.Lines, left)
	for i, k := range skills {
		line := &l.Lines[i]
		if !allowed[i] {
			continue
		}
		seen := texts[i][:kept[i]]
		line.Shown = codexLine(k.Name, seen, root)
		line.Cost = TokensOf(line.Shown)
		l.Used += line.Cost
		line.Kept = runes(seen)
		switch {
		case line.Text == "": // Bare
		case seen == line.Text:
			line.Form = Full
		case seen != "":
			line.Form = Truncated
			if seen == texts[i] {
				line.Kept -= runes(codexSuffix)
			}
			line.Kept = min(line.Kept, codexMaxDescription-runes(codexSuffix))
		}
	}
	return l
}

// keepNames keeps the names that fit, by the alphabet.
func (l *Listing) keepNames(skills []Skill, allowed []bool, limit int64) {
	for _, i := range byName(skills) {
		line := &l.Lines[i]
		switch {
		case !allowed[i]:
		case line.Cost <= limit:
			limit, l.Used = limit-line.Cost, l.Used+line.Cost
		default:
			*line = Line{Form: Omitted, Text: line.Text, Needed: line.Needed}
		}
	}
}

// share hands out tokens to descriptions, one character to each in turn, and returns
// how many bytes of each fit.
func share(skills []Skill, texts []string, lines []Line, left int64) []int {
	kept, open := make([]int, len(texts)), byName(skills)
	for changed := true; changed; {
		changed = false
		still := open[:0]
		for _, i := range open {
			if kept[i] == len(texts[i]) {
				continue
			}
			_, size := utf8.DecodeRuneInString(texts[i][kept[i]:])
			next := kept[i] + size
			// A description has a space of its own in the line.
			extra := func(bytes int) int64 {
				if bytes == 0 {
					return 0
				}
				return TokensOfBytes(len(lines[i].Shown)+1+bytes) - lines[i].Cost
			}
			if delta := extra(next) - extra(kept[i]); delta <= left {
				kept[i], left, changed = next, left-delta, true
			}
			// A description that did not get its character now may get one later:
			// tokens are rounded up per line.
			still = append(still, i)
		}
		open = still
	}
	return kept
}

// codexText caps a description, with the suffix included in the limit.
func codexText(s string) string {
	if runes(s) <= codexMaxDescription {
		return s
	}
	return prefix(s, codexMaxDescription-runes(codexSuffix)) + codexSuffix
}

// codexLine is one line of the list as Codex writes it.
func codexLine(name, text, root string) string {
	file := "(file: " + root + "/" + name + "/SKILL.md)\n"
	if text == "" {
		return "- " + name + ": " + file
	}
	return "- " + name + ": " + text + " " + file
}
