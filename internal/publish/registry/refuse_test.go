package registry_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func zipped(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("SKILL.md")
	if err == nil {
		_, err = f.Write([]byte(registrytest.SkillText("Zip.")))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRefusedMetadata has a case for everything that can be wrong about the
// form and its metadata.
func TestRefusedMetadata(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		archive := registrytest.Skill(t, "A.", "x.md", "x")
		right := registrytest.Manifest(map[string]string{"SKILL.md": registrytest.SkillText("A."), "x.md": "x"})
		wrong := func(field string, value any) []object {
			m := registrytest.Manifest(map[string]string{"SKILL.md": registrytest.SkillText("A."), "x.md": "x"})
			m[1][field] = value
			return m
		}
		for _, c := range []struct {
			name       string
			fields     object
			path, text string
		}{
			{"no name", object{"name": ""}, "name", "name must have 1 to 100 characters"},
			{"long name", object{"name": strings.Repeat("ä", 101)}, "name", "name must have 1 to 100 characters"},
			{"slash in the name", object{"name": "a/b"}, "name", "without slashes"},
			{"control character in the name", object{"name": "a\x1b[2J"}, "name", "printable"},
			{"space around the name", object{"name": " pdf"}, "name", "without spaces around it"},
			{"no version", object{"version": ""}, "version", "version must be 1 to 128 printable characters"},
			{"long version", object{"version": strings.Repeat("1", 129)}, "version", "version must be 1 to 128 printable characters"},
			{"slash in the version", object{"version": "1/2"}, "version", "without /"},
			{"line feed in the version", object{"version": "1\n2"}, "version", "printable"},
			{"NUL in the version", object{"version": "1\x00"}, "version", "printable"},
			{"type", object{"entry_type": "spell"}, "entry_type", "entry_type must be one of skill, agent, command, hook, bundle"},
			{"visibility", object{"visibility": "secret"}, "visibility", "visibility must be one of public, org, unlisted"},
			{"repository", object{"source_repo": "acme"}, "source_repo", "source_repo must be owner/repo"},
			{"description too long", object{"description": strings.Repeat("x", 4097)}, "description", "at most 4096 characters"},
			{"NUL in the description", object{"description": "a\x00b"}, "description", "description must not contain NUL"},
			{"NUL in the summary", object{"change_summary": "a\x00b"}, "change_summary", "change_summary must not contain NUL"},
			{"summary too long", object{"change_summary": strings.Repeat("x", 10001)}, "change_summary", "at most 10000 characters"},
			{"wrong hash", object{"content_hash": registrytest.Sum([]byte("other"))}, "content_hash", "content_hash must be the SHA-256 of the archive, " + registrytest.Sum(archive)},
			{"hash that is none", object{"content_hash": "abc"}, "content_hash", "must be the SHA-256"},
			{"extra file in the manifest", object{"file_manifest": append(right, object{"path": "y", "hash": "", "size": 0})}, "file_manifest", `names "y", which is not in the archive`},
			{"file missing in the manifest", object{"file_manifest": right[:1]}, "file_manifest", `leaves out "x.md"`},
			{"empty manifest", object{"file_manifest": []object{}}, "file_manifest", `leaves out "SKILL.md"`},
			{"file twice in the manifest", object{"file_manifest": append(right, right[1])}, "file_manifest", `names "x.md", which is not in the archive, or twice`},
			{"wrong size", object{"file_manifest": wrong("size", 2)}, "file_manifest", `wrong about "x.md"`},
			{"wrong hash of a file", object{"file_manifest": wrong("hash", registrytest.Sum(nil))}, "file_manifest", `wrong about "x.md"`},
			{"name of another type", object{"name": 1}, "name", "name: unexpected number"},
			{"version of another type", object{"version": []int{1}}, "version", "version: unexpected array"},
			{"size of another type", object{"file_manifest": wrong("size", "1")}, "file_manifest.size", "unexpected string"},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada.In(t).Create("pdf", "1", archive, c.fields).WantIssueWith(c.path, c.text)
			})
		}
		wantNothing(w)
	})
}

func TestRefusedForm(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		archive, m := registrytest.Skill(t, "A."), apptest.JSONPart(t, "metadata", object{"name": "pdf", "version": "1"})
		raw := func(content string) apptest.Part { return apptest.Part{Name: "metadata", Content: []byte(content)} }
		asFile := apptest.Part{Name: "metadata", File: "m.json", Content: bytes.Repeat([]byte(" "), 1<<20+1)}
		const needArchive = "archive must be one file part"
		for _, c := range []struct {
			name       string
			parts      []apptest.Part
			path, text string
		}{
			{"no metadata", []apptest.Part{registrytest.ArchivePart(archive)}, "metadata", "metadata is required"},
			{"two metadata", []apptest.Part{m, m, registrytest.ArchivePart(archive)}, "metadata", "one part that holds JSON"},
			{"no archive", []apptest.Part{m}, "archive", needArchive},
			{"two archives", []apptest.Part{m, registrytest.ArchivePart(archive), registrytest.ArchivePart(archive)}, "archive", needArchive},
			{"archive that is no file", []apptest.Part{m, {Name: "archive", Content: archive}}, "archive", needArchive},
			{"metadata that is no JSON", []apptest.Part{raw("{"), registrytest.ArchivePart(archive)}, "metadata", "metadata is not valid JSON"},
			{"two documents", []apptest.Part{raw("{} {}"), registrytest.ArchivePart(archive)}, "metadata", "metadata is not valid JSON"},
			{"array", []apptest.Part{raw("[1]"), registrytest.ArchivePart(archive)}, "metadata", "metadata: unexpected array"},
			{"text", []apptest.Part{raw(`"pdf"`), registrytest.ArchivePart(archive)}, "metadata", "metadata: unexpected string"},
			{"null", []apptest.Part{raw("null"), registrytest.ArchivePart(archive)}, "name", "name must have"},
		} {
			t.Run(c.name, func(t *testing.T) { ada.In(t).Upload(registrytest.Path, c.parts...).WantIssueWith(c.path, c.text) })
		}
		asValue := asFile
		asValue.File = ""
		for _, p := range []apptest.Part{asFile, asValue} {
			ada.Upload(registrytest.Path, p, registrytest.ArchivePart(archive)).WantErrorWith(http.StatusRequestEntityTooLarge, "1 MiB")
		}
		ada.Post(registrytest.Path, object{"name": "pdf"}).WantErrorWith(http.StatusUnsupportedMediaType, "multipart/form-data")
		ada.Do(http.MethodPost, registrytest.Path, "garbage", "Content-Type: multipart/form-data; boundary=x").
			WantIssueWith("", "multipart form")
		wantNothing(w)
	})
}

// TestRefusedArchives sends archives of each kind that is refused; the whole
// list of what skillpkg refuses is tested there.
func TestRefusedArchives(t *testing.T) {
	t.Parallel()
	cases := refusedArchives(t)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				a := ada.In(t).Create("pdf", "1", c.archive)
				if c.status == http.StatusBadRequest {
					a.WantIssueWith("archive", c.text)
					return
				}
				a.WantErrorWith(c.status, c.text)
			})
		}
		wantNothing(w)
	})
}

type refusedArchive struct {
	name    string
	archive []byte
	status  int
	text    string
}

func refusedArchives(t *testing.T) []refusedArchive {
	t.Helper()
	good := registrytest.Skill(t, "A.")
	damaged := bytes.Clone(good)
	damaged[len(damaged)-8] ^= 1
	sk := registrytest.File("SKILL.md", registrytest.SkillText("A."))
	many := []registrytest.Member{sk}
	for i := range 1000 {
		many = append(many, registrytest.File(fmt.Sprintf("f%d", i), ""))
	}
	return []refusedArchive{
		{"nothing", nil, 400, "neither"},
		{"text", []byte("hello"), 400, "neither"},
		{"zip", zipped(t), 400, "archive must be a tar.gz, not a zip"},
		{"gzip cut short", good[:len(good)-20], 400, "ends too early"},
		{"gzip with a wrong checksum", damaged, 400, "the archive is damaged"},
		{"path out of the root", registrytest.Pack(t, sk, registrytest.File("../evil.sh", "x")), 400, `"../evil.sh"`},
		{"absolute path", registrytest.Pack(t, sk, registrytest.File("/etc/passwd", "x")), 400, `"/etc/passwd"`},
		{"link out of the root", registrytest.Pack(t, sk, registrytest.Symlink("l", "../../etc/passwd")), 400, `"l"`},
		{"device", registrytest.Pack(t, sk, registrytest.Member{Name: "null", Type: tar.TypeChar}), 400, `"null"`},
		{"setuid", registrytest.Pack(t, sk, registrytest.Member{Name: "su", Type: tar.TypeReg, Mode: 0o4111}), 400, `"su"`},
		{"the same name twice", registrytest.Pack(t, sk, registrytest.File("a", "1"), registrytest.File("a", "2")), 400, `"a"`},
		{"names that differ in case", registrytest.Pack(t, sk, registrytest.File("Read.md", "1"), registrytest.File("READ.md", "2")), 400, `"READ.md"`},
		{"no SKILL.md", registrytest.Pack(t, registrytest.File("readme.md", "x")), 400, "no SKILL.md at the root"},
		{"two skills", registrytest.Pack(t, registrytest.File("a/SKILL.md", "x"), registrytest.File("b/SKILL.md", "x")), 400, "pack one skill at a time"},
		{"too many files", registrytest.Pack(t, many...), 413, "more than 1000 files"},
		{"bomb", registrytest.Pack(t, sk, registrytest.File("zeros", strings.Repeat("\x00", 9<<20))), 413, "100 times its size"},
		{"file too large", registrytest.Pack(t, sk, registrytest.File("big", registrytest.Noise(1<<20)+strings.Repeat("\x00", 10<<20))), 413, "10 MiB"},
		{"archive too large", registrytest.Pack(t, sk, registrytest.File("big", registrytest.Noise(10<<20))), 413, "larger than 10 MiB"},
		{"body too large", registrytest.Pack(t, sk, registrytest.File("big", registrytest.Noise(13<<20))), 413, "12 MiB"},
	}
}

// TestRefusedPush checks that a push is checked as a create is, and that what
// was stored on the way to a refusal goes away.
func TestRefusedPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "A."))
		before := w.Contents()
		other := registrytest.Skill(t, "B.")
		for _, c := range []struct {
			fields     object
			path, text string
		}{
			{object{"version": "a/b"}, "version", "without /"},
			{object{"version": ""}, "version", "1 to 128"},
			{object{"change_summary": strings.Repeat("x", 10001)}, "change_summary", "at most 10000"},
			{object{"content_hash": registrytest.Sum(nil)}, "content_hash", "must be the SHA-256"},
			{object{"source_repo": "acme"}, "source_repo", "must be owner/repo"},
			{object{"entry_type": "spell"}, "entry_type", "must be one of"},
			{object{"visibility": "secret"}, "visibility", "must be one of"},
			{object{"file_manifest": []object{}}, "file_manifest", "leaves out"},
		} {
			ada.Push(id, "2", other, c.fields).WantIssueWith(c.path, c.text)
		}
		ada.Push("unknown", "a/b", other).WantIssueWith("version", "without /") // 400 before 404
		ada.Push(id, "2", registrytest.Pack(t, registrytest.File("x", "x"))).WantIssueWith("archive", "no SKILL.md")
		ada.Push(id, "1", other).Want(http.StatusConflict)
		ada.Create("pdf", "1", other).Want(http.StatusConflict)
		w.Settle()
		if diff := len(w.Contents()) - len(before); diff != 0 {
			t.Errorf("%d contents more than before the refusals", diff)
		}
	})
}
