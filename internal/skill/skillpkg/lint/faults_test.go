package lint_test

import (
	"fmt"
	"strings"
)

// A fault is a good skill that was broken in one way.
type fault struct {
	name string
	code string
	// want is "severity path:line" of the only finding.
	want    string
	changes files
}

func added(severity string) string { return fmt.Sprintf("%s SKILL.md:%d", severity, firstAdded) }

func specFaults() []fault {
	long := strings.Repeat("x", 600)
	return []fault{
		{"no skill file", "spec.skill_md.missing", "error", files{"SKILL.md": ""}},
		{"two skills", "spec.skill_md.missing", "error", files{"SKILL.md": "", "a/SKILL.md": skillText, "b/SKILL.md": skillText}},
		{"lower-case file name", "spec.skill_md.lowercase_name", "warning skill.md", files{"SKILL.md": "", "skill.md": skillText, "references/guide.md": "# Guide\n"}},
		{"Latin-1", "spec.skill_md.not_utf8", "error SKILL.md", body("caf\xe9")},
		{"byte-order mark", "spec.skill_md.bom", "warning SKILL.md:1", files{"SKILL.md": "\ufeff" + skillText}},
		{"no frontmatter", "spec.frontmatter.missing", "error SKILL.md:1", files{"SKILL.md": "# PDF tables\n"}},
		{"no closing fence", "spec.frontmatter.unclosed", "error SKILL.md:1", files{"SKILL.md": "---\nname: pdf-tables\n"}},
		{"huge frontmatter", "spec.frontmatter.too_long", "error SKILL.md:1", edit("license: MIT", "license: "+strings.Repeat("x", 70_000))},
		{"bad YAML", "spec.frontmatter.yaml_invalid", "error SKILL.md:1", edit("license: MIT", "license: \"MIT")},
		{"key twice", "spec.frontmatter.yaml_invalid", "error SKILL.md:5", edit("license: MIT", "license: MIT\nlicense: MIT")},
		{"list", "spec.frontmatter.not_mapping", "error SKILL.md:1", files{"SKILL.md": "---\n- name\n---\n\nText.\n"}},
		{"fence in a value", "spec.frontmatter.ambiguous_fence", "warning SKILL.md:1", edit("license: MIT", "license: a --- b")},
		{"flow style", "spec.frontmatter.yaml_feature", "warning SKILL.md:6", edit("metadata:\n  version: \"1.2.0\"", "metadata: {version: \"1.2.0\"}")},
		{"colon in a value", "spec.frontmatter.repaired", "warning SKILL.md:4", edit("license: MIT", "license: MIT: see LICENSE")},
		{"unknown field", "spec.field.unknown", "info SKILL.md:4", edit("license: MIT", "model: fast")},
		{"unknown fields", "spec.field.unknown", "info SKILL.md:4", edit("license: MIT", "model: fast\ncolor: red\nauthor: me")},
		{"no name", "spec.name.missing", "error SKILL.md:1", edit("name: pdf-tables\n", "")},
		{"blank name", "spec.name.empty", "error SKILL.md:2", edit("name: pdf-tables", "name: \" \"")},
		{"list for a name", "spec.name.empty", "error SKILL.md:2", edit("name: pdf-tables", "name:\n  - pdf-tables")},
		{"mismatched folder", "spec.name.directory_mismatch", "warning SKILL.md:2", edit("name: pdf-tables", "name: pdf-table")},
		{"no description", "spec.description.missing", "error SKILL.md:1", edit("description: Extracts tables from PDF files as CSV. Use when the user asks for tables or figures of a PDF.\n", "")},
		{"empty description", "spec.description.empty", "error SKILL.md:3", edit("Extracts tables from PDF files as CSV. Use when the user asks for tables or figures of a PDF.", "\"\"")},
		{"long description", "spec.description.too_long", "error SKILL.md:3", edit("Extracts", strings.Repeat("extracts ", 115))},
		{"list of compatibility", "spec.compatibility.not_string", "error SKILL.md:5", edit("compatibility: Needs Python 3.11.", "compatibility:\n  - python")},
		{"long compatibility", "spec.compatibility.too_long", "error SKILL.md:5", edit("Needs Python 3.11.", long)},
		{"empty compatibility", "spec.compatibility.empty", "error SKILL.md:5", edit("Needs Python 3.11.", "\"\"")},
		{"requirement without a range", "spec.metadata.requires_invalid", "warning SKILL.md:6", edit("  version: \"1.2.0\"", "  requires: pdf >= new, charts")},
		{"nested metadata", "spec.metadata.not_string_map", "warning SKILL.md:6", edit("  version: \"1.2.0\"", "  client:\n    level: 1")},
		{"list of tools", "spec.allowed_tools.not_string", "warning SKILL.md:8", edit("allowed-tools: Read Bash(python:*)", "allowed-tools:\n  - Read\n  - Bash(python:*)")},
		{"angle brackets", "port.description.angle_brackets", "info SKILL.md:3", edit("as CSV", "as <CSV>")},
	}
}

// nameFaults are about the name alone, so the folder is of no interest.
func nameFaults() []fault {
	named := func(name string) files { return edit("name: pdf-tables", "name: "+name) }
	return []fault{
		{"long name", "spec.name.too_long", "error SKILL.md:2", named(strings.Repeat("a", 65))},
		{"capitals", "spec.name.not_lowercase", "error SKILL.md:2", named("PDF-tables")},
		{"hyphen first", "spec.name.edge_hyphen", "error SKILL.md:2", named("-tables")},
		{"hyphen last", "spec.name.edge_hyphen", "error SKILL.md:2", named("tables-")},
		{"two hyphens", "spec.name.double_hyphen", "error SKILL.md:2", named("pdf--tables")},
		{"underscore", "spec.name.bad_character", "error SKILL.md:2", named("pdf_tables")},
		{"umlaut", "port.name.non_ascii", "info SKILL.md:2", named("geräte")},
		{"reserved word", "port.name.reserved_word", "info SKILL.md:2", named("claude-tables")},
	}
}

func qualityFaults() []fault {
	const description = "Extracts tables from PDF files as CSV. Use when the user asks for tables or figures of a PDF."
	queries := func(yes, no int) string {
		all := append(repeat(yes, `{"query": "q", "should_trigger": true}`), repeat(no, `{"query": "q", "should_trigger": false}`)...)
		return "[" + strings.Join(all, ",") + "]"
	}
	evals := func(text string) files { return files{"evals/evals.json": text} }
	return []fault{
		{"many lines", "qual.body.too_many_lines", "warning SKILL.md:501", body("%s", strings.Repeat("- a\n", 490))},
		{"many tokens", "qual.body.too_many_tokens", "warning SKILL.md", body("%s", strings.Repeat("Extract the table. ", 1200))},
		{"no body", "qual.body.empty", "warning SKILL.md", files{"SKILL.md": strings.SplitAfter(skillText, "---\n")[0] + strings.SplitAfter(skillText, "---\n")[1]}},
		{"short description", "qual.description.too_short", "warning SKILL.md:3", edit(description, "Use for PDF tables.")},
		{"wordy description", "qual.description.too_wordy", "info SKILL.md:3", edit(description, description+strings.Repeat(" pdf", 201))},
		{"no when", "qual.description.no_when", "info SKILL.md:3", edit(" Use when the user asks for tables or figures of a PDF.", "")},
		{"generic", "qual.description.too_generic", "info SKILL.md:3", edit(description, "Helps the user with any task. Use it when the user asks for something.")},
		{"broken link", "qual.link.broken", added("warning"), body("See [more](references/more.md).")},
		{"broken definition", "qual.link.broken", added("warning"), body("[more]: references/more.md")},
		{"broken link in a reference", "qual.link.broken", "warning references/forms.txt.md:1", files{"references/forms.txt.md": "[x](nowhere.md)", "SKILL.md": skillText}},
		{"absolute link", "qual.link.absolute", added("warning"), body("See [more](/etc/hosts).")},
		{"drive", "qual.link.absolute", added("warning"), body(`See [more](C:\guide.md).`)},
		{"link out", "qual.link.escapes_root", added("warning"), body("See [more](../other/SKILL.md).")},
		{"deep link", "qual.link.too_deep", added("warning"), files{"SKILL.md": skillText + "See [more](references/a/b.md).\n", "references/a/b.md": "# B\n"}},
		{"long reference", "qual.reference.no_toc", "info references/guide.md", files{"references/guide.md": "# Guide\n" + strings.Repeat("Text.\n", 301)}},
		{"no evals", "qual.evals.missing", "info", files{"evals/evals.json": ""}},
		{"bad evals", "qual.evals.unparseable", "warning evals/evals.json", evals("{")},
		{"no expectations", "qual.evals.no_checks", "warning evals/evals.json", evals(`{"evals": [{"prompt": "p", "expectations": ["e"]}, {"prompt": "q"}]}`)},
		{"no expected behaviour", "qual.evals.no_checks", "warning evals/evals.json", evals(`{"cases": [{"question": "p"}]}`)},
		{"few negatives", "qual.trigger_evals.unbalanced", "info evals/triggers.json", files{"evals/triggers.json": queries(8, 7)}},
	}
}

func repeat(n int, s string) []string {
	var all []string
	for range n {
		all = append(all, s)
	}
	return all
}

// key makes a secret that no scanner of this repository should find in it.
func key(prefix string, n int) string {
	const random = "q7Rk2Zp9Xw4Tn6Bv8Hs3Jd5Lf1Mg0CyQeUiOaKtWxNrPzVbGhSjDlFmAcEuYoIvT"
	return prefix + strings.Repeat(random, 6)[:n]
}

func secretFaults() []fault {
	pem := "-----BEGIN RSA PRIVATE " + "KEY-----\n" + key("", 64) + "\n" + key("x", 63) + "\n-----END RSA PRIVATE " + "KEY-----"
	escaped := strings.ReplaceAll(pem, "\n", `\n`)
	upper := strings.ToUpper(key("", 16))
	all := []fault{
		{"AWS", "sec.secret.aws_key_id", "", body("id: AKIA%s", upper)},
		{"classic token", "sec.secret.repohost_token", "", body("%s", key("ghp_", 36))},
		{"fine-grained token", "sec.secret.repohost_token", "", body("%s", key("github_pat_", 82))},
		{"other host's token", "sec.secret.repohost_token", "", body("%s", key("glpat-", 20))},
		{"Slack token", "sec.secret.slack", "", body("%s", key("xox"+"b-", 24))},
		{"Slack webhook", "sec.secret.slack", "", body("https://hooks.slack.com/services/T%s/B%s/%s", upper[:8], upper[:8], key("", 24))},
		{"Discord", "sec.secret.discord", "", body("https://discord.com/api/webhooks/175928847299117063/%s", key("", 60))},
		{"Stripe", "sec.secret.stripe", "", body("%s", key("sk_"+"live_", 24))},
		{"Google key", "sec.secret.google", "", body("%s", key("AI"+"za", 35))},
		{"Google account", "sec.secret.google", "error account.json:1", files{"account.json": fmt.Sprintf(`{"type": "service_account", "private_key": "%s"}`, escaped)}},
		{"model provider", "sec.secret.llm_provider", "", body("%s", key("sk-"+"ant-", 80))},
		{"registry", "sec.secret.package_registry", "", body("%s", key("npm_", 36))},
		{"mail", "sec.secret.mail_sms", "", body("%s.%s", key("SG.", 22), key("", 43))},
		{"SMS", "sec.secret.mail_sms", "", body("SK%s", strings.Repeat("0a1b2c3d4e5f6978", 2))},
		{"private key", "sec.secret.private_key", "", body("%s", pem)},
		{"JWT", "sec.secret.jwt", "", body("%s.%s.%s", key("eyJ", 30), key("eyJ", 40), key("", 43))},
		{"connection", "sec.secret.connection_string", "", body("postgres://svc:%s@db.corp.internal/x", key("", 12))},
		{"account key", "sec.secret.connection_string", "", body("AccountName=a;AccountKey=%s==", key("", 86))},
		{"assigned", "sec.secret.assigned", "warning scripts/a.py:1", files{"scripts/a.py": fmt.Sprintf("API_KEY = %q\n", key("", 24))}},
		{"after examples", "sec.secret.aws_key_id", "", body("%s AKIA%s", strings.Repeat("AKIAIOSFODNN7EXAMPLE ", 20), upper)},
		{"at the end of a long line", "sec.secret.aws_key_id", "", body("%s AKIA%s", strings.Repeat("word ", 1000), upper)},
		{"in an example", "sec.secret.aws_key_id", "warning examples/a.txt:1", files{"examples/a.txt": "AKIA" + upper}},
		{"with zero-width characters in it", "sec.secret.aws_key_id", "", body("AKIA\u200b%s", upper)},
		{"in a script", "sec.secret.aws_key_id", "error scripts/a.sh:2", files{"scripts/a.sh": "echo\nAKIA" + upper}},
	}
	for i := range all {
		if all[i].want == "" {
			all[i].want = added("error")
		}
	}
	return all
}
