package release_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// maxBinary is how large the program may be. On Linux it may have 64 MB; the formats of
// the others take a little more.
const maxBinary = 66_000_000

// dist is the folder of a release that `make release-check` has built.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WHETSTONE_DIST")
	if dir == "" {
		t.Skip("WHETSTONE_DIST names no release; run `make release-check`")
	}
	return dir
}

// find returns the file of the release with this suffix; the test is skipped if the
// platform was left out.
func find(t *testing.T, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist(t), "*"+suffix))
	if err != nil || len(found) > 1 {
		t.Fatalf("%s: %q, %v", suffix, found, err)
	}
	if len(found) == 0 {
		t.Skip("the release has no " + suffix)
	}
	return found[0]
}

// unpack writes the files of an archive into a folder, and returns their names.
func unpack(t *testing.T, archive, dir string) []string {
	t.Helper()
	names := []string{}
	put := func(name string, mode os.FileMode, r io.Reader) {
		names = append(names, name)
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(file, r)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(archive, ".zip") {
		r, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }() // it was only read
		for _, f := range r.File {
			content, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			put(f.Name, f.Mode(), content)
			_ = content.Close() // it was only read
		}
		return names
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		put(header.Name, header.FileInfo().Mode(), r)
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(dist(t), "*_*_*_*[pz]"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%q, %v", archives, err)
	}
	var modules []string
	for _, archive := range archives {
		folder := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), ".zip")
		parts := strings.Split(folder, "_")
		dir := t.TempDir()
		names := unpack(t, archive, dir)
		binary := "whetstone"
		if parts[2] == "windows" {
			binary += ".exe"
		}
		want := []string{
			"CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES.txt", "completions/_whetstone", "completions/whetstone.bash",
			"completions/whetstone.fish", "completions/whetstone.ps1", binary,
		}
		for i := range want {
			want[i] = folder + "/" + want[i]
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has %q", archive, names)
		}
		path := filepath.Join(dir, folder, binary)
		stat, err := os.Stat(path)
		if err != nil || stat.Mode().Perm()&0o111 == 0 || stat.Size() > maxBinary {
			t.Errorf("%s: %v, %v", path, stat, err)
		}
		t.Logf("%s: %d bytes, the binary %d", filepath.Base(archive), sizeOf(t, archive), stat.Size())
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if settings["GOOS"] != parts[2] || settings["GOARCH"] != parts[3] || settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
			t.Errorf("%s was built with %v", folder, settings)
		}
		for _, dep := range info.Deps {
			modules = append(modules, "pkg:golang/"+dep.Path+"@"+strings.ReplaceAll(dep.Version, "+", "%2B"))
		}
		if parts[2] == runtime.GOOS && parts[3] == runtime.GOARCH {
			out, err := exec.CommandContext(t.Context(), path, "version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "v"+parts[1]) {
				t.Errorf("whetstone version: %v\n%s", err, out)
			}
		}
	}
	wantSBOM(t, modules)
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// wantSBOM checks that the SBOM has what its schema requires, and the modules.
func wantSBOM(t *testing.T, modules []string) {
	t.Helper()
	text, err := os.ReadFile(find(t, "_sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			Type, Name, PURL string
			Ref              string `json:"bom-ref"`
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.6" || len(doc.Dependencies) != 1 {
		t.Errorf("the SBOM is %.500s", text)
	}
	refs := map[string]bool{}
	for _, c := range doc.Components {
		if c.Type != "library" || c.Name == "" || c.PURL != c.Ref || refs[c.Ref] {
			t.Errorf("the component %+v", c)
		}
		refs[c.Ref] = true
	}
	for _, module := range modules {
		if !refs[module] {
			t.Errorf("the SBOM lacks %s", module)
		}
	}
	slices.Sort(modules)
	if want := len(slices.Compact(modules)) + 1; len(refs) != want || len(doc.Dependencies[0].DependsOn) != want { // and Go's own library
		t.Errorf("the SBOM has %d components and %d dependencies, want %d", len(refs), len(doc.Dependencies[0].DependsOn), want)
	}
}

// readChecksums returns the SHA-256 of each file of the release.
func readChecksums(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist(t), "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || len(sum) != 64 {
			t.Fatalf("the line %q", line)
		}
		sums[name] = sum
	}
	return sums
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	sums, dir := readChecksums(t), dist(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "checksums.txt") {
			files = append(files, entry.Name())
		}
	}
	if got := slices.Sorted(maps.Keys(sums)); !slices.Equal(got, files) {
		t.Errorf("checksums.txt has %q and the release %q", got, files)
	}
	for name, want := range sums {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != want {
			t.Errorf("%s has another sum", name)
		}
	}
}

// TestChecksumsSignature verifies the signature as docs/release.md says.
func TestChecksumsSignature(t *testing.T) {
	t.Parallel()
	dir, cosign := dist(t), os.Getenv("WHETSTONE_COSIGN")
	if cosign == "" {
		t.Skip("WHETSTONE_COSIGN does not name a cosign; run `make release-check`")
	}
	find(t, ".sig")
	verify := func(blob string) error {
		cmd := exec.CommandContext(t.Context(), cosign, "verify-blob", "--key", filepath.Join(dir, "cosign.pub"), "--private-infrastructure",
			"--signature", filepath.Join(dir, "checksums.txt.sig"), blob)
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %s", filepath.Base(blob), out)
		return err
	}
	if err := verify(filepath.Join(dir, "checksums.txt")); err != nil {
		t.Error(err)
	}
	if err := verify(filepath.Join(dir, "whetstone.rb")); err == nil {
		t.Error("the signature is valid for another file")
	}
}

func TestFormula(t *testing.T) {
	t.Parallel()
	formula := filepath.Join(dist(t), "whetstone.rb")
	text, err := os.ReadFile(formula)
	if err != nil {
		t.Fatal(err)
	}
	sums := readChecksums(t)
	pairs := regexp.MustCompile(`url "\S+/(whetstone_\S+)"\s+sha256 "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(pairs) != 4 || strings.Contains(string(text), "@") {
		t.Fatalf("the formula is\n%s", text)
	}
	for _, pair := range pairs {
		want, built := sums[pair[1]]
		if !built {
			want = strings.Repeat("0", 64)
		}
		if pair[2] != want {
			t.Errorf("%s has %s, want %s", pair[1], pair[2], want)
		}
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("ruby is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), "ruby", "-c", formula).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInstalls runs the installer of the release on the release.
func TestInstalls(t *testing.T) {
	t.Parallel()
	dir := dist(t)
	find(t, "_"+platform+".tar.gz")
	find(t, ".sig")
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	paths := map[string]string{"openssl": toolbox(t)}
	if cosign := os.Getenv("WHETSTONE_COSIGN"); cosign != "" {
		paths["cosign"] = filepath.Dir(cosign) + ":" + toolbox(t, "openssl")
	}
	for name, path := range paths {
		target := t.TempDir()
		out, err := install(t, filepath.Join(dir, "install.sh"), path, "--base-url", server.URL, "--dir", target, "--require-signature")
		if err != nil || !strings.Contains(out, "the signature is valid") {
			t.Errorf("with %s: %v\n%s", name, err, out)
			continue
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(target, "whetstone"), "version").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
