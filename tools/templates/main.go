// Command templates formats the dashboard's HTML templates, as gofmt formats Go:
// one element per line, indented by nesting, at most 130 columns.
//
//	templates -l DIR    lists the files that are not formatted, and fails if there are any
//	templates -w DIR    formats them
//
// It moves only white space that a browser ignores. Where white space would show,
// e.g. between a link and the comma after it, a line is broken with the trim markers
// of an action, inside a tag between two attributes, or not at all.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	list := flag.Bool("l", false, "list files that are not formatted, and fail if there are any")
	write := flag.Bool("w", false, "write the formatted files")
	flag.Parse()
	found, err := run(flag.Arg(0), *list, *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "templates:", err)
	}
	if err != nil || found {
		os.Exit(1)
	}
}

// run formats the templates of a folder. It reports whether -l found something.
func run(folder string, list, write bool) (found bool, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.html"))
	if err != nil || len(files) == 0 {
		return false, cmp.Or(err, fmt.Errorf("%s has no templates", folder))
	}
	sources := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		sources[file] = string(text)
	}
	results, err := format(sources)
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if results[file] == sources[file] {
			continue
		}
		if list {
			fmt.Println(file)
			found = true
		}
		if write {
			if err := os.WriteFile(file, []byte(results[file]), 0o644); err != nil {
				return false, err
			}
		}
	}
	return found, nil
}

// format returns the one form of templates by name. They are looked at together: what
// shows the white space around a {{template}} shows that in it, too.
func format(sources map[string]string) (map[string]string, error) {
	fixed := map[string]bool{}
	for {
		known := len(fixed)
		results := map[string]string{}
		for name, source := range sources {
			tokens, err := scan(source)
			if err != nil {
				return nil, fmt.Errorf("%s:%w", name, err)
			}
			root, err := parse(tokens, fixed)
			if err != nil {
				return nil, fmt.Errorf("%s:%w", name, err)
			}
			results[name] = root.String()
		}
		if len(fixed) == known {
			return results, nil
		}
	}
}
