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

// TestSecurityDocument holds the threat model to its word: each test that it
// names is there.
func TestSecurityDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range readTree(t) {
		for _, d := range f.tests() {
			known[path.Base(f.dir)+"."+d] = true
		}
	}
	named := namedTest.FindAllStringSubmatch(string(text), -1)
	if len(named) < 50 {
		t.Errorf("found only %d tests in the document", len(named))
	}
	for _, match := range named {
		if name := match[1] + "." + match[2]; !known[name] {
			t.Errorf("docs/security.md names %s, which is no test", name)
		}
	}
	for _, match := range namedScript.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat("../e2e/testdata/scripts/" + match[1]); err != nil {
			t.Errorf("docs/security.md names a script: %v", err)
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
