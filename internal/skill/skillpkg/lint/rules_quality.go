package lint

// qualityRules are the rules about how well a skill will work. They never make
// a report fail.
func qualityRules() []Rule {
	return []Rule{
		{"qual.body.too_many_lines", Quality, Warning, "SKILL.md has more than 500 lines.", "Move details to files in references/ and link to them."},
		{"qual.body.too_many_tokens", Quality, Warning, "The body of SKILL.md has more than about 5,000 tokens.", "Move details to files in references/ and link to them."},
		{"qual.body.empty", Quality, Warning, "SKILL.md has no text below its frontmatter.", "Write down what to do, step by step."},
		{"qual.description.too_short", Quality, Warning, "The description has fewer than 20 characters.", "Say what the skill does and when to use it."},
		{"qual.description.too_wordy", Quality, Info, "The description has more than 200 words.", "Every session carries it: keep what tells when to use the skill."},
		{"qual.description.no_when", Quality, Info, "The description does not say when to use the skill.", "Add a sentence such as: Use when the user asks for ..."},
		{"qual.description.too_generic", Quality, Info, "The description would fit nearly any request.", "Name the things the skill works on, and the words a user would say."},
		{"qual.link.broken", Quality, Warning, "The link leads to no file of the skill.", "Fix the link, or add the file."},
		{"qual.link.absolute", Quality, Warning, "The link is absolute.", "Link relative to the skill's root."},
		{"qual.link.escapes_root", Quality, Warning, "The link leaves the skill's folder.", "Copy the file into the skill and link to the copy."},
		{"qual.link.too_deep", Quality, Warning, "SKILL.md links to a file more than one folder deep.", "Keep files that SKILL.md needs at most one folder deep: agents may read deeper ones only in part."},
		{"qual.reference.no_toc", Quality, Info, "The reference has more than 300 lines and no list of contents.", "Begin it with a list of its sections: agents often read the first lines only."},
		{"qual.evals.missing", Quality, Info, "The skill has no evals.", "Add evals/evals.json with a few prompts and what to expect."},
		{"qual.evals.unparseable", Quality, Warning, "The eval file is not valid JSON.", "Fix the file."},
		{"qual.evals.no_checks", Quality, Warning, "An eval case says nothing about what to expect.", "Add expectations to the case."},
		{"qual.trigger_evals.unbalanced", Quality, Info, "Fewer than 8 queries should trigger the skill, or fewer than 8 should not.", "Add queries, near misses above all, until there are 8 of each."},
	}
}
