package lint

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
)

// minEntropy is in bits per character. Words and names stay below it; sixteen
// random characters of base64 have about 3.7.
const minEntropy = 3.5

func secretPatterns() []pattern {
	twilio := []string{"sg."}
	for _, digit := range "0123456789abcdef" {
		twilio = append(twilio, "sk"+string(digit))
	}
	all := []pattern{
		secret("aws_key_id", `\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`, "akia", "asia"),
		secret("repohost_token", `\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{82}|\bglpat-[A-Za-z0-9_-]{20,}`,
			"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
		secret("slack", `\bxox[bpars]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}`+
			`|hooks\.slack\.com/services/T[A-Za-z0-9_]+/B[A-Za-z0-9_]+/[A-Za-z0-9_]{16,}`,
			"xox", "xapp-", "hooks.slack.com"),
		secret("discord", `discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{30,}`, "/api/webhooks/"),
		secret("stripe", `\b(?:sk_live|rk_live|sk_test)_[A-Za-z0-9]{24,}`, "sk_live_", "rk_live_", "sk_test_"),
		secret("google", `\bAIza[A-Za-z0-9_-]{35}|\bGOCSPX-[A-Za-z0-9_-]{20,}`, "aiza", "gocspx-"),
		secret("llm_provider", `\bsk-(?:ant|proj|svcacct)-[A-Za-z0-9_-]{32,}|\bhf_[A-Za-z0-9]{30,}`, "sk-ant-",
			"sk-proj-", "sk-svcacct-", "hf_"),
		secret("package_registry", `\bnpm_[A-Za-z0-9]{36}\b|\bpypi-AgE[A-Za-z0-9_-]{40,}`, "npm_", "pypi-age"),
		secret("mail_sms", `\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|\bSK[0-9a-f]{32}\b`, twilio...),
		secret("jwt", `\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}`, "eyj"),
		secret("connection_string", `\bAccountKey=([A-Za-z0-9+/]{40,}={0,2})`, "accountkey="),
		secret("connection_string",
			`\b[A-Za-z][A-Za-z0-9+]+://[^\s:/@'"<>]*:([^\s@/'"<>]{3,})@[A-Za-z0-9\[][A-Za-z0-9.:\]-]*`, "://"),
		secret("assigned", `(?i)(?:password|passwd|secret|token|api[_-]?key|access[_-]?key`+
			`|credential)[a-z0-9_-]*\\?["']?\s*(?::=|=>|[:=])\s*\\?["']([^"'\s\\]{16,})\\?["']`,
			"password", "passwd", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key",
			"accesskey", "credential"),
	}
	for i := range all {
		switch all[i].code {
		case "sec.secret.connection_string":
			all[i].also, all[i].accept = []string{"@", "accountkey="}, realPassword
		case "sec.secret.assigned":
			all[i].also = []string{`="`, `='`, `= "`, `= '`, `:"`, `:'`, `: "`, `: '`, `=> "`, `=> '`, `\"`}
			all[i].accept = func(m match) bool { return realSecret(m) && isRandom(m.values[0]) }
		}
	}
	return all
}

// secret makes a pattern. The secret is the group of the expression, or all of it.
func secret(name, expression string, keywords ...string) pattern {
	return pattern{
		code: "sec.secret." + name, family: familySecret, keywords: keywords,
		expression: regexp.MustCompile(expression), accept: realSecret,
	}
}

// wellKnown are values from the documentation of vendors.
const wellKnown = `
	sk_test_4eC39HqLyjWDarjtT1zdp7dc sk_test_BQokikJOvBiI2HlWgH4olfQ2 sk_test_26PHem9AhJZvU623DfE1x4sd
	Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
	C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==
	SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c`

// placeholders are in lower case and occur in values that are not real.
var placeholders = []string{
	"example", "placeholder", "changeme", "change-me", "change_me", "your-", "your_", "xxxx", "....", "****", "…",
	"<", "${", "$(", "{{", "dummy", "redacted", "not-a-real", "insert", "123456789", "abcdefgh", "fake", "sample",
}

var searchLine = regexp.MustCompile(`(?i)\b(?:re\.(?:compile|search|match|findall|sub)|regexp?|grep|rg|patterns?)\b`)

// realSecret reports whether a match is more than an example: documented keys,
// placeholders and what a script searches for are not.
func realSecret(m match) bool {
	value := m.text
	if len(m.values) > 0 {
		value = m.values[0]
	}
	return !isPlaceholder(value) && !searchLine.MatchString(m.line.text[m.start:m.end])
}

func isPlaceholder(value string) bool {
	lower := strings.ToLower(value)
	for _, p := range placeholders {
		if strings.Contains(lower, p) {
			return true
		}
	}
	if strings.HasPrefix(value, "%") && strings.HasSuffix(value, "%") || strings.HasPrefix(value, "$") {
		return true
	}
	for known := range strings.FieldsSeq(wellKnown) {
		if strings.Contains(value, known) {
			return true
		}
	}
	tail := value[len(value)/2:]
	return strings.Count(tail, tail[:1]) == len(tail) // AKIA and sixteen times the same letter
}

// localHost matches hosts for which a password in a file is not a secret.
var localHost = regexp.MustCompile(`@(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]|host|hostname|server|db` +
	`|[\w.-]*\.?example(?:\.\w+)?)(?::|$)`)

// realPassword is realSecret for connection strings, which often have dummy
// passwords.
func realPassword(m match) bool {
	password := strings.ToLower(m.values[0])
	switch password {
	case "pass", "pwd", "secret", "user", "username", "postgres", "mysql", "root", "admin", "guest", "test", "token",
		"newpass", "oldpass", "pass123", "secret123", "admin123", "supersecret", "changeit":
		return false
	}
	if strings.Contains(password, "password") || strings.Contains(password, "passwd") || password[0] == '[' {
		return false
	}
	if _, rest, ok := strings.Cut(m.text, "://"); ok { // shop:shop@database is a default, as in compose files
		if user, _, _ := strings.Cut(rest, ":"); strings.EqualFold(user, password) {
			return false
		}
	}
	return realSecret(m) && !localHost.MatchString(m.text) && !strings.ContainsAny(m.values[0], "{}$*")
}

// isRandom distinguishes keys from words, paths and names.
func isRandom(value string) bool {
	if strings.Contains(value, "://") || strings.Count(value, "/") > 2 || !strings.ContainsAny(value, "0123456789") {
		return false
	}
	return entropy(value) >= minEntropy
}

// entropy is Shannon's, in bits per character.
func entropy(s string) float64 {
	counts := map[rune]int{}
	total := 0
	for _, r := range s {
		counts[r]++
		total++
	}
	bits := 0.0
	for _, n := range counts {
		share := float64(n) / float64(total)
		bits -= share * math.Log2(share)
	}
	return bits
}

const (
	keyBegin = "-----BEGIN "
	keyEnd   = "-----END "
	keyWord  = "PRIVATE KEY"
	// maxKey is the longest private key, in bytes of text.
	maxKey = 16 << 10
	// minKey is the shortest; anything shorter is documentation.
	minKey = 64
)

// checkKeys looks for whole private keys; the header alone is documentation.
func (s *scan) checkKeys() {
	code := "sec.secret.private_key"
	if strings.Contains(s.text, `"service_account"`) {
		code = "sec.secret.google"
	}
	number, counted := 1, 0
	for start := 0; ; {
		length := strings.Index(s.text[start:], keyEnd)
		if length < 0 {
			return
		}
		end := start + length
		from := max(start, end-maxKey)
		start = end + len(keyEnd)
		begin := strings.LastIndex(s.text[from:end], keyBegin)
		if begin < 0 {
			continue
		}
		header, body, _ := strings.Cut(s.text[from+begin+len(keyBegin):end], "-----")
		encoded := lineEnds.Replace(body)
		if !strings.HasSuffix(header, keyWord) || len(encoded) < minKey || isPlaceholder(body) {
			continue
		}
		number += strings.Count(s.text[counted:from+begin], "\n")
		counted = from + begin
		s.found.add(remark{
			code: code, path: s.path, line: number, lower: s.lower,
			evidence: fmt.Sprintf("%s%s----- [%d characters]", keyBegin, header, len(body)),
		})
	}
}

// lineEnds removes what separates the lines of a key, escaped or not.
var lineEnds = strings.NewReplacer(`\n`, "", "\n", "", "\r", "", " ", "", `"`, "")

// maskers are the expressions of everything that may be secret. They match more
// than the rules report: masking too much does no harm.
var maskers = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, p := range compiledPatterns().patterns {
		if p.family == familySecret {
			all = append(all, p.expression)
		}
	}
	return all
})

// longToken may be part of a key, or a key of an unknown vendor.
var longToken = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)

// redact masks everything in a text that may be secret.
func redact(s string) string {
	for _, expression := range maskers() {
		s = replaceAll(expression, s, mask)
	}
	return longToken.ReplaceAllStringFunc(s, func(token string) string {
		digits := 0
		for _, r := range token {
			if '0' <= r && r <= '9' {
				digits++
			}
		}
		if digits < 4 { // more likely a path
			return token
		}
		return mask(token)
	})
}

// ReplaceSecrets replaces everything in a line that may be secret, given its kind,
// e.g. "aws_key_id". Like redact it replaces more than the rules report.
func ReplaceSecrets(line string, replacement func(kind string) string) string {
	k := compiledPatterns()
	found := k.keywords.Find(line)[0]
	for i, p := range k.patterns {
		if p.family != familySecret || found&(1<<i) == 0 {
			continue
		}
		name := replacement(strings.TrimPrefix(p.code, "sec.secret."))
		line = replaceAll(p.expression, line, func(string) string { return name })
	}
	return line
}

// replaceAll replaces the first group of an expression, or all of it.
func replaceAll(expression *regexp.Regexp, s string, replacement func(secret string) string) string {
	var b strings.Builder
	done := 0
	for _, at := range expression.FindAllStringSubmatchIndex(s, -1) {
		from, to := at[0], at[1]
		if len(at) > 2 && at[2] >= 0 {
			from, to = at[2], at[3]
		}
		b.WriteString(s[done:from])
		b.WriteString(replacement(s[from:to]))
		done = to
	}
	b.WriteString(s[done:])
	return b.String()
}

// minMasked is the length from which the first four characters of a secret are
// shown: of a shorter one they would reveal too much.
const minMasked = 16

func mask(secret string) string {
	runes := []rune(secret)
	if len(runes) < minMasked {
		return fmt.Sprintf("[%d characters]", len(runes))
	}
	return fmt.Sprintf("%s[%d characters]", string(runes[:4]), len(runes))
}
