package lint

import (
	"regexp"
	"strings"
)

const (
	// stores are files with credentials of the user who runs the skill.
	stores = `(?:\.ssh(?:/(?:id_\w+|\*|[\w.-]*key[\w.-]*)|/?["'\s)` + "`" + `]|/?$|["']\s*[/,]\s*["']id_\w+)` +
		`|\.aws/credentials|\.netrc\b|/etc/shadow\b|\.gnupg\b|\.git-credentials\b|/Login Data\b` +
		`|cookies\.sqlite\b|logins\.json\b|\bkey[34]\.db\b|Library/Keychains)`

	readText = `(?i)(?:\b(?:cat|less|head|tail|cp|scp|rsync|tar|zip|base64|xxd|strings|awk|sed|read|reads|open|copy` +
		`|collect|upload|send|readFile|readFileSync|Get-Content)\b|[<@]\s*["']?[~/$.])[^\n|;]*?` + stores +
		`|` + stores + `[^\n]*?\.(?:read_text|read_bytes|read)\(` +
		`|\bsecurity\s+(?:find-(?:generic|internet)-password\s+-[^\n;|)]*|dump-keychain\b)`

	environmentText = `(?:^|[\s;&(` + "`" + `])(?:env|printenv)\s*(?:\||>)` +
		`|\bdict\(os\.environ\)|\bdumps\(os\.environ|\bstr\(os\.environ\)|JSON\.stringify\(process\.env\b`

	sendText = `\bcurl\b[^\n]*\s(?:-d|--data\S*|-F|--form|-T|--upload-file|--json|-X\s*(?:POST|PUT))(?:[\s=@]|$)` +
		`|\bwget\b[^\n]*--post-|\b(?:requests|httpx|session|axios)\.(?:post|put)\(` +
		`|\burlopen\([^\n]*\bdata\s*=|\bfetch\([^\n]*["'](?:POST|PUT)|\bmethod:\s*["'](?:POST|PUT)` +
		`|\bnc\s+(?:-\S+\s+)*[\w.-]+\s+\d{2,5}\b|(?i:-Method\s+Post\b)`
)

func exfilPatterns() []pattern {
	read := run("sec.exfil.sensitive_read", readText, ".ssh", ".aws/credentials", ".netrc", "/etc/shadow",
		".gnupg", ".git-credentials",
		"login data", "cookies.sqlite", "logins.json", "key3.db", "key4.db", "library/keychains",
		"find-generic-password", "find-internet-password", "dump-keychain")
	read.mark = marksRead
	read.accept = readsSecret
	read.weigh = func(r *remark, m match) {
		if ownItem.MatchString(m.text) {
			r.lower++
		}
	}
	return []pattern{
		read,
		marking(marksRead, environmentText, "env |", "env|", "env >", "env>", "(os.environ", "(process.env"),
	}
}

var (
	// ownItem matches a search of the keychain for one item by its name.
	ownItem = regexp.MustCompile(`-password\s[^\n]*-[asl]\s`)
	// printsItem matches a search that prints the password.
	printsItem = regexp.MustCompile(`\s-[a-z]*[wg]\b`)
	discarded  = regexp.MustCompile(`^[^\n;|)]*>\s*/dev/null`)
	// identity matches a key that a connection is authenticated with.
	identity = regexp.MustCompile(`(?i)\s-i\s*["']?\S*\.ssh/\S*$`)
	store    = regexp.MustCompile(`(?i)` + stores)
	// writes matches the mode of a file that is written.
	writes = regexp.MustCompile(`^["']?\)?\s*,\s*["'][wa]`)
)

// readsSecret excludes public keys, files that are written, and searches of the
// keychain that only ask whether an item exists.
func readsSecret(m match) bool {
	if strings.Contains(m.text, "-password") {
		return printsItem.MatchString(m.text) && !discarded.MatchString(m.line.text[m.from:])
	}
	after := m.after()
	if identity.MatchString(m.text) && !store.MatchString(after) {
		return false // ssh and scp read the key themselves
	}
	return !strings.HasPrefix(after, ".pub") && !strings.HasSuffix(m.text, "authorized_keys") && !writes.MatchString(after)
}

// marking makes a pattern that is not a finding by itself.
func marking(m mark, expression string, keywords ...string) pattern {
	return pattern{mark: m, keywords: keywords, expression: regexp.MustCompile(expression), inCode: true}
}

// powerPatterns find scripts that need a shell or the network.
func powerPatterns() []pattern {
	inPython := marking(marksPower, `\bsubprocess\.\w|\bos\.(?:system|popen|exec|spawn)|\b(?:requests|httpx`+
		`|aiohttp)\.\w|\burllib\.request\b|\bhttp\.client\b|\bsocket\.(?:socket|create)`,
		"subprocess", "os.system", "os.popen", "os.exec", "os.spawn", "requests.", "httpx.", "aiohttp.",
		"urllib.request", "http.client", "socket.socket", "socket.create")
	inPython.langs = python
	inScript := marking(marksPower, `\bchild_process\b|\bfetch\(|\baxios\b|\bhttps?\.(?:get|request)\(`,
		"child_process", "fetch(", "axios", "http.get(", "https.get(", "http.request(", "https.request(")
	inScript.langs = script
	return []pattern{inPython, inScript}
}
