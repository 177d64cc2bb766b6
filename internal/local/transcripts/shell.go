package transcripts

// Whether tests passed is known from the command line of an agent's shell and its exit
// status, for the common test runners. It is unknown whenever the status may be that of
// something else, e.g. of the last command of a pipeline. Nothing is run for it.

import (
	"slices"
	"strings"
)

// TestsPassed returns whether the tests that a command line ran have passed; nil if it
// ran none, or if that is not known. The output is that of the whole command line.
func TestsPassed(line string, status int, output string) *bool {
	steps, ok := parse(line)
	if !ok {
		return nil
	}
	s := newScript(steps)
	switch {
	case status == 0 && s.tested() && !s.testedBefore:
		return new(true)
	case s.failed(status, output):
		return new(false)
	}
	return nil
}

// Commits reports whether a command line has a git commit.
func Commits(line string) bool {
	steps, ok := parse(line)
	if !ok {
		return strings.Contains(line, "git commit") // a hash in the output must confirm it
	}
	return slices.ContainsFunc(steps, func(s step) bool {
		return slices.ContainsFunc(s.commands, func(c command) bool {
			c = unwrap(c)
			return len(c) > 0 && shellBase(c[0]) == "git" && subcommand(c[1:]) == "commit"
		})
	})
}

// Quote returns a command line that runs a program with arguments.
func Quote(arguments []string) string {
	words := make([]string, len(arguments))
	for i, a := range arguments {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// A script is the commands that decide on the exit status of a command line.
type script struct {
	last         []step // the last ones, all of which must succeed
	alternative  bool   // one of them is tried only if another one failed
	testedBefore bool   // tests were run whose status is lost
	pipefail     bool
}

// newScript follows `set -e` and `set -o pipefail`.
func newScript(steps []step) (s script) {
	exits := false
	for _, one := range steps {
		options := one.options()
		exits, s.pipefail = exits || options.exits, s.pipefail || options.pipefail
		if (one.operator == ";" || one.operator == "&") && !exits {
			s.testedBefore = s.testedBefore || s.tested() || slices.ContainsFunc(s.last, step.mentionsTests)
			s.last, s.alternative = nil, false
		}
		if one.background {
			s.testedBefore = s.testedBefore || one.mentionsTests()
			continue
		}
		s.alternative = s.alternative || one.operator == "||"
		s.last = append(s.last, one)
	}
	return s
}

// tested reports whether the exit status 0 means that tests passed.
func (s script) tested() bool {
	return !s.alternative && slices.ContainsFunc(s.last, s.decides) &&
		!slices.ContainsFunc(s.last, func(one step) bool { return one.mentionsTests() && !s.decides(one) })
}

// decides reports whether a pipeline fails if its tests do.
func (s script) decides(one step) bool {
	if s.pipefail {
		return one.mentionsTests()
	}
	return isTest(one.commands[len(one.commands)-1])
}

// failed reports whether an exit status means that tests failed: nothing else can
// have. Some are that of the shell or of a signal.
func (s script) failed(status int, output string) bool {
	if status <= 0 || status == 124 || status >= 126 && status != 255 || s.alternative {
		return false
	}
	tested, moved := false, false
	for _, one := range s.last {
		for i, c := range one.commands {
			switch {
			case isTest(c) && (s.pipefail || i == len(one.commands)-1):
				if !failsWith(c, status) {
					return false
				}
				tested = true
			case len(one.commands) > 1 && slices.Contains(passive, shellBase(c[0])) && s.pipefail:
			case len(one.commands) == 1 && isHarmless(c):
				moved = moved || slices.Contains([]string{".", "cd", "pushd", "source"}, c[0])
			default:
				return false
			}
		}
	}
	return tested && (!moved || !strings.Contains(output, "No such file or directory"))
}

var (
	// passive commands do not fail at the end of a pipeline.
	passive = []string{"cat", "sort", "tail", "tee"}
	// harmless ones prepare a test. If a folder or file is missing, the output says so.
	harmless = []string{".", ":", "cd", "echo", "export", "printf", "pushd", "pwd", "set", "source", "true", "unset"}
)

func isHarmless(c command) bool {
	return slices.Contains(harmless, c[0]) || !slices.ContainsFunc(c, func(w string) bool { return !assignment.MatchString(w) })
}

// mentionsTests reports whether a pipeline has a test runner anywhere.
func (s step) mentionsTests() bool { return slices.ContainsFunc(s.commands, isTest) }

type options struct{ exits, pipefail bool }

// options are those of the shell that a step sets.
func (s step) options() (o options) {
	c := s.commands[0]
	if len(s.commands) != 1 || c[0] != "set" {
		return o
	}
	for _, w := range c[1:] {
		o.exits = o.exits || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") &&
			strings.Contains(w, "e") || w == "errexit"
		o.pipefail = o.pipefail || w == "pipefail"
	}
	return o
}
