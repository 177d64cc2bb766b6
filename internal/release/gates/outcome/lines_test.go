package outcome_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func TestFind(t *testing.T) {
	t.Parallel()
	var parts []skillpkg.Part
	for path, content := range map[string]string{
		"SKILL.md":         "---\nname: pdf\ndescription: Reads tables.\n---\n# pdf\n",
		"evals/cases.json": "[\n{\"id\": \"case-1\"},\n{\"id\": \"case-10\", \"query\": \"read the table\"}\n]\n",
		"evals/more.YAML":  "- name: x\n  id: case-2\n- note: about case-3\n",
		"README.md":        "id: case-4\n",
	} {
		parts = append(parts, skillpkg.Part{Path: path, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(content)), nil
		}})
	}
	pkg, err := skillpkg.FromParts(t.Context(), parts, skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer pkg.Close()
	files, err := outcome.ReadCaseFiles(pkg)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		of   outcome.CaseLine
		want string
	}{
		{outcome.CaseLine{ID: "case-1"}, "evals/cases.json:2"},
		{outcome.CaseLine{ID: "case-10"}, "evals/cases.json:3"},
		{outcome.CaseLine{ID: "case-2"}, "evals/more.YAML:2"},
		{outcome.CaseLine{ID: "gone", Text: "read the table"}, "evals/cases.json:3"},
		{outcome.CaseLine{ID: "gone", Text: "table"}, "SKILL.md:1"}, // too short to be telling
		{outcome.CaseLine{ID: "case-3"}, "SKILL.md:1"},
		{outcome.CaseLine{ID: "case-4", Described: true}, "SKILL.md:3"},
		{outcome.CaseLine{Described: true}, "SKILL.md:3"},
		{outcome.CaseLine{ID: strings.Repeat("(", 1000)}, "SKILL.md:1"},
	} {
		file, line := files.Find(test.of)
		if got := fmt.Sprintf("%s:%d", file, line); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.of, got, test.want)
		}
	}
}
