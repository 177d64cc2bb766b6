package judge

import "regexp"

// specialToken matches the special tokens of chat templates, which mark the turns of a
// conversation. Tokenizers of local servers recognise them also inside the
// material.
var specialToken = regexp.MustCompile(`<[|｜]|</?s>|<(?:start|end)_of_turn>|<[be]os>|` +
	`\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\]|<</?SYS>>`)

// EscapeTokens breaks up special tokens, so that untrusted text cannot begin or end a
// turn: "<|im_start|>" becomes "< |im_start|>".
func EscapeTokens(s string) string {
	return specialToken.ReplaceAllStringFunc(s, func(mark string) string { return mark[:1] + " " + mark[1:] })
}
