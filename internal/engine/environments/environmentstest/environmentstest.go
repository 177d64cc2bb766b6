// Package environmentstest has a small image, and a stand-in for buildah, with which
// environments can be tested on machines that have neither.
package environmentstest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// Image is the reference of the small image.
const Image = "debian:12"

// standIn builds Dockerfiles of FROM, COPY, ADD, RUN, ENV and WORKDIR, one word per
// operand. RUN lines see the machine's programs, and the image as working folder.
const standIn = `#!/bin/sh
set -e
[ "$1" = --version ] && { echo buildah version 0.0.1; exit; }
while [ "${1#--}" != "$1" ]; do shift 2; done
command=$1; shift
store=/build/stand-in
mkdir -p $store
case $command in
images) ;;
pull) exit 1 ;;
bud)
	while [ $# -gt 1 ]; do
		case $1 in
		-f) file=$2; shift ;;
		-t) tag=$2; shift ;;
		--isolation | --network) shift ;;
		esac
		shift
	done
	context=$1
	root=$store/$(echo "$tag" | tr / _)
	mkdir -p "$root"; workdir=/ env=
	while read -r instruction a b; do
		case $instruction in
		FROM) [ "$a" = scratch ] || cp -a "$store/$(echo "$a" | tr / _)/." "$root" || { echo "no image $a" >&2; exit 125; } ;;
		ADD) tar -xf "$context/$a" -C "$root" ;;
		COPY) mkdir -p "$root$(dirname "$b")"; cp -r "$context/$a" "$root$b" ;;
		RUN) (cd "$root$workdir" && sh -c "$a $b") >&2 ;;
		ENV) env=$a ;;
		WORKDIR) workdir=$a; mkdir -p "$root$a" ;;
		esac
	done <"$file"
	echo "{\"OCIv1\":{\"config\":{\"Env\":[\"PATH=/usr/bin:/bin\",\"$env\"],\"WorkingDir\":\"$workdir\"}}}" >"$root.json"
	;;
from) echo container ;;
mount) echo $store/localhost_environment:latest ;;
inspect) cat $store/localhost_environment:latest.json ;;
esac
`

// New returns a service with the stand-in and the small image.
func New(t *testing.T) *environments.Service {
	t.Helper()
	bin := sandboxtest.Folder(t)
	program := filepath.Join(bin, "buildah")
	check(t, os.Chmod(bin, 0o755))
	check(t, os.WriteFile(program, []byte(standIn), 0o755))
	return newService(t, program)
}

// NewBuildah returns a service with the small image that builds with buildah. The
// test is skipped where it is not installed, or has no RUN lines for this user.
func NewBuildah(t *testing.T) *environments.Service {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("needs buildah: the stand-in builds in its place")
	}
	if _, err := (&builder.Builder{}).Users(t.Context()); err != nil {
		t.Skip(err)
	}
	return newService(t, "")
}

func newService(t *testing.T, buildah string) *environments.Service {
	t.Helper()
	box := sandboxtest.Bubblewrap(t)
	dir, images := sandboxtest.Folder(t), sandboxtest.Folder(t)
	for _, open := range []string{dir, images} {
		check(t, os.Chmod(open, 0o755))
	}
	archive := filepath.Join(images, "debian_12.tar")
	check(t, os.WriteFile(archive, smallImage(t), 0o644))
	return &environments.Service{
		Builder: &builder.Builder{Program: buildah, Dir: dir, Sandbox: box, NeedsNoUsers: buildah != ""}, Dir: dir, Images: images, MaxBytes: 1 << 30,
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// programs are those of the small image.
var programs = []string{
	"bash", "cat", "chmod", "cp", "grep", "head", "ln", "ls", "mkdir", "mv", "rm", "setsid", "sh", "sleep", "touch",
}

var library = regexp.MustCompile(`/\S+\.so\S*`)

// smallImage is a tar of a few programs of this machine and their libraries.
func smallImage(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"app/", "etc/", "root/", "tmp/", "usr/bin/"} {
		check(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	check(t, w.WriteHeader(&tar.Header{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin", Mode: 0o777}))
	libraries := map[string]bool{}
	add := func(name, from string) {
		content, err := os.ReadFile(from)
		check(t, err)
		check(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write(content)
		check(t, err)
	}
	for _, name := range programs {
		program, err := exec.LookPath(name)
		check(t, err)
		add("usr/bin/"+name, program)
		needs, err := exec.Command("ldd", program).Output()
		check(t, err)
		for _, found := range library.FindAllString(string(needs), -1) {
			libraries[found] = true
		}
	}
	var sorted []string
	for name := range libraries {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		add(name[1:], name)
	}
	check(t, w.WriteHeader(&tar.Header{Name: "etc/os-release", Typeflag: tar.TypeReg, Mode: 0o644, Size: 9}))
	_, err := w.Write([]byte("ID=small\n"))
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}
