package lint

import (
	"regexp"
	"strings"
)

const (
	fetchers = `(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)`
	shells   = `(?:\S*/)?(?:ba|z|da|k)?sh\b`
	// interpreters run standard input only if no other argument follows.
	interpreters = `(?:\S*/)?(?:python[0-9.]*|node|perl|ruby)\s*-?\s*(?:$|[;&|)"'` + "`" + `])`

	// Something has to be fetched: "curl | sh" only names the habit.
	fetchText = `(?i)\b` + fetchers + `\b[^\n|]*[a-z0-9$][^\n|]*\|\s*(?:sudo\s+(?:-\S+\s+)*)?` +
		`(?:` + shells + `|` + interpreters + `|iex\b|invoke-expression\b)` +
		`|\b(?:sh|bash|zsh|eval|source|python[0-9.]*)\s+(?:-c\s+)?["']?(?:<\(|\$\(|` + "`" + `)\s*` + fetchers + `\b` +
		`|\b(?:iex|invoke-expression)\s*["']?\s*[&$(][^\n]*?(?:\b` + fetchers + `\b|downloadstring)`

	decodeText = `(?i)\bbase64\s+(?:-d|--decode)\b[^\n]*\|\s*(?:sudo\s+)?(?:` + shells + `|` + interpreters + `)` +
		`|\bxxd\s+-r[^\n]*\|\s*` + shells +
		`|(?:\beval|\bexec|new Function)\s*\([^\n]*?(?:b64decode|a2b_base64|fromhex|unhexlify|decompress|\batob\(|base64)` +
		`|\bpowershell\b[^\n]*\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{20,}`

	// A quoted variable that is empty deletes nothing; one that is followed by
	// a slash deletes everything.
	destroyText = `(?i)\brm\s+(?:-[a-z-]+\s+)*-[a-z]*r[a-z]*\s+(?:-\S+\s+)*` +
		`["']?(?:/\*?|~/?\*?|\$\{?HOME\}?/?\*?|\$\{?[a-z_]\w*\}?/["']?\*?)["']?(?:[\s;&|)` + "`" + `]|$)` +
		`|\brm\s+(?:-[a-z-]+\s+)*-[a-z]*r[a-z]*\s+(?:-\S+\s+)*\$\{?[a-z_]\w*\}?(?:[\s;&|)` + "`" + `]|$)` +
		`|\bmkfs(?:\.\w+)?\s+\S*/dev/|\bdd\s[^\n]*\bof=/dev/(?:sd|nvme|hd|disk)|\bformat\s+[cd]:(?:\s|$)` +
		`|:\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:|\brmtree\(\s*(?:["']/["']|["']~|os\.path\.expanduser\(["']~["']\)` +
		`|Path\.home\(\)\s*[,)])`

	tlsText = `\bverify\s*=\s*False\b|\bcurl\b[^\n|;]*\s(?:-[a-zA-Z]*k[a-zA-Z]*|--insecure)(?:\s|$)` +
		`|\bwget\b[^\n|;]*--no-check-certificate` +
		`|NODE_TLS_REJECT_UNAUTHORIZED["'\]]*\s*=\s*["']?0|rejectUnauthorized["']?\s*:\s*false|InsecureSkipVerify:\s*true` +
		`|sslVerify[ =]+false|GIT_SSL_NO_VERIFY=(?:1|true)|_create_unverified_context|-SkipCertificateCheck`

	installText = `\b(?:pip3?|uv pip|pipx)\s+install\s[^\n;&|` + "`" + `)]*` +
		`|\b(?:npm\s+(?:install|i|add)|yarn(?:\s+global)?\s+add|pnpm\s+(?:add|install))\s[^\n;&|` + "`" + `)]*` +
		`|\b(?:npx|uvx|bunx)\s[^\n;&|` + "`" + `)]*`
)

func execPatterns() []pattern {
	fetch := run("sec.exec.fetch_pipe_shell", fetchText, "curl", "wget", "iwr ", " irm ", "(irm ",
		"invoke-webrequest", "invoke-restmethod", "downloadstring")
	fetch.also = []string{"|", "$(", "<(", "`", "iex", "invoke-expression"}
	fetch.weigh = func(r *remark, m match) {
		if isInstaller(m.line.text[m.from:m.end]) {
			r.severity = Info
		}
	}
	install := run("sec.supply.unpinned_install", installText, "pip install", "pip3 install", "pipx install",
		"npm install", "npm i ", "npm add", "yarn add",
		"yarn global add", "pnpm add", "npx ", "uvx ", "bunx ")
	install.accept = isUnpinned
	destructive := run("sec.exec.destructive", destroyText, "rm -", "mkfs", "of=/dev", "format c:", "format d:", ":()", ":|:",
		"rmtree")
	destructive.accept = func(m match) bool { return !strings.HasSuffix(m.before(), "Bash(") } // a permission, granted or denied
	return []pattern{
		run("sec.exec.decode_and_run", decodeText, "base64", "xxd -r", "b64", "fromhex", "unhexlify", "decompress",
			"atob", "powershell"),
		fetch,
		inProgram(python, "sec.exec.eval", `(?:^|[^\w.])(?:eval|exec)\s*\(\s*(?:[^)\s]|$)`, "eval", "exec"),
		inProgram(script, "sec.exec.eval", `(?:^|[^\w.$])eval\s*\(\s*(?:[^)\s]|$)|\b(?:window|globalThis)\.eval\s*\(`+
			`|\bnew Function\s*\(`, "eval", "new function"),
		runIn(shell, "sec.exec.eval", `(?:^|[\s;&|])eval\s+[^\n]*\$\{?[1-9@*]`, "eval "),
		startsShell(python, "sec.exec.os_system", `\bos\.(?:system|popen)\s*\(`, "os.system", "os.popen"),
		startsShell(script, "sec.exec.os_system", `\bchild_process["')]*\.exec(?:Sync)?\s*\(|\bexecSync\s*\(`,
			"child_process", "execsync"),
		startsShell(python, "sec.exec.shell_true", `\bshell\s*=\s*True\b`, "shell=", "shell ="),
		destructive,
		run("sec.net.tls_disabled", tlsText, "verify=", "verify =", "verify false", "no_verify", "curl",
			"no-check-certificate", "rejectunauthorized", "reject_unauthorized",
			"insecureskip", "unverified", "skipcert"),
		install,
	}
}

// run makes a pattern for commands that do harm. They count in prose, too:
// agents run commands that the text asks for.
func run(code, expression string, keywords ...string) pattern {
	return pattern{code: code, family: familyExec, keywords: keywords, expression: regexp.MustCompile(expression), inCode: true}
}

func runIn(langs lang, code, expression string, keywords ...string) pattern {
	p := run(code, expression, keywords...)
	p.langs = langs
	return p
}

// installers are addresses whose documentation says to pipe a script to a shell.
var installers = regexp.MustCompile(`^https://(?:sh\.rustup\.rs|astral\.sh|get\.docker\.com|bun\.(?:sh|com)` +
	`|deno\.land|install\.python-poetry\.org|get\.pnpm\.io|ollama\.com|starship\.rs|get\.sdkman\.io|mise\.run` +
	`|claude\.ai|(?:deb|rpm)\.nodesource\.com|(?:community\.)?chocolatey\.org|get\.scoop\.sh|fnm\.vercel\.app` +
	`|get\.volta\.sh|sdk\.cloud\.google\.com|aka\.ms|fluxcd\.io|run\.linkerd\.io|get\.k3s\.io|tailscale\.com` +
	`|fly\.io|antigravity\.google|cursor\.com|opencode\.ai|nixos\.org|install\.determinate\.systems|dot\.net` +
	`|raw\.githubusercontent\.com/(?:Homebrew/install|nvm-sh/nvm|helm/helm))(?:/|$)`)

var webAddress = regexp.MustCompile(`https?://[^\s"'|)]+`)

// isInstaller reports whether all that a command fetches is from such an address.
func isInstaller(command string) bool {
	addresses := webAddress.FindAllString(command, -1)
	for _, address := range addresses {
		if !installers.MatchString(address) {
			return false
		}
	}
	return len(addresses) > 0
}

// isUnpinned reports whether a command installs a package without a version.
// Prose outside of inline code is ignored: the words after the command may not
// be arguments.
func isUnpinned(m match) bool {
	if !m.isCode() && !m.fenced && strings.Count(m.line.text[m.start:m.from], "`")%2 == 0 {
		return false
	}
	words := strings.Fields(strings.Trim(m.text, "`'\""))
	runner := words[0] == "npx" || words[0] == "uvx" || words[0] == "bunx"
	for i := verbLength(words); i < len(words); i++ {
		word := strings.Trim(words[i], `"'.,:`)
		switch {
		case takesValue(words[i]):
			i++
		case strings.HasPrefix(word, "-"):
		case !packageName.MatchString(word) || strings.HasSuffix(word, ".whl") || strings.HasSuffix(word, ".tgz"):
			return false // a path, a URL or prose
		case strings.ContainsAny(word[1:], "@=<>~"):
			if runner {
				return false
			}
		default:
			return true
		}
	}
	return false
}

// verbLength is the number of words of the command itself: "npm install" has 2.
func verbLength(words []string) int {
	for i, w := range words {
		switch w {
		case "npx", "uvx", "bunx", "install", "i", "add":
			return i + 1
		}
	}
	return len(words)
}

// takesValue reports whether a flag is followed by a value, which is not a
// package.
func takesValue(flag string) bool {
	switch flag {
	case "-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url",
		"--extra-index-url", "-t", "--target", "--prefix", "--registry", "--python":
		return true
	}
	return false
}

var packageName = regexp.MustCompile(`^(?:@[a-z0-9][\w.-]*/)?[A-Za-z][\w.-]*(?:\[[\w,-]*\])?(?:[@=<>~!].*)?$`)
