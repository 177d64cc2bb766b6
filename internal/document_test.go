package internal_test

import (
	"fmt"
	"maps"
	"os"
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
	if *update {
		if err := os.WriteFile(architecture, []byte(want), 0o644); err != nil { // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("run `make generate` (-want +got):\n%s", diff)
	}
	if n := strings.Count(string(raw), "\n"); n > 250 {
		t.Errorf("%s has %d lines, more than a person reads at once: 250", architecture, n)
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
