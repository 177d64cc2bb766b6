package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseName is how files are called that licences ask to pass on.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// writeLicenses prints the licences of the linked modules and of Go's own
// library, as most of them ask of those who distribute binaries.
func writeLicenses(w io.Writer, m modules, goroot, modcache string) error {
	if _, err := fmt.Fprintln(w, "The binary contains the following modules, each under its own licence."); err != nil {
		return err
	}
	if err := writeFolder(w, "Go "+strings.TrimPrefix(m.goVers, "go"), goroot); err != nil {
		return err
	}
	for _, dep := range m.deps {
		name := dep.Path + "@" + dep.Version
		if err := writeFolder(w, name, filepath.Join(modcache, escape(name))); err != nil {
			return err
		}
	}
	return nil
}

// escape is how the module cache writes names, for disks that ignore case: "A" is "!a".
func escape(name string) string {
	return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(name, func(letter string) string { return "!" + strings.ToLower(letter) })
}

// writeFolder prints the licence files of a module.
func writeFolder(w io.Writer, name, dir string) error {
	files, err := licenseFiles(dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New(name + " has no licence file")
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		if _, err := fmt.Fprintf(w, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, file, bytes.TrimRight(text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func licenseFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && licenseName.MatchString(entry.Name()) && !strings.HasSuffix(entry.Name(), ".go") {
			files = append(files, entry.Name())
		}
	}
	slices.Sort(files)
	return files, nil
}
