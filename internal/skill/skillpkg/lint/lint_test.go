package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

func faults() []fault {
	return slices.Concat(specFaults(), qualityFaults(), secretFaults(), unicodeFaults(), injectionFaults(), execFaults(),
		fileFaults())
}

func misses() []miss {
	return slices.Concat(specMisses(), qualityMisses(), secretMisses(), unicodeMisses(), injectionMisses(), execMisses(),
		fileMisses())
}

func TestGoodSkill(t *testing.T) {
	r := goodSkill().check(t)
	if diff := cmp.Diff([]string{}, places(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if r.Findings == nil {
		t.Error("no list of findings, want an empty one")
	}
}

// The report names exactly the seeded fault and nothing else.
func TestFaults(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			wantFault(t, f, goodSkill().with(f.changes).check(t))
		})
	}
	for _, f := range nameFaults() {
		t.Run(f.name, func(t *testing.T) {
			wantFault(t, f, goodSkill().with(f.changes).checkHomeless(t))
		})
	}
}

func wantFault(t *testing.T, f fault, r lint.Report) {
	t.Helper()
	severity, at, _ := strings.Cut(f.want, " ")
	want := []string{strings.TrimSpace(severity + " " + f.code + " " + at)}
	if diff := cmp.Diff(want, places(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s\n%+v", diff, r.Findings)
	}
}

// What only looks like a fault is not reported.
func TestMisses(t *testing.T) {
	for _, m := range misses() {
		t.Run(m.name, func(t *testing.T) {
			wantNothing(t, goodSkill().with(m.changes).check(t))
		})
	}
	for _, m := range nameMisses() {
		t.Run(m.name, func(t *testing.T) {
			wantNothing(t, goodSkill().with(m.changes).checkHomeless(t))
		})
	}
}

func wantNothing(t *testing.T, r lint.Report) {
	t.Helper()
	if diff := cmp.Diff([]string{}, places(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s\n%+v", diff, r.Findings)
	}
}

// A zero byte makes a script look binary; it must not hide what it does.
func TestZeroByteHidesNothing(t *testing.T) {
	r := goodSkill().with(files{"scripts/a.py": "\x00\nos.system(\"ls \" + a)\n"}).check(t)
	want := []string{"warning sec.file.magic_mismatch scripts/a.py", "error sec.exec.os_system scripts/a.py:2"}
	if diff := cmp.Diff(want, places(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
