package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// asProgram makes the test's binary the program itself, for shells that call it.
const asProgram = "CLI_TEST_AS_PROGRAM"

// TestComplete asks for the candidates of the last word.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		words string // separated by commas
		want  string // the candidates
	}{
		{"pus", "push"},
		{"hel", "help"},
		{"eval,ru", "run"},
		{"eval,run,--ba", "--baseline"},
		{"eval,run,Queries,--baseline,", "none no_skill previous"},
		{"eval,run,Queries,--baseline=pre", "--baseline=previous"},
		{"eval,run,Queries,--baseline,=,pre", "previous"},
		{"eval,run,Queries,--baseline,=", "none no_skill previous"},
		{"org,set-plan,acme,t", "team"},
		{"org,set-plan,t", ""},
		{"completion,", "bash zsh fish powershell"},
		{"skills,--stat", "--status"},
		{"skills,sh", "show"},
		{"backup,", ":files"},
		{"backup,--work", ""}, // its help leaves it out, too
		{"push,-m,--,", ":files"},
		{"push,./a,", ""},
		{"eval,import,", ":files"},
		{"nothing,", ""},
		{"--config,x", ":files"},
		{"push,--,--d", ":files"},
		{"member,scim-token,", "list create delete"},
	} {
		r := run(t, append([]string{"__complete"}, strings.Split(c.words, ",")...)...)
		var got []string
		for line := range strings.Lines(r.stdout) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != c.want || r.code != term.ExitOK || r.stderr != "" {
			t.Errorf("%s: %q %+v, want %q", c.words, got, r.stderr, c.want)
		}
	}
	if r := run(t, "__complete", "--config", "/nonexistent", "pus"); r.stdout != "push\tPublish the skill in a folder.\n" {
		t.Errorf("with a configuration that is not there: %+v", r)
	}
	if r := run(t, "__complete"); !strings.Contains(r.stdout, "\npush\t") {
		t.Errorf("without words: %+v", r)
	}
}

// TestCompletionScripts runs the scripts in the shells that are installed.
func TestCompletionScripts(t *testing.T) {
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wrapper := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "whetstone"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, folder, "a file.tar.zst", "x")
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("HOME", folder)
	for _, c := range []struct {
		shell string
		args  []string
		ask   func(line string) string // the script that prints the candidates of a command line
	}{
		{"bash", []string{"--noprofile", "--norc", "-c"}, func(line string) string {
			return `source <(whetstone completion bash); COMP_WORDS=(` + line + `); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); ` +
				`_whetstone whetstone "${COMP_WORDS[COMP_CWORD]}"; printf '%s\n' "${COMPREPLY[@]}"`
		}},
		{"zsh", []string{"-f", "-c"}, func(line string) string {
			return `_describe() { print -rl -- "${(@)${(P)2}%%:*}" }; _files() { print -rl -- *.zst }; ` +
				`source <(whetstone completion zsh); words=(` + line + `); CURRENT=${#words}; _whetstone`
		}},
		{"fish", []string{"--no-config", "-c"}, func(line string) string {
			return `whetstone completion fish | source; complete -C '` + strings.ReplaceAll(line, `""`, "") + `' | string replace -r '\t.*' ''`
		}},
	} {
		t.Run(c.shell, func(t *testing.T) {
			program, err := exec.LookPath(c.shell)
			if err != nil {
				t.Skipf("%s is not installed", c.shell)
			}
			for line, want := range map[string]string{
				`whetstone pus`: "push",
				`whetstone eval run Queries --baseline pr`: "previous",
				`whetstone completion ""`:                  "bash fish powershell zsh",
				`whetstone backup ""`:                      "a file.tar.zst",
			} {
				command := exec.CommandContext(t.Context(), program, append(slices.Clone(c.args), c.ask(line))...)
				command.Dir = folder
				out, _ := command.CombinedOutput() // the status is that of the last test in the script
				got := strings.Split(strings.TrimSpace(string(out)), "\n")
				got = slices.DeleteFunc(got, func(name string) bool {
					return name == "whetstone" || name == ".config/" || name == ".local/" || name == ".cache/"
				})
				slices.Sort(got)
				if strings.Join(got, " ") != want {
					t.Errorf("%s: %q, want %q", line, out, want)
				}
			}
		})
	}
	t.Run("powershell", func(t *testing.T) {
		script := run(t, "completion", "powershell").stdout
		for _, pair := range []string{"{}", "()", "[]"} {
			if strings.Count(script, pair[:1]) != strings.Count(script, pair[1:]) {
				t.Errorf("%s do not match in\n%s", pair, script)
			}
		}
		if !strings.Contains(script, "Register-ArgumentCompleter -Native -CommandName 'whetstone'") {
			t.Errorf("script %q", script)
		}
	})
}
