package storetest

import (
	"os"
	"path/filepath"
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
