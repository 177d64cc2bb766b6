package storetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCovered: the list names tests that are there.
func TestCovered(t *testing.T) {
	for line := range strings.Lines(coveredText) {
		words := strings.Fields(line)
		files, err := filepath.Glob(filepath.Join("../../../..", words[0], "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests (%v)", words[0], err)
		}
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		for _, name := range words[1:] {
			if !strings.Contains(all.String(), "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s has no %s: take it out of covered.txt", words[0], name)
			}
		}
	}
}

// TestShortForms: scripts/test-rest finds every test that has a short form, by what it
// searches for within tests.
func TestShortForms(t *testing.T) {
	const root = "../../../.."
	ask, function := regexp.MustCompile(`\btesting\.Short\(\)|\brapid\.Check\(`), regexp.MustCompile(`^func (Test\w+)?`)
	for _, folder := range []string{"client", "e2e", "internal"} {
		err := fs.WalkDir(os.DirFS(filepath.Join(root, folder)), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "storetest/databases_test.go") {
				return err
			}
			text, err := os.ReadFile(filepath.Join(root, folder, path))
			inTest := false
			for line := range strings.Lines(string(text)) {
				if found := function.FindStringSubmatch(line); found != nil {
					inTest = found[1] != ""
				}
				if ask.MatchString(line) && !inTest {
					t.Errorf("%s/%s: move %q into the test itself", folder, path, strings.TrimSpace(line))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDatabases: no test that is not on the list is left out.
func TestDatabases(t *testing.T) {
	for chosen, want := range map[string][]string{
		"": {"sqlite", "postgres"}, "short": {"sqlite", "postgres"}, "rest": nil, "postgres": {"postgres"},
	} {
		t.Setenv("WHETSTONE_TEST_DATABASES", chosen)
		if got := Databases(t); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", chosen, got, want)
		}
	}
	covered()[testID(t)] = true
	defer delete(covered(), testID(t))
	for chosen, want := range map[string][]string{"": {"sqlite", "postgres"}, "short": {"sqlite"}, "rest": {"postgres"}} {
		t.Setenv("WHETSTONE_TEST_DATABASES", chosen)
		if got := Databases(t); !slices.Equal(got, want) {
			t.Errorf("%q, on the list: %v, want %v", chosen, got, want)
		}
	}
}
