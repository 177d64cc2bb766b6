package hook

import (
	"slices"
	"strings"
)

// commandLine returns the shell command that an agent calls: it notes the session,
// which takes some milliseconds, and sends it in the background. It prints nothing
// and always succeeds: a failing hook may stop the agent. The payload is what
// follows the name of the agent, e.g. `"$1"`. "hook send" runs even if another one does: it
// waits for the lock, and then finds nothing left.
func commandLine(program, agent, payload string, flags []string) string {
	all := make([]string, len(flags))
	for i, w := range flags {
		all[i] = shellWord(w)
	}
	words := slices.Concat([]string{shellWord(program), "hook", "queue", agent}, all)
	if payload != "" {
		words = append(words, payload)
	}
	send := shellWord(program) + " hook send </dev/null >/dev/null 2>&1 &"
	return strings.Join(words, " ") + " >/dev/null 2>&1 && { " + send + " } ; true"
}

// isCommandLine reports whether Install wrote a command. The program may have moved since, so
// its path isn't compared.
func isCommandLine(command string) bool {
	return strings.Contains(command, " hook queue ") && strings.Contains(command, " hook send ")
}

// shellWord quotes a word for a POSIX shell, if it needs that. Within single quotes nothing is
// special but the quote, which ends them for a moment.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
