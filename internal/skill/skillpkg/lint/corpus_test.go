package lint_test

import (
	"os"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// TestCorpus: each line of attacks.txt, in a skill, is an error, and no line of
// harmless.txt is. The latter are defences against attacks, descriptions of them, and
// comments of templates.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file   string
		attack bool
	}{{"testdata/attacks.txt", true}, {"testdata/harmless.txt", false}} {
		text, err := os.ReadFile(test.file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var errors []string
			for _, f := range body("%s", strings.TrimSpace(line)).check(t).Findings {
				if f.Severity == lint.Error {
					errors = append(errors, f.Code)
				}
			}
			if (len(errors) > 0) != test.attack {
				t.Errorf("%q: errors %v", strings.TrimSpace(line), errors)
			}
		}
	}
}
