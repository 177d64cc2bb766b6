package internal_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`([a-z]+)\\.(Test\\w+)`")
	namedScript = regexp.MustCompile("`(\\w+\\.txtar)`")
)

// TestSecurityDocument holds the threat model, and the table of how people become owners,
// to their word: each test that they name is there.
func TestSecurityDocument(t *testing.T) {
	known := map[string]bool{}
	for _, f := range readTree(t) {
		for _, d := range f.tests() {
			known[path.Base(f.dir)+"."+d] = true
		}
	}
	for file, least := range map[string]int{"security.md": 50, "people.md": 20} {
		text, err := os.ReadFile("../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		named := namedTest.FindAllStringSubmatch(string(text), -1)
		if len(named) < least {
			t.Errorf("found only %d tests in docs/%s", len(named), file)
		}
		for _, match := range named {
			if name := match[1] + "." + match[2]; !known[name] {
				t.Errorf("docs/%s names %s, which is no test", file, name)
			}
		}
		for _, match := range namedScript.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat("../e2e/testdata/scripts/" + match[1]); err != nil {
				t.Errorf("docs/%s names a script: %v", file, err)
			}
		}
	}
}

// tests lists the test functions of the file.
func (f *source) tests() (names []string) {
	for _, decl := range f.file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
