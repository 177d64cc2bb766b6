// Command covered reads the log of a PostgreSQL server on which all tests ran, and writes
// which of them execute no statement, and meet no error, that the others do not:
//
//	covered statements.csv >internal/platform/store/storetest/covered.txt
package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "covered:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: covered LOG")
	}
	log, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer log.Close()
	tests, err := read(log)
	if err != nil {
		return err
	}
	lines := map[string][]string{}
	for _, t := range dispensable(tests) {
		folder, name := split(t)
		lines[folder] = append(lines[folder], name)
	}
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		fmt.Println(folder, strings.Join(lines[folder], " "))
	}
	return nil
}

// split returns the folder and the name of a test, e.g. of "internal/web.TestHome".
func split(id string) (folder, name string) {
	i := strings.LastIndexByte(id, '.')
	return id[:i], id[i+1:]
}

// A test is what one test did on PostgreSQL.
type test struct {
	did   map[string]bool // statements, and errors with the statements that met them
	count int             // statements that were executed
}

// Columns of the log: PostgreSQL's documentation, "Using CSV-Format Log Output".
const (
	databaseColumn = 2
	severityColumn = 11
	codeColumn     = 12
	messageColumn  = 13
	queryColumn    = 19
)

var (
	made      = regexp.MustCompile(`CREATE DATABASE (t_\w+) .*-- (\S+)$`)
	statement = regexp.MustCompile(`(?s)^(?:statement|execute [^:]*): (.*)$`)
	lists     = regexp.MustCompile(`\$\d+(?:::\w+)?(\s*,\s*\$\d+(?:::\w+)?)*`)
	rows      = regexp.MustCompile(`\(\?\)(\s*,\s*\(\?\))*`)
	numbers   = regexp.MustCompile(`\b\d+\b`)
	spaces    = regexp.MustCompile(`\s+`)
)

// normal is a statement without what differs between two calls: its arguments and how many
// there are, and numbers.
func normal(text string) string {
	text = rows.ReplaceAllString(lists.ReplaceAllString(text, "?"), "(?)")
	return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(text, "0"), " "))
}

func read(log io.Reader) (map[string]*test, error) {
	testOf, tests := map[string]string{}, map[string]*test{}
	r := csv.NewReader(log)
	r.ReuseRecord, r.FieldsPerRecord, r.LazyQuotes = true, -1, true
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			return tests, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line) <= queryColumn {
			continue
		}
		if m := made.FindStringSubmatch(line[messageColumn]); m != nil {
			testOf[m[1]] = m[2]
			continue
		}
		name := testOf[line[databaseColumn]]
		if name == "" {
			continue
		}
		t := tests[name]
		if t == nil {
			t = &test{did: map[string]bool{}}
			tests[name] = t
		}
		if line[severityColumn] == "ERROR" {
			t.did[line[codeColumn]+" "+normal(line[queryColumn])] = true
		} else if m := statement.FindStringSubmatch(line[messageColumn]); m != nil {
			t.did[normal(m[1])] = true
			t.count++
		}
	}
}

// both are packages whose tests need both databases, as they are about databases.
var both = []string{"store", "jobs", "cluster", "backup"}

// dispensable returns tests without which the others still do all that is done. Those
// that do much that is new, for what they cost, are kept first.
func dispensable(tests map[string]*test) []string {
	done, left := map[string]bool{}, map[string]*test{}
	for name, t := range tests {
		if folder, _ := split(name); slices.Contains(both, path.Base(folder)) {
			maps.Copy(done, t.did)
			continue
		}
		left[name] = t
	}
	const start = 50 // statements that making a database costs as much as
	for {
		best, value := "", 0.0
		for _, name := range slices.Sorted(maps.Keys(left)) {
			t := left[name]
			maps.DeleteFunc(t.did, func(did string, _ bool) bool { return done[did] })
			if v := float64(len(t.did)) / float64(t.count+start); v > value {
				best, value = name, v
			}
		}
		if best == "" {
			return slices.SortedFunc(maps.Keys(left), cmp.Compare)
		}
		maps.Copy(done, left[best].did)
		delete(left, best)
	}
}
