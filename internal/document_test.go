package internal_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const architecture = "../docs/ARCHITECTURE.md"

// TestArchitectureDocument keeps the tables of the document those of the code.
func TestArchitectureDocument(t *testing.T) {
	raw, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for name, generate := range map[string]func(*testing.T) string{"rooms": roomTable, "edges": edgeList, "hooks": hookList} {
		block := regexp.MustCompile(`(?s)(<!-- generated: ` + name + `[^\n]*-->\n).*?(<!-- end -->)`)
		if !block.MatchString(want) {
			t.Errorf("%s has no place for generated %s", architecture, name)
		}
		want = block.ReplaceAllStringFunc(want, func(old string) string {
			parts := block.FindStringSubmatch(old)
			return parts[1] + generate(t) + parts[2]
		})
	}
	index := documentIndex(t)
	if *update {
		if err := os.WriteFile(indexPath, []byte(index), 0o644); err != nil { // a file of the repository
			t.Fatal(err)
		}
		if err := os.WriteFile(architecture, []byte(want), 0o644); err != nil { // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("run `make generate` (-want +got):\n%s", diff)
	}
	if raw, err := os.ReadFile(indexPath); err != nil || string(raw) != index {
		t.Errorf("%v: run `make generate` (-want +got):\n%s", err, cmp.Diff(index, string(raw)))
	}
	if n := strings.Count(string(raw), "\n"); n > 250 {
		t.Errorf("%s has %d lines, more than a person reads at once: 250", architecture, n)
	}
}

// indexPath is the list of the documents by which the page /docs finds them.
const indexPath = "../internal/platform/httpapi/reference_documents.txt"

// documentIndex has a line for each document: file, title, first sentence and headings,
// separated by tabs. Pages about a task come first.
func documentIndex(t *testing.T) string {
	t.Helper()
	tasks := []string{"tutorial.md", "connect.md", "find-out-why.md", "block-bad-versions.md", "cheaper-model.md"}
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(paths, func(a, b string) int {
		at := func(path string) int {
			if i := slices.Index(tasks, filepath.Base(path)); i >= 0 {
				return i
			}
			return len(tasks)
		}
		return at(a) - at(b)
	})
	var index strings.Builder
	fence := regexp.MustCompile("(?ms)^```.*?^```$")
	sentence, link := regexp.MustCompile(`(?m)^[A-Z][^|]*?[.](?:\s|$)`), regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(link.ReplaceAllString(fence.ReplaceAllString(string(raw), ""), "$1"), "`", "")
		title, text, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		fmt.Fprintf(&index, "%s\t%s\t%s", filepath.Base(path), title, strings.Join(strings.Fields(sentence.FindString(text)), " "))
		for line := range strings.Lines(text) {
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				fmt.Fprintf(&index, "\t%s", strings.TrimSpace(heading))
			}
		}
		index.WriteString("\n")
	}
	return index.String()
}

// TestWording keeps phrases of a translation out of what users read; the help of commands is
// tested in package cli.
func TestWording(t *testing.T) {
	raw, err := os.ReadFile("testdata/wording.txt")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	for _, path := range append(documents, "../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			phrase, instead, ok := strings.Cut(strings.TrimSpace(line), " => ")
			if !ok {
				continue
			}
			if found := regexp.MustCompile("(?i).{0,40}" + phrase + ".{0,40}").Find(text); found != nil {
				t.Errorf("%s: %q: write %q, or rewrite the sentence", path, found, instead)
			}
		}
	}
}

// roomTable says of each room what its package comment begins with, and the tables it owns.
func roomTable(t *testing.T) string {
	owners, _ := tableOwners(readMigrations(t))
	tables := map[string][]string{}
	for _, table := range slices.Sorted(maps.Keys(owners)) {
		tables[owners[table]] = append(tables[owners[table]], "`"+table+"`")
	}
	purpose := map[string]string{}
	for _, f := range readTree(t) {
		if rooms[f.dir].name != "" && f.file.Doc != nil && !f.isTest() {
			purpose[f.dir] = firstSentence(f.file.Doc.Text())
		}
	}
	out := &strings.Builder{}
	fmt.Fprintln(out, "| Room | What it does | Tables |\n|---|---|---|")
	for _, wings := range floors {
		for _, w := range wings {
			folders := []string{}
			if slices.Contains(doors, w.name) {
				folders = append(folders, doorOf(w.name))
			}
			for _, name := range w.rooms {
				folders = append(folders, "internal/"+w.name+"/"+name)
			}
			for _, folder := range folders {
				fmt.Fprintf(out, "| `%s` | %s | %s |\n", strings.TrimPrefix(folder, "internal/"), purpose[folder], strings.Join(tables[folder], " "))
			}
		}
	}
	return out.String()
}

var opening = regexp.MustCompile(`^(Package|Command) \w+ (is |has )?`)

// firstSentence is that of a package comment, without the package's name.
func firstSentence(doc string) string {
	words := strings.Join(strings.Fields(opening.ReplaceAllString(doc, "")), " ")
	if end := regexp.MustCompile(`[.:]( |$)`).FindStringIndex(words); end != nil {
		words = words[:end[0]]
	}
	return words
}

func edgeList(*testing.T) string {
	targets := map[string][]string{}
	for _, e := range edges {
		targets[e.from] = append(targets[e.from], e.to)
	}
	return packed(targets, " -> ")
}

// packed shows lists by name, several on a line.
func packed(lists map[string][]string, arrow string) string {
	lines := []string{""}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		slices.Sort(lists[name])
		item := name + arrow + strings.Join(lists[name], ", ")
		switch last := &lines[len(lines)-1]; {
		case *last == "":
			*last = item
		case len(*last)+len(item) > 165:
			lines = append(lines, item)
		default:
			*last += "    " + item
		}
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

func hookList(t *testing.T) string {
	var product []*source
	for _, f := range readTree(t) {
		if !f.forTests {
			product = append(product, f)
		}
	}
	fields := map[string][]string{}
	for _, field := range lateBound(product) {
		service, name, _ := strings.Cut(field, ".")
		fields[service] = append(fields[service], name)
	}
	return packed(fields, ": ")
}
