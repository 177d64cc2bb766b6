package judge

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/whetstone-dev/whetstone/internal/text"
)

// bytesPerToken is low for English (four) and right for Chinese (three, one
// character), so that an estimate of a prompt's tokens errs on the safe side.
const bytesPerToken = 3

// truncateMiddle keeps the head and the tail of a text that is longer than limit
// bytes, with a note between them on how much is omitted.
func truncateMiddle(s string, limit int) (shown string, omitted int) {
	if len(s) <= limit {
		return s, 0
	}
	head, tail := text.Truncate(s, limit/2), text.Tail(s, limit/2)
	omitted = len(s) - len(head) - len(tail)
	return head + fmt.Sprintf("\n[... %d bytes left out here ...]\n", omitted) + tail, omitted
}

// specialToken matches the special tokens of chat templates, which mark the
// turns of a conversation. Tokenizers of local servers recognise them also
// inside the material.
var specialToken = regexp.MustCompile(`<[|｜]|</?s>|<(?:start|end)_of_turn>|<[be]os>|` +
	`\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\]|<</?SYS>>`)

// escapeSpecialTokens breaks up special tokens, so that untrusted text cannot
// begin or end a turn: "<|im_start|>" becomes "< |im_start|>".
func escapeSpecialTokens(s string) string {
	return specialToken.ReplaceAllStringFunc(s, func(mark string) string { return mark[:1] + " " + mark[1:] })
}

// containsQuotation reports whether a normalised material contains a quotation.
// A quotation of punctuation only is none.
func containsQuotation(material, quotation string) bool {
	quotation = normalise(quotation)
	if !strings.ContainsFunc(quotation, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.S) }) {
		return false
	}
	return strings.Contains(material, quotation) || strings.Contains(material, trimQuotes(quotation))
}

// normalise returns a text as the model saw it, with white space collapsed.
func normalise(s string) string { return text.OneLine(escapeSpecialTokens(s)) }

// trimQuotes removes the quotation marks that models put around quotations.
func trimQuotes(text string) string {
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
