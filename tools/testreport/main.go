// Command testreport reads the events of `go test -json` and prints what plain
// `go test` prints, followed by a summary: the tests that were skipped, by
// reason, since a skipped test passes silently; and last of all what failed,
// since of a long log often only the tail is kept.
package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	r.printSummary()
}

// An event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // in seconds
	ImportPath  string  // of a build's output, e.g. "a/b [a/b.test]"
	FailedBuild string  // the ImportPath for which a package failed
}

// A test is named by its package and its name, which is empty for what the
// package says outside of its tests.
type test struct{ pkg, name string }

// A failure is a test that failed, or a package of which no test did.
type failure struct {
	test
	output string
}

// A report prints events as they come and remembers what the summary names.
type report struct {
	out     io.Writer
	pending map[test][]byte   // the output of each unfinished test or package, of which one may print megabytes
	builds  map[string]string // the output of each build, by its ImportPath
	skipped map[string][]test // by reason
	failed  []failure
	took    map[string]float64 // seconds, by package
}

func newReport(out io.Writer) *report {
	return &report{out: out, pending: map[test][]byte{}, builds: map[string]string{}, skipped: map[string][]test{}, took: map[string]float64{}}
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
		r.builds[e.ImportPath] += e.Output
	case e.Action == "output" && e.Test == "":
		r.packageOutput(e.Output)
		r.pending[t] = append(r.pending[t], e.Output...)
	case e.Action == "output":
		if !isProgress(e.Output) {
			r.pending[t] = append(r.pending[t], e.Output...)
		}
	case e.Action == "fail" && e.Test == "":
		r.pending[t] = append(r.pending[t], r.builds[e.FailedBuild]...)
		r.failPackage(e.Package)
	case e.Action == "fail":
		r.print(string(r.pending[t]))
		r.fail(t)
	case e.Action == "pass":
		if delete(r.pending, t); e.Test == "" {
			r.took[e.Package] = e.Elapsed
		}
	case e.Action == "skip" && e.Test != "":
		reason := skipReason(string(r.pending[t]))
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

// failPackage prints what the tests said that were running when their process
// ended: one of them is why.
func (r *report) failPackage(pkg string) {
	running := func(t test) bool { return t.pkg == pkg && t.name != "" }
	for _, t := range slices.SortedFunc(maps.Keys(r.pending), compareTests) {
		if running(t) {
			r.print(string(r.pending[t]))
			r.fail(t)
		}
	}
	if !slices.ContainsFunc(r.failed, func(f failure) bool { return running(f.test) }) {
		r.fail(test{pkg: pkg})
	}
	delete(r.pending, test{pkg: pkg})
}

// fail remembers a failure, unless a subtest, which fails before its parent,
// tells why the parent failed.
func (r *report) fail(t test) {
	output := string(r.pending[t])
	delete(r.pending, t)
	subtest := func(f failure) bool { return f.pkg == t.pkg && strings.HasPrefix(f.name, t.name+"/") }
	if strings.Count(output, "\n") == 1 && slices.ContainsFunc(r.failed, subtest) {
		return
	}
	r.failed = append(r.failed, failure{t, output})
}

func (r *report) printSummary() {
	r.printSlowest()
	r.printSkipped()
	for _, f := range r.failed {
		r.print(fmt.Sprintf("FAILED %s\n%s", strings.TrimSpace(f.pkg+" "+f.name), excerpt(f.output)))
	}
}

// printSlowest names the packages that took longest, of those that were not quick.
func (r *report) printSlowest() {
	const most, slow = 10, 20
	longest := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int { return cmp.Compare(r.took[b], r.took[a]) })
	longest = slices.DeleteFunc(longest, func(pkg string) bool { return r.took[pkg] < slow })
	for _, pkg := range longest[:min(most, len(longest))] {
		r.print(fmt.Sprintf("SLOW %s: %.0f s\n", pkg, r.took[pkg]))
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

func compareTests(a, b test) int {
	return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
}

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
	crash    = regexp.MustCompile(`(?m)^\s*(panic|fatal error): `)
	position = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)
)

func isProgress(output string) bool { return progress.MatchString(output) }

// excerpt returns the lines of an output that most likely say why it failed: the
// first of a crash, which the stacks of all goroutines follow, or else the last.
func excerpt(output string) string {
	const most, longest = 20, 1000
	var lines []string
	if at := crash.FindStringIndex(output); at != nil {
		lines = slices.Collect(strings.Lines(output[at[0]:]))
		lines = lines[:min(most, len(lines))]
	} else {
		lines = slices.Collect(strings.Lines(output))
		lines = lines[max(0, len(lines)-most):]
	}
	for i, line := range lines {
		if len(line) > longest {
			lines[i] = line[:longest] + "...\n"
		}
	}
	return strings.Join(lines, "")
}

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
