package judge

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// bytesPerToken is low enough for English (four) and for Chinese (three, a
// character), so that the estimate rather cuts too much.
const bytesPerToken = 3

func estimatedTokens(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// cut keeps the head and the tail of a text that is longer than limit bytes,
// and says between them how much is missing.
func cut(text string, limit int) (shown string, omitted int) {
	if len(text) <= limit {
		return text, 0
	}
	head, tail := limit/2, len(text)-limit/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	omitted = tail - head
	return text[:head] + fmt.Sprintf("\n[... %d bytes left out here ...]\n", omitted) + text[tail:], omitted
}

// turnMark matches the marks by which local servers tell the turns of a
// conversation apart: their tokenizers find them in the material, too.
var turnMark = regexp.MustCompile(`<[|｜]|</?s>|<(?:start|end)_of_turn>|<[be]os>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\]|<</?SYS>>`)

// defanged returns a text in which no turn of a conversation can begin or end.
func defanged(text string) string {
	return turnMark.ReplaceAllStringFunc(text, func(mark string) string { return mark[:1] + " " + mark[1:] })
}

// quotes reports whether a quotation stands in a normalised material. A
// quotation of nothing but marks stands nowhere.
func quotes(material, quotation string) bool {
	quotation = normalised(quotation)
	if !strings.ContainsFunc(quotation, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.S) }) {
		return false
	}
	return strings.Contains(material, quotation) || strings.Contains(material, unwrapped(quotation))
}

// normalised returns a text as the model saw it, white space aside.
func normalised(text string) string { return strings.Join(strings.Fields(defanged(text)), " ") }

// unwrapped takes off the quotation marks that models put around quotations.
func unwrapped(text string) string {
	for _, pair := range []string{`""`, `''`, "``", "“”"} {
		marks := []rune(pair)
		if inner, ok := strings.CutPrefix(text, string(marks[0])); ok {
			if inner, ok = strings.CutSuffix(inner, string(marks[1])); ok && inner != "" {
				return strings.TrimSpace(inner)
			}
		}
	}
	return text
}
