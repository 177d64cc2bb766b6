package internal_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	update     = flag.Bool("update", false, "write the measured figures and the generated parts of documents")
	printHouse = flag.Bool("house", false, "print the figures of the house beside those of others")
	helpersOf  = flag.String("helpers", "", "list the private helpers used once of a package, e.g. internal/web")
)

// A figure of the house is measured the same way for every commit. Growth may not eat
// a renovation: TestHouse fails when one gets worse than the committed value.
type figure struct {
	name   string
	more   bool // is better; else less is
	free   bool // it may get worse
	places int  // after the decimal point
	// The goal, and what an outside review measured with its own tool on this product
	// before the third house, and on pkgsite, dex, river, alertmanager, miniflux, gitea.
	goal    string
	before  string
	anchors [6]string
}

var figures = []figure{
	{name: "lines of product code", free: true, goal: "-", before: "182,441", anchors: [6]string{"47k", "38k", "26k", "30k", "44k", "331k"}},
	{name: "packages", goal: "150", before: "236", anchors: [6]string{"80", "58", "54", "57", "87", "369"}},
	{name: "packages under 150 lines", goal: "30", before: "62", anchors: [6]string{"31", "11", "30", "10", "37", "97"}},
	{name: "packages that only their parent imports", goal: "-", before: "79"},
	{name: "packages of one name", goal: "0", before: "-"},
	{name: "longest chain of imports", goal: "22", before: "23", anchors: [6]string{"10", "6", "6", "14", "13", "40"}},
	{name: "function median lines", free: true, more: true, goal: "12", before: "9", anchors: [6]string{"13", "12", "9", "11", "11", "11"}},
	{name: "function p90 lines", free: true, more: true, goal: "35", before: "27", anchors: [6]string{"46", "45", "41", "48", "48", "49"}},
	{name: "functions over 100 lines", free: true, goal: "-", before: "2", anchors: [6]string{"30", "22", "16", "15", "30", "283"}},
	{name: "comment lines, %", more: true, places: 1, goal: "12", before: "9.8", anchors: [6]string{"17.0", "11.9", "20.8", "15.9", "6.3", "12.8"}},
	{name: "private helpers used once, up to 12 lines, %", places: 1, goal: "18", before: "23.4", anchors: [6]string{"22.9", "13.0", "15.1", "26.0", "24.1", "18.4"}},
	{name: "lines over 130 columns in 1,000", places: 1, goal: "3", before: "6.5", anchors: [6]string{"2.9", "7.6", "12.0", "4.4", "3.6", "9.7"}},
	{name: "nolint", goal: "25", before: "70", anchors: [6]string{"0", "2", "83", "2", "0", "191"}},
	{name: "repeated runs of more than 12 lines", goal: "-", before: "-"},
	{name: "template lines over 130 columns", goal: "0", before: "895"},
	{name: "reads of other rooms' tables", goal: "25", before: "93"},
	{name: "late-bound hooks", goal: "20", before: "37"},
}

const houseFile = "testdata/house.json"

// TestHouse is the ratchet.
func TestHouse(t *testing.T) {
	measured := measureHouse(t)
	raw, err := os.ReadFile(houseFile)
	if err != nil {
		t.Fatal(err)
	}
	var committed map[string]float64
	if err := json.Unmarshal(raw, &committed); err != nil {
		t.Fatal(err)
	}
	if *printHouse {
		printFigures(measured)
	}
	if *update {
		raw, err := json.MarshalIndent(measured, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(houseFile, append(raw, '\n'), 0o644); err != nil { // a file of the repository
			t.Fatal(err)
		}
		return
	}
	for _, f := range figures {
		got, want := measured[f.name], committed[f.name]
		if worse := f.more && got < want || !f.more && got > want; worse && !f.free {
			t.Errorf("%s: %v, and %v before: write it as the house does. CONTRIBUTING.md says how to read the figures", f.name, got, want)
		}
	}
}

func printFigures(measured map[string]float64) {
	fmt.Println("| Figure | Goal | Now | Before | pkgsite | dex | river | alertmanager | miniflux | gitea |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, f := range figures {
		fmt.Printf("| %s | %s | %.*f | %s | %s |\n", f.name, f.goal, f.places, measured[f.name], f.before, strings.Join(f.anchors[:], " | "))
	}
}

// measureHouse looks at the product: neither tests and what only they use, nor the
// benchmarks and tools, which are modules of their own.
func measureHouse(t *testing.T) map[string]float64 {
	t.Helper()
	m := map[string]float64{}
	var product []*source
	for _, f := range readTree(t) {
		if !f.forTests {
			product = append(product, f)
		}
	}
	packages := map[string]int{} // lines by folder
	var functions []int
	var comments, long float64
	for _, f := range product {
		lines := strings.Split(strings.TrimSuffix(f.text, "\n"), "\n")
		packages[f.dir] += len(lines)
		m["lines of product code"] += float64(len(lines))
		comments += float64(commentLines(f))
		long += float64(longLines(lines))
		m["nolint"] += float64(strings.Count(f.text, "//nolint"))
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				n := f.lines(fn)
				functions = append(functions, n)
				if n > 100 {
					m["functions over 100 lines"]++
				}
			}
		}
	}
	m["packages"] = float64(len(packages))
	names := map[string]int{}
	for dir, n := range packages {
		if n < 150 {
			m["packages under 150 lines"]++
		}
		names[path.Base(dir)]++
	}
	m["packages of one name"] = 0
	for _, n := range names {
		m["packages of one name"] += float64(n - 1)
	}
	importers := importersOf(product)
	m["packages that only their parent imports"] = float64(onlyOfParent(importers))
	m["longest chain of imports"] = float64(longestChain(importers))
	slices.Sort(functions)
	m["function median lines"] = float64(functions[len(functions)/2])
	m["function p90 lines"] = float64(functions[len(functions)*9/10])
	m["comment lines, %"] = oneDecimal(100 * comments / m["lines of product code"])
	m["lines over 130 columns in 1,000"] = oneDecimal(1000 * long / m["lines of product code"])
	m["private helpers used once, up to 12 lines, %"] = oneDecimal(usedOnce(product))
	m["repeated runs of more than 12 lines"] = float64(repeatedRuns(product))
	m["template lines over 130 columns"] = float64(longTemplateLines(t))
	owners, _ := tableOwners(readMigrations(t))
	m["reads of other rooms' tables"] = float64(len(foreignReads(product, owners)))
	m["late-bound hooks"] = float64(len(lateBound(product)))
	return m
}

func oneDecimal(x float64) float64 { return math.Round(10*x) / 10 }

// lines is how many lines a declaration has.
func (f *source) lines(n ast.Node) int {
	return f.files.Position(n.End()).Line - f.files.Position(n.Pos()).Line + 1
}

// commentLines counts the lines of comments that people read.
func commentLines(f *source) (n int) {
	code := map[int]bool{} // a comment behind code is no line of its own
	ast.Inspect(f.file, func(node ast.Node) bool {
		switch node.(type) {
		case nil, *ast.File, *ast.CommentGroup, *ast.Comment:
		default:
			code[f.files.Position(node.Pos()).Line] = true
		}
		return true
	})
	for _, group := range f.file.Comments {
		for _, c := range group.List {
			if !code[f.files.Position(c.Pos()).Line] && !strings.HasPrefix(c.Text, "//nolint") && !strings.HasPrefix(c.Text, "//go:") {
				n += f.lines(c)
			}
		}
	}
	return n
}

func longLines(lines []string) (n int) {
	for _, line := range lines {
		if columns(line) > 130 {
			n++
		}
	}
	return n
}

// columns is how wide an editor with tabs of 4 shows a line.
func columns(line string) int { return len([]rune(line)) + 3*strings.Count(line, "\t") }

// importersOf maps the product's packages to those that import them.
func importersOf(product []*source) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range product {
		if all[f.dir] == nil {
			all[f.dir] = map[string]bool{}
		}
	}
	for _, f := range product {
		for imported := range f.imports() {
			if dir, ok := strings.CutPrefix(imported, module); ok && all[dir] != nil {
				all[dir][f.dir] = true
			}
		}
	}
	return all
}

func onlyOfParent(importers map[string]map[string]bool) (n int) {
	for dir, by := range importers {
		if len(by) == 1 && by[path.Dir(dir)] {
			n++
		}
	}
	return n
}

// longestChain is the number of packages in the longest chain of imports.
func longestChain(importers map[string]map[string]bool) (most int) {
	depth := map[string]int{}
	var walk func(dir string) int
	walk = func(dir string) int {
		if depth[dir] == 0 {
			depth[dir] = 1
			for by := range importers[dir] {
				depth[dir] = max(depth[dir], 1+walk(by))
			}
		}
		return depth[dir]
	}
	for dir := range importers {
		most = max(most, walk(dir))
	}
	return most
}

// usedOnce is the share, in percent, of private functions and methods of up to 12 lines
// whose name the package mentions once.
func usedOnce(product []*source) float64 {
	uses := map[string]map[string]int{}
	for _, f := range product {
		if uses[f.dir] == nil {
			uses[f.dir] = map[string]int{}
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				uses[f.dir][id.Name]++
			}
			return true
		})
	}
	var private, once float64
	for _, f := range product {
		for _, d := range f.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.IsExported() || fn.Name.Name == "main" {
				continue
			}
			private++
			if f.lines(fn) <= 12 && uses[f.dir][fn.Name.Name] == 2 { // its declaration is one
				once++
				if f.dir == *helpersOf {
					fmt.Println(f.files.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
	return 100 * once / private
}

// repeatedRuns counts the runs of more than 12 lines of code that stand twice.
func repeatedRuns(product []*source) (n int) {
	const run = 13
	seen := map[string]bool{}
	for _, f := range product {
		var code []string
		last := 0
		for _, spec := range f.file.Imports {
			last = f.files.Position(spec.End()).Line
		}
		for _, line := range strings.Split(f.text, "\n")[last:] {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				code = append(code, line)
			}
		}
		again := false
		for i := 0; i+run <= len(code); i++ {
			window := strings.Join(code[i:i+run], "\n")
			if seen[window] && !again {
				n++
			}
			again = seen[window]
			seen[window] = true
		}
	}
	return n
}

func longTemplateLines(t *testing.T) (n int) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("web"), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".html" {
			return err
		}
		text, err := os.ReadFile(path.Join("web", p))
		n += longLines(strings.Split(string(text), "\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readers may read all tables: they look at an installation or an organisation as a whole.
var readers = []string{"overview", "privacy", "backup", "doctor", "demo"}

var reads = regexp.MustCompile(`\b(?:FROM|JOIN)\s+"?(\w+)`)

// foreignReads lists a room and a table of another one that it reads, each pair once.
func foreignReads(product []*source, owners map[string]string) (pairs []string) {
	for _, f := range product {
		if slices.Contains(readers, rooms[f.room].name) {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok {
				return true
			}
			for _, match := range reads.FindAllStringSubmatch(text(literal), -1) {
				pair := path.Base(f.room) + " reads " + match[1]
				if owner := owners[match[1]]; owner != "" && owner != f.room && !slices.Contains(pairs, pair) {
					pairs = append(pairs, pair)
				}
			}
			return true
		})
	}
	slices.Sort(pairs)
	return pairs
}

// lateBound lists the fields of services that the wiring sets after it made them, because
// a lower room tells a higher one something.
func lateBound(product []*source) (fields []string) {
	for _, f := range product {
		if f.dir != "internal/app" {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || assign.Tok != token.ASSIGN {
				return true
			}
			for _, target := range assign.Lhs {
				field, ok := target.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				service, ok := field.X.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if parts, ok := service.X.(*ast.Ident); ok && parts.Name == "p" {
					fields = append(fields, service.Sel.Name+"."+field.Sel.Name)
				}
			}
			return true
		})
	}
	return fields
}
