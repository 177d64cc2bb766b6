package lint

import (
	"regexp"
	"strings"
)

// Prompt injection. Most attacks are written in English; of other languages the
// expressions know the commonest forms.
const (
	overrideText = `(?i)\b(?:ignore|disregard|forget|do not follow|don't follow` +
		`|stop following)\b[^.|\n]*?\b(?:previous|prior|earlier|above|preceding|system|developer|original|initial` +
		`|safety|existing)\b[^.|\n]*?\b(?:instructions?|prompts?|directives?|guidelines?|system messages?)\b` +
		`|\b(?:ignore|disregard|forget) (?:all|any|everything)(?: of)?(?: the| your)? (?:instructions|guidelines` +
		`|above|you (?:were|have been|know))\b` +
		`|\b(?:override|bypass|outrank)s?\b[^.|\n]*?\b(?:previous|prior|earlier|safety` +
		`|system)\b[^.|\n]*?\b(?:instructions?|guidelines?|directives?|safeguards?)\b` +
		`|\btakes? (?:precedence|priority) over\b[^.|\n]*?\b(?:system|previous|prior|earlier` +
		`|safety)\b[^.|\n]*?\b(?:instructions?|prompts?|rules?|guidelines?|messages?)\b` +
		`|\b(?:ignorieren?|missachten?|vergiss|vergessen sie)\b[^.|\n]*?\b(?:vorherige|bisherige|vorige|obige|frühere)[nr]?\b` +
		`[^.|\n]*?\b(?:anweisung|instruktion|vorgabe)` +
		`|\b(?:ignor(?:e|ez|er)|oubli(?:e|ez|er))\b[^.|\n]*?\binstructions (?:précédentes|antérieures|ci-dessus|système)` +
		`|\b(?:ignor[ae]|olvid[ae])\b[^.|\n]*?\binstrucciones (?:anteriores|previas|del sistema)` +
		`|\b(?:ignor[ae]|esqueça)\b[^.|\n]*?\binstruções (?:anteriores|prévias|do sistema)` +
		`|\b(?:ignora|ignorate|dimentica)\b[^.|\n]*?\bistruzioni (?:precedenti|di sistema)` +
		`|(?:忽略|无视|忘记)[^。，\n]{0,12}(?:之前|以前|先前|上述|前面|系统)[^。，\n]{0,12}(?:指令|指示|提示|规则)` +
		`|(?:以前|これまで|上記|システム)の[^。\n]{0,12}(?:指示|命令)[^。\n]{0,8}(?:無視|忘れ)` +
		`|игнорируй(?:те)?[^.\n]*?(?:предыдущ|прежн|системн)[^.\n]*?инструкц`

	modeText = `(?i)\byou(?: are|'re) (?:now )?(?:in|entering|running in|operating in) [^.\n]*?\b(?:developer` +
		`|admin|administrator|god|debug|root|maintenance) mode\b` +
		`|\b(?:unrestricted|unfiltered|jailbreak|jailbroken|god|DAN) mode\b` +
		`|\b(?:disable|turn off|switch off|deactivate|bypass|drop)\b[^.\n]*?\byour (?:safety|content|ethical|security)\b` +
		`|\b(?:disable|turn off|switch off|deactivate|bypass)\b[^.\n]*?\b(?:safety|content|ethical) (?:filters?` +
		`|guardrails?|guidelines?)\b` +
		`|\byou (?:have no|are free of(?: all)?|are no longer bound by(?: any)?) (?:restrictions|limits|rules|guidelines)\b`

	whom        = `(?:the |your |any )?(?:users?|humans?|operator|anyone|anybody)\b`
	concealText = `(?i)\b(?:do not|don't|never|must not) ` +
		`(?:(?:tell|inform|notify|alert) ` + whom + ` (?:about|of) (?:this|these|it|what|any|your|the)\b` +
		`|let ` + whom + ` (?:know|see|notice|find out)\b|(?:mention|reveal|disclose) (?:this|these|it|any of this` +
		`|the)\b[a-z ]*? to ` + whom + `)` +
		`|\b(?:keep|hide|conceal) (?:this|these|it|the)\b[a-z ]*? from ` + whom +
		`|\b(?:secretly|covertly) [a-z]|\bsilently (?:send|upload|post|forward|transmit|exfiltrate|collect)\b` +
		`|\bwithout (?:the |your )?(?:user|human)(?:'s)? (?:knowing|noticing|knowledge|being aware)\b` +
		`|\bwithout (?:telling|informing|notifying|alerting) ` + whom +
		`|\bsag(?:e|en sie)? (?:dem|der) (?:nutzer|benutzer|anwender)(?:in)? nichts|\bno le digas (?:nada|esto) al usuario` +
		`|\bne dis rien à l'utilisateur|(?:不要|别|请勿)(?:告诉|告知|通知)用户`

	revealText = `(?i)\b(?:reveal|show|print|output|repeat|display|dump|leak|send|tell|give|what is` +
		`|what are)\b[^.\n]*?\byour (?:[a-z]+ ){0,2}(?:system prompt|system message|developer message` +
		`|hidden instructions?|hidden configuration|hidden prompt|initial instructions)\b` +
		`|\b(?:reveal|repeat|dump|leak)\b[^.\n]*?\bthe (?:[a-z]+ ){0,2}(?:system prompt|hidden instructions?` +
		`|hidden configuration)\b`

	models = `(?:assistants?|claude|chatgpt|gpt|llms?|agents?|ai|models?)`
	// addressText addresses a model. It is an attack only where it is hidden
	// from a reader.
	addressText = `(?i)\b` + models + `(?:[,:]? [a-z]+){0,3}?[,:]? (?:must|should|shall|will|has to|have to|needs? to)\b` +
		`|\b` + models + `\s*[,:] *(?:[a-z]+ ){0,3}?(?:run|execute|send|fetch|upload|download|install|forward|delete` +
		`|call|read|post)\b` +
		`|\byou (?:must|will|shall)\b[^\n]*?\b(?:send|upload|exfiltrate|forward|reveal|delete|execute|fetch|ignore)\b`
)

func injectionPatterns() []pattern {
	override := injection("override", overrideText, "ignor", "missacht", "vergiss", "vergessen", "oubli", "olvid", "esque",
		"dimentica", "忽略", "无视", "忘记", "無視", "忘れ", "гнорируй", "disregard", "forget", "follow", "override",
		"bypass", "outrank", "precedence", "priority")
	override.also = []string{
		"instruction", "prompt", "directive", "guideline", "message", "rule", "safeguard",
		"above", "you were", "you have been", "you know", "anweisung", "instruktion", "vorgabe", "instrucciones", "instruções",
		"istruzioni", "指", "提示", "规则", "命令", "инструкц",
	}
	override.accept = func(m match) bool { return len(m.text) <= maxPhrase && !isDefence(m) }
	mode := injection("mode_switch", modeText, " mode", "safety", "content", "ethical", "security",
		"restrictions", "limits", "rules", "guidelines")
	mode.also = []string{
		"you are", "you're", "you have no", "unrestricted", "unfiltered", "jailbr", "god mode",
		"dan mode", "disable", "turn off", "switch off", "deactivate", "bypass", "drop",
	}
	mode.accept = func(m match) bool { return len(m.text) <= maxPhrase && !asThreat.MatchString(m.before()) }
	conceal := injection("concealment", concealText, "do not ", "don't ", "never ", "must not ", "keep ", "hide ",
		"conceal ", "secretly ", "covertly ", "silently ", "without ", "sag", "no le digas", "ne dis rien", "告诉", "告知", "通知")
	conceal.also = []string{
		"user", "human", "operator", "anyone", "anybody", "secretly ", "covertly ", "silently ", "nutzer",
		"anwender", "usuario", "utilisateur", "用户",
	}
	conceal.accept = func(m match) bool { return len(m.text) <= maxPhrase && isConcealment(m) }
	reveal := injection("reveal_prompt", revealText, "system prompt", "system message", "developer message",
		"hidden instruction", "hidden config", "hidden prompt", "initial instruction")
	reveal.also = []string{"your", "reveal", "repeat", "dump", "leak"}
	hidden := injection("hidden_markup", addressText, "assistant", "claude", "gpt", "llm", "agent", "ai ", "ai:",
		"model", "you must", "you will", "you shall")
	hidden.when = func(e excerpt) bool { // cheap: only such lines may have something invisible once rendered
		return e.commented || strings.Contains(e.text, "<") || strings.Contains(e.text, "](")
	}
	hidden.accept = func(m match) bool {
		return len(m.text) <= maxPhrase && m.isHiddenFromReader() && !strings.Contains(m.text, "-->") && !m.isPlaceholder()
	}
	return []pattern{override, mode, conceal, reveal, hidden}
}

// distrusts matches what follows "ignore any instructions" where a skill protects
// itself from the material that it reads, e.g. "embedded in user input".
var distrusts = regexp.MustCompile(`(?i)^(?:,? (?:and |or )?(?:commands?|directives?|requests?|overrides?|prompts?|prompt overrides?)){0,4},? ` +
	`(?:that (?:is|are|appear) )?(?:(?:embedded|found|contained|hidden|placed|included|written) )?(?:in|inside|within|from) ` +
	`(?:the |a |any |these |those |such )?(?:(?:untrusted|external|third-party|retrieved|fetched|downloaded|uploaded|scraped|web|pull|search|` +
	`tool|log|user|user-supplied|user-provided|customer) )?` +
	`(?:repositor|files?|web|pages?|documents?|content|data|output|issues?|comments?|e-?mails?|repo|source|logs?|inputs?|results?|` +
	`attachments?|tickets?|transcripts?|uploads?|requests?|payloads?)`)

// trusted is what a skill may not call material: instructions in "the content of the
// system prompt" are those that an attack drops.
var trusted = regexp.MustCompile(`(?i)\b(?:system|developers?|polic(?:y|ies)|safety|guidelines?|previous|prior|earlier|above|preceding|initial|` +
	`original|operator|anthropic|openai|CLAUDE\.md|AGENTS\.md)\b`)

// isDefence reports whether a match is about the material that a skill reads.
func isDefence(m match) bool {
	after := m.after()
	if !distrusts.MatchString(after) || trusted.MatchString(m.text) {
		return false
	}
	sentence, _, _ := strings.Cut(after, ". ")
	return !trusted.MatchString(sentence)
}

// asThreat matches a subject that makes a mode switch a description of an attack, e.g.
// "Crafted prompts bypass safety guardrails".
var asThreat = regexp.MustCompile(`(?i)\b(?:prompts|attacks|attackers|adversaries|inputs|payloads|jailbreaks|injections)` +
	` (?:can |could |may |might |try to |that |which )?$`)

var (
	// placeholder matches the beginning of a comment that tells the author of a document
	// what to write, e.g. "<!-- Describe when the agent should use each tool. -->".
	placeholder = regexp.MustCompile(`(?i)<!--\s*(?:TODO:?\s*|optional:?\s*)?(?:describe|list|explain|state|specify|document|outline|summari[sz]e|define) ` +
		`(?:\w+ ){0,3}?(?:when|how|what|which|whether|why|where)\b[^\n]*$`)
	// harmful is what no such comment speaks of.
	harmful = regexp.MustCompile(`(?i)\b(?:ignore|disregard|upload|exfiltrate|send|post|forward|reveal|execute|run|curl|wget|delete|remove|` +
		`install|download|fetch|secrets?|credentials?|passwords?|tokens?|keys?|conceal|hide|https?|you)\b|\.ssh|\.env|\.aws`)
)

// isPlaceholder reports whether a match is in a comment of a template.
func (m match) isPlaceholder() bool {
	before := m.before()
	at := strings.LastIndex(before, "<!--")
	if at < 0 || !placeholder.MatchString(before[at:]) {
		return false
	}
	comment, _, closed := strings.Cut(before[at:]+m.text+m.after(), "-->")
	return closed && !harmful.MatchString(comment)
}

// maxPhrase is how far apart the first and the last word of a phrase may be.
const maxPhrase = 120

func injection(name, expression string, keywords ...string) pattern {
	return pattern{
		code: "sec.injection." + name, family: familyInjection, keywords: keywords,
		expression: regexp.MustCompile(expression), prose: true,
		accept: func(m match) bool { return len(m.text) <= maxPhrase },
	}
}

var negation = regexp.MustCompile(`(?i)\b(?:never|not|don't|avoid|no)\b`)

// isConcealment excludes "never delete anything without telling the user", which
// is the opposite.
func isConcealment(m match) bool {
	lower := strings.ToLower(m.text)
	for _, adverb := range []string{"without", "secretly", "covertly", "silently"} {
		if strings.HasPrefix(lower, adverb) {
			return !negation.MatchString(m.before())
		}
	}
	return true
}

// judgeInjection raises a finding about text that is hidden from a reader, and
// lowers one about text that is quoted or only mentioned.
func (s *scan) judgeInjection(r *remark, m match) {
	if s.markdown && m.isHiddenFromReader() {
		r.code = "sec.injection.hidden_markup"
		return
	}
	if m.fenced || m.isQuotedAt(m.from) || m.isQuotedAt(m.to) {
		r.lower++
	}
	if m.isMention() {
		r.lower++
	}
}

var (
	hiddenStyle = regexp.MustCompile(`(?i)<[a-z][^>]*\bstyle\s*=\s*["'][^"']*(?:display:\s*none` +
		`|visibility:\s*hidden|font-size:\s*0|opacity:\s*0\s*[;"']|color:\s*(?:white|#fff\b|#ffffff|transparent))` +
		`|<[a-z]+\s(?:[^>]*\s)?hidden[\s>]`)
	linkTitle = regexp.MustCompile(`\]\([^)\s]*\s+["']([^"']*)["']\s*\)`)
)

// isHiddenFromReader reports whether the match is invisible when the text is
// rendered: in a comment, in an invisible element, in the title of a link.
func (m match) isHiddenFromReader() bool {
	if m.fenced || m.isCode() {
		return false
	}
	if commentedAt(m.line.text[m.start:], m.rest, m.commented && m.start == 0, m.from-m.start) {
		return true
	}
	if style := hiddenStyle.FindStringIndex(m.line.text[m.start:m.end]); style != nil && m.start+style[0] < m.from {
		return true
	}
	for _, title := range linkTitle.FindAllStringSubmatchIndex(m.line.text[m.start:m.end], -1) {
		if m.start+title[2] <= m.from && m.from < m.start+title[3] {
			return true
		}
	}
	return false
}

// isQuotedAt reports whether a position of the line is in quotes, in inline code or
// in a block quote.
func (m match) isQuotedAt(at int) bool {
	at = min(at, len(m.line.text))
	before, after := m.line.text[m.start:at], m.line.text[at:min(at+window, len(m.line.text))]
	if strings.HasPrefix(strings.TrimSpace(before), ">") {
		return true
	}
	for _, mark := range []string{"`", `"`} {
		if strings.Count(before, mark)%2 == 1 && strings.Contains(after, mark) {
			return true
		}
	}
	return strings.LastIndex(before, "“") > strings.LastIndex(before, "”") && strings.Contains(after, "”")
}
