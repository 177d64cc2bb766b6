package lint

import (
	"slices"
	"sync"
)

// A Rule is one kind of finding.
type Rule struct {
	Code     string
	Category Category
	// Severity is the default: a finding may be less severe where something is
	// only mentioned, and two rules about hidden text can be more severe.
	Severity Severity
	// Title says what is wrong, Help what to do about it.
	Title, Help string
}

// Rules returns the rules in the order of the documentation.
func Rules() []Rule { return slices.Concat(specRules(), qualityRules(), securityRules()) }

func ruleOf(code string) (Rule, bool) {
	r, ok := rulesByCode()[code]
	return r, ok
}

var rulesByCode = sync.OnceValue(func() map[string]Rule {
	rules := map[string]Rule{}
	for _, r := range Rules() {
		rules[r.Code] = r
	}
	return rules
})

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

const (
	rotate  = "Revoke it where it was issued: anyone who has seen the skill has it. Read it from the environment instead."
	rewrite = "Remove the text; if the skill must speak of it, quote it in code and say that it is an example."
	unpack  = "Replace it by the file itself, below the skill's root."
)

// securityRules are the rules about what harm a skill could do.
func securityRules() []Rule {
	return []Rule{
		{"sec.unicode.tag_block", Security, Error, "Invisible tag characters hide text that models read.", "Remove the characters U+E0000 to U+E007F."},
		{"sec.unicode.zero_width", Security, Warning, "Invisible characters stand inside words or in long runs.", "Remove zero-width characters and surplus variation selectors."},
		{"sec.unicode.bidi_override", Security, Error, "Characters that turn the direction of text make it look other than it is.", "Remove the characters U+202A to U+202E and U+2066 to U+2069."},
		{"sec.unicode.homoglyph", Security, Warning, "A word mixes Latin letters with look-alikes of another script.", "Write the word in one script."},
		{"sec.secret.aws_key_id", Security, Error, "An AWS access key id is in the file.", rotate},
		{"sec.secret.repohost_token", Security, Error, "A token of a code host is in the file.", rotate},
		{"sec.secret.slack", Security, Error, "A Slack token or webhook is in the file.", rotate},
		{"sec.secret.discord", Security, Error, "A Discord webhook is in the file.", rotate},
		{"sec.secret.stripe", Security, Error, "A Stripe key is in the file.", rotate},
		{"sec.secret.google", Security, Error, "A Google key is in the file.", rotate},
		{"sec.secret.llm_provider", Security, Error, "A key of a model provider is in the file.", rotate},
		{"sec.secret.package_registry", Security, Error, "A token of a package registry is in the file.", rotate},
		{"sec.secret.mail_sms", Security, Error, "A key of a mail or SMS service is in the file.", rotate},
		{"sec.secret.private_key", Security, Error, "A private key is in the file.", rotate},
		{"sec.secret.jwt", Security, Error, "A signed token (JWT) is in the file.", rotate},
		{"sec.secret.connection_string", Security, Error, "A connection string with a password is in the file.", rotate},
		{"sec.secret.assigned", Security, Warning, "A value that looks like a secret is in the file.", rotate},
		{"sec.injection.override", Security, Error, "The text tells the model to drop or outrank other instructions.", rewrite},
		{"sec.injection.mode_switch", Security, Error, "The text declares an unrestricted mode or switches safety off.", rewrite},
		{"sec.injection.concealment", Security, Error, "The text tells the model to hide what it does from the user.", rewrite},
		{"sec.injection.reveal_prompt", Security, Warning, "The text asks for the system prompt or hidden configuration.", rewrite},
		{"sec.injection.hidden_markup", Security, Error, "Instructions stand where a reader does not see them.", "Remove them, or write them as visible text."},
		{"sec.exec.fetch_pipe_shell", Security, Error, "What is fetched from the network is run unseen.", "Fetch a pinned version to a file, check its hash, then run it."},
		{"sec.exec.eval", Security, Error, "Text is run as code.", "Parse the value, or choose from a list of known actions."},
		{"sec.exec.os_system", Security, Error, "A command is built as text and given to a shell.", "Start the program with a list of arguments."},
		{"sec.exec.shell_true", Security, Error, "A program is started through a shell.", "Give the arguments as a list, without a shell."},
		{"sec.exec.decode_and_run", Security, Error, "Encoded text is decoded and run at once.", "Write the code in the clear."},
		{"sec.exec.destructive", Security, Error, "The command can delete far more than the skill's own files.", "Name the folder, quote it, and refuse an empty one, as in ${DIR:?}."},
		{"sec.exfil.sensitive_read", Security, Error, "Credentials of the user are read.", "Let the program that needs them read them, or ask the user."},
		{"sec.exfil.read_and_send", Security, Error, "One file reads credentials or the environment and sends data out.", "Send only what is needed, by name."},
		{"sec.net.tls_disabled", Security, Warning, "The check of certificates is switched off.", "Keep it on; add a private authority to the trusted ones."},
		{"sec.supply.unpinned_install", Security, Info, "A package is installed without a version.", "Name the version, or install from a lock file."},
		{"sec.tools.undeclared", Security, Warning, "A script needs a tool that allowed-tools leaves out.", "Add the tool, such as Bash(python:*), or remove the script."},
		{"sec.tools.unrestricted", Security, Info, "allowed-tools grants a shell without limits.", "Name the commands, as in Bash(git:*)."},
		{"sec.path.traversal", Security, Error, "A path leaves the skill's folder.", "Pack the folder with relative names below it."},
		{"sec.path.control", Security, Error, "A path holds a control character.", "Rename the file."},
		{"sec.file.symlink", Security, Error, "A symbolic link leaves the folder or leads nowhere.", unpack},
		{"sec.file.hardlink", Security, Error, "A hard link points at something else than an earlier file.", unpack},
		{"sec.file.device", Security, Error, "A member is a device, a pipe or a socket.", "Leave it out."},
		{"sec.file.setuid", Security, Error, "A file has the setuid, setgid or sticky bit.", "Clear the bit."},
		{"sec.file.executable_binary", Security, Error, "The file is a compiled program, which cannot be reviewed.", "Ship the source, or fetch a pinned release when it is needed."},
		{"sec.file.magic_mismatch", Security, Warning, "The content is not what the name says.", "Rename the file after its content; save text as UTF-8."},
		{"sec.file.nested_archive", Security, Warning, "The file is an archive, which no rule looks into.", "Unpack it into the skill."},
		{"sec.file.hidden_code", Security, Warning, "A hidden file holds code.", "Give it a name without a leading dot, in scripts/."},
		{"sec.file.oversized", Security, Info, "The file is larger than 5 MB.", "Fetch it when it is needed, or leave it out."},
		{"sec.file.too_many", Security, Info, "The skill has more than 100 files.", "Leave out what the skill does not need, with a .skillignore."},
		{"sec.file.not_scanned", Security, Warning, "The skill has so much suspicious text that not all of it was examined.", "Split the file, or remove generated text."},
	}
}

// specRules are the rules about the format, and about what some clients refuse.
func specRules() []Rule {
	return []Rule{
		{"spec.root.missing", Spec, Error, "The skill has no files.", "Add a SKILL.md with a name and a description."},
		{"spec.root.not_directory", Spec, Error, "The skill path is not a folder.", "Name the folder that holds SKILL.md."},
		{"spec.skill_md.missing", Spec, Error, "No SKILL.md at the skill root.", "Put a SKILL.md at the root of the folder, and pack one skill at a time."},
		{"spec.skill_md.lowercase_name", Spec, Warning, "The file is named skill.md; clients look for SKILL.md.", "Rename it to SKILL.md."},
		{"spec.skill_md.not_utf8", Spec, Error, "SKILL.md is not valid UTF-8.", "Save it as UTF-8."},
		{"spec.skill_md.bom", Spec, Warning, "SKILL.md begins with a byte-order mark.", "Save it as UTF-8 without a byte-order mark."},
		{"spec.frontmatter.missing", Spec, Error, "No frontmatter block.", "Begin SKILL.md with a line ---, the fields name and description, and another line ---."},
		{"spec.frontmatter.unclosed", Spec, Error, "The frontmatter is never closed.", "Add a line --- after the last field."},
		{"spec.frontmatter.too_long", Spec, Error, "The frontmatter is longer than 64 KiB.", "Move text to the body."},
		{"spec.frontmatter.yaml_invalid", Spec, Error, "The frontmatter is not valid YAML.", "Fix the line; a value with a colon or a quote needs quotes around it."},
		{"spec.frontmatter.not_mapping", Spec, Error, "The frontmatter must be key: value lines.", "Write one field a line, such as name: my-skill."},
		{"spec.frontmatter.ambiguous_fence", Spec, Warning, "--- stands inside a value; some readers stop there.", "Write the value without three hyphens in a row."},
		{"spec.frontmatter.yaml_feature", Spec, Warning, "The frontmatter uses anchors, tags or flow style, which strict readers refuse.", "Write plain key: value lines."},
		{"spec.frontmatter.repaired", Spec, Warning, "The value needs quotes; strict readers refuse it.", "Put quotes around the value."},
		{
			"spec.field.unknown", Spec, Info, "The specification does not know a field.",
			"Move it below metadata, or keep it if your client needs it.",
		},
		{"spec.name.missing", Spec, Error, "The field name is required.", "Add a line name: with the name of the folder."},
		{"spec.name.empty", Spec, Error, "The field name is empty.", "Write the name of the folder as text."},
		{"spec.name.too_long", Spec, Error, "The name is longer than 64 characters.", "Choose a shorter name."},
		{"spec.name.not_lowercase", Spec, Error, "The name must be lowercase.", "Write the name in lowercase."},
		{"spec.name.edge_hyphen", Spec, Error, "The name may not begin or end with a hyphen.", "Remove the hyphen."},
		{"spec.name.double_hyphen", Spec, Error, "The name may not contain two hyphens in a row.", "Keep one hyphen."},
		{"spec.name.bad_character", Spec, Error, "The name holds a character that is not allowed.", "Use lowercase letters, digits and hyphens."},
		{"spec.name.directory_mismatch", Spec, Warning, "Folder and name differ.", "Give the folder the name of the skill."},
		{"spec.description.missing", Spec, Error, "The field description is required.", "Say what the skill does and when to use it."},
		{"spec.description.empty", Spec, Error, "The field description is empty.", "Say what the skill does and when to use it."},
		{"spec.description.too_long", Spec, Error, "The description is longer than 1024 characters.", "Keep what tells when to use the skill, and move the rest to the body."},
		{"spec.compatibility.not_string", Spec, Error, "compatibility must be text.", "Write one line of text of 1 to 500 characters."},
		{"spec.compatibility.too_long", Spec, Error, "compatibility is longer than 500 characters.", "Keep what a client must have, and move the rest to the body."},
		{"spec.compatibility.empty", Spec, Error, "compatibility is empty.", "Remove the field, or say what the skill needs."},
		{"spec.metadata.not_string_map", Spec, Warning, "metadata must be a map of text to text.", "Write every value as text, one level deep."},
		{"spec.metadata.requires_invalid", Spec, Warning, "A part of metadata.requires names no skill.", "Write names with ranges of versions, such as pdf-tables >= 1.2, acme/charts."},
		{"spec.allowed_tools.not_string", Spec, Warning, "allowed-tools must be one text.", "Write the tools on one line, separated by spaces."},
		{"port.name.non_ascii", Spec, Info, "Several hosts take only a to z, 0 to 9 and hyphens in a name.", "Use ASCII letters if the skill is to be published."},
		{"port.name.reserved_word", Spec, Info, "Some hosts reserve the words anthropic and claude in names.", "Choose a name without them if the skill is to be published."},
		{"port.description.angle_brackets", Spec, Info, "Some packaging tools refuse < and > in the description.", "Write the description without angle brackets."},
	}
}
