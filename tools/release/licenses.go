package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseName is how files are called that licences ask to pass on.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// writeLicenses prints the licences of the linked modules and of Go's own
// library, as most of them ask of those who distribute binaries.
func writeLicenses(w io.Writer, m modules) error {
	_, err := fmt.Fprintf(w, "The binary contains the following modules, each under its own licence.\n")
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if err := writeFolder(w, "Go "+strings.TrimPrefix(m.goVers, "go"), strings.TrimSpace(string(goroot))); err != nil {
		return err
	}
	if len(m.deps) == 0 {
		return nil
	}
	args := []string{"mod", "download", "-json"}
	for _, dep := range m.deps {
		args = append(args, dep.Path+"@"+dep.Version)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for _, dep := range m.deps {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); err != nil {
			return err
		}
		if module.Path != dep.Path || module.Version != dep.Version {
			return fmt.Errorf("go mod download answers %s for %s", module.Path, dep.Path)
		}
		if err := writeFolder(w, dep.Path+"@"+dep.Version, module.Dir); err != nil {
			return err
		}
	}
	return nil
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
