package agents

import "testing"

func TestVersionNumber(t *testing.T) {
	for said, want := range map[string]string{
		"GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check.": "1.0.102",
		"codex-cli 0.169.0-alpha.1":                                   "0.169.0-alpha.1",
		"2.1.327 (Claude Code)":                                       "2.1.327",
		"1.18.33+build-5":                                             "1.18.33+build-5",
		"no number 7.":                                                "",
	} {
		if got := versionNumber.FindString(said); got != want {
			t.Errorf("%q has the version %q, want %q", said, got, want)
		}
	}
}
