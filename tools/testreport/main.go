// Command testreport reads the events of `go test -json` and prints what plain
// `go test` prints, followed by the tests that were skipped, by reason: a
// skipped test passes silently, and nobody would learn that a part was missing.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	r := newReport(os.Stdout)
	if err := r.readAll(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r.printSkipped()
}

// An event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// A test is named by its package and its name, which is empty for what the
// package says outside of its tests.
type test struct{ pkg, name string }

// A report prints events as they come and remembers what was skipped.
type report struct {
	out     io.Writer
	pending map[test]string   // the output of each unfinished test
	skipped map[string][]test // by reason
}

func newReport(out io.Writer) *report {
	return &report{out: out, pending: map[test]string{}, skipped: map[string][]test{}}
}

func (r *report) readAll(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		r.line(line)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line takes an event. What is no event comes from a program that does not
// know of them, and passes as it is.
func (r *report) line(line []byte) {
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
		r.print(string(line))
		return
	}
	t := test{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Action == "output" && e.Test == "":
		r.packageOutput(e.Output)
	case e.Action == "output":
		if !isProgress(e.Output) {
			r.pending[t] += e.Output
		}
	case e.Action == "fail" && e.Test == "":
		r.printUnfinished(e.Package)
	case e.Action == "fail":
		r.print(r.pending[t])
		delete(r.pending, t)
	case e.Action == "pass":
		delete(r.pending, t)
	case e.Action == "skip" && e.Test != "":
		reason := skipReason(r.pending[t])
		r.skipped[reason] = append(r.skipped[reason], t)
		delete(r.pending, t)
	}
}

// packageOutput leaves out what plain go test does not say either, and the
// packages that have no tests.
func (r *report) packageOutput(output string) {
	if output == "PASS\n" || strings.HasSuffix(output, "[no test files]\n") {
		return
	}
	r.print(output)
}

// printUnfinished shows what the tests said that were running when their
// process ended: one of them is why.
func (r *report) printUnfinished(pkg string) {
	for t, output := range r.pending {
		if t.pkg == pkg {
			r.print(output)
			delete(r.pending, t)
		}
	}
}

func (r *report) printSkipped() {
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		tests := r.skipped[reason]
		r.print(fmt.Sprintf("SKIPPED %d: %s\n", len(tests), reason))
		for _, line := range byPackage(tests) {
			r.print("\t" + line + "\n")
		}
	}
}

func (r *report) print(s string) { _, _ = io.WriteString(r.out, s) }

// byPackage returns a line for each package: its path and its tests.
func byPackage(tests []test) []string {
	names := map[string][]string{}
	for _, t := range tests {
		names[t.pkg] = append(names[t.pkg], t.name)
	}
	var lines []string
	for _, pkg := range slices.Sorted(maps.Keys(names)) {
		slices.Sort(names[pkg])
		lines = append(lines, pkg+": "+strings.Join(names[pkg], ", "))
	}
	return lines
}

var (
	progress = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)
	position = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)
)

func isProgress(output string) bool { return progress.MatchString(output) }

// skipReason returns the last thing that a test said before it was skipped.
func skipReason(output string) string {
	reason := "no reason given"
	for line := range strings.Lines(output) {
		if position.MatchString(line) {
			reason = strings.TrimSpace(position.ReplaceAllString(line, ""))
		}
	}
	return reason
}
