package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, time.November, 17, 8, 0, 0, 0, time.UTC)

// folder makes a folder for an archive; its files have other times and modes each time.
func folder(t *testing.T, umask os.FileMode, age time.Duration) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "whetstone_1.2.3_linux_amd64")
	for name, mode := range map[string]os.FileMode{"whetstone": 0o777, "README.md": 0o666, "completions/whetstone.bash": 0o666} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(name, 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode&^umask); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestArchive(t *testing.T) {
	want := []string{
		"whetstone_1.2.3_linux_amd64/README.md -rw-r--r-- 2026-11-17T08:00:00Z",
		"whetstone_1.2.3_linux_amd64/completions/whetstone.bash -rw-r--r-- 2026-11-17T08:00:00Z",
		"whetstone_1.2.3_linux_amd64/whetstone -rwxr-xr-x 2026-11-17T08:00:00Z",
	}
	for suffix, list := range map[string]func(*testing.T, []byte) []string{".tar.gz": listTar, ".zip": listZip} {
		t.Run(suffix, func(t *testing.T) {
			var archives [][]byte
			for i, umask := range []os.FileMode{0o022, 0o077} {
				out := filepath.Join(t.TempDir(), "out"+suffix)
				if err := writeArchive(out, folder(t, umask, time.Duration(i)*time.Hour), at); err != nil {
					t.Fatal(err)
				}
				content, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				archives = append(archives, content)
			}
			if !bytes.Equal(archives[0], archives[1]) {
				t.Error("equal files give different archives")
			}
			if got := list(t, archives[0]); !slices.Equal(got, want) {
				t.Errorf("got\n%s", strings.Join(got, "\n"))
			}
		})
	}
	dir := folder(t, 0o022, 0)
	if err := writeArchive(filepath.Join(t.TempDir(), "out.rar"), dir, at); err == nil {
		t.Error("it writes .rar")
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := writeArchive(filepath.Join(t.TempDir(), "out.zip"), dir, at); err == nil {
		t.Error("it packs a link")
	}
}

func listTar(t *testing.T, content []byte) (files []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil || header.Uid != 0 || header.Uname != "" {
			t.Fatalf("%+v, %v", header, err)
		}
		files = append(files, header.Name+" "+header.FileInfo().Mode().String()+" "+header.ModTime.UTC().Format(time.RFC3339))
	}
}

func listZip(t *testing.T, content []byte) (files []string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		files = append(files, f.Name+" "+f.Mode().String()+" "+f.Modified.UTC().Format(time.RFC3339))
	}
	return files
}

// TestSBOM describes the test's own binary.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := run([]string{"sbom", "-epoch", "1794902400", "-version", "v1.2.3", self}, w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two documents of one binary differ")
	}
	var doc struct {
		BOMFormat, SpecVersion, SerialNumber string
		Version                              int
		Metadata                             struct {
			Timestamp string
			Component struct{ Type, Name, Version string }
		}
		Components []struct{ Type, Name, Version, PURL string }
	}
	if err := json.Unmarshal(first.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.6" || doc.Version != 1 || doc.Metadata.Timestamp != "2026-11-17T08:00:00Z" ||
		doc.Metadata.Component.Type != "application" || doc.Metadata.Component.Version != "v1.2.3" ||
		doc.Metadata.Component.Name != "tools" { // the module of this test
		t.Errorf("got %+v", doc)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(doc.SerialNumber) {
		t.Errorf("the serial number is %q", doc.SerialNumber)
	}
	if len(doc.Components) == 0 || doc.Components[0].Name != "std" || !strings.HasPrefix(doc.Components[0].PURL, "pkg:golang/std@1.") {
		t.Errorf("the components are %+v", doc.Components)
	}
	if c := newComponent("library", "github.com/a/b", "v2.0.0+incompatible"); c.PURL != "pkg:golang/github.com/a/b@v2.0.0%2Bincompatible" {
		t.Errorf("the package URL is %q", c.PURL)
	}
	if err := run([]string{"sbom", "-version", "v1.2.3", "/bin/sh"}, io.Discard); err == nil {
		t.Error("it describes what Go has not built")
	}
}

func TestLicenses(t *testing.T) {
	goroot, modcache := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(goroot, "LICENSE"):                                   "Go's licence.\n",
		filepath.Join(modcache, "github.com/!burnt!sushi/toml@v1/COPYING"): "MIT\r\n\r\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := modules{goVers: "go1.26.8", deps: []debug.Module{{Path: "github.com/BurntSushi/toml", Version: "v1"}}}
	var b bytes.Buffer
	if err := writeLicenses(&b, m, goroot, modcache); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("=", 80)
	want := "The binary contains the following modules, each under its own licence.\n" +
		"\n" + line + "\nGo 1.26.8: LICENSE\n\nGo's licence.\n" +
		"\n" + line + "\ngithub.com/BurntSushi/toml@v1: COPYING\n\nMIT\n"
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	if err := writeLicenses(io.Discard, m, goroot, t.TempDir()); err == nil {
		t.Error("a module that is not there is no error")
	}
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "License.md", "COPYING", "NOTICE.txt", "licenses.go", "README.md", "license.go", "LICENSE-MIT"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text of "+name+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := licenseFiles(dir)
	if err != nil || strings.Join(files, " ") != "COPYING LICENSE LICENSE-MIT License.md NOTICE.txt" {
		t.Errorf("%q, %v", files, err)
	}
	if err := writeFolder(io.Discard, "m", t.TempDir()); err == nil {
		t.Error("a module without a licence is no error")
	}
}
