// Package special defends prompts against the special tokens of chat templates.
// It owns no tables.
package special

import "regexp"

// token matches the special tokens of chat templates, which mark the turns of a
// conversation. Tokenizers of local servers recognise them also inside the
// material.
var token = regexp.MustCompile(`<[|｜]|</?s>|<(?:start|end)_of_turn>|<[be]os>|` +
	`\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\]|<</?SYS>>`)

// Escape breaks up special tokens, so that untrusted text cannot begin or end a
// turn: "<|im_start|>" becomes "< |im_start|>".
func Escape(s string) string {
	return token.ReplaceAllStringFunc(s, func(mark string) string { return mark[:1] + " " + mark[1:] })
}
