package lint

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
