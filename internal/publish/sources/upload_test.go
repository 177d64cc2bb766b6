package sources_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

const uploadPath = sourcesPath + "/upload"

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

// TestUpload sends one skill in every form: it is always the same snapshot.
func TestUpload(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/sh\necho table\n"
	files := []string{"SKILL.md", skillText, "scripts/run.sh", script, "references/a/b.md", "# B\n"}
	wrapped := []string{"demo/SKILL.md", skillText, "demo/scripts/run.sh", script, "demo/references/a/b.md", "# B\n"}
	forms := map[string][]part{
		"zip":             {archivePart(zipped(t, files...))},
		"tar.gz":          {archivePart(tarGz(t, files...))},
		"wrapped zip":     {archivePart(zipped(t, wrapped...))},
		"parts":           {filePart("SKILL.md", skillText), filePart("scripts/run.sh", script), filePart("references/a/b.md", "# B\n")},
		"parts, reversed": {filePart("references/a/b.md", "# B\n"), filePart("scripts/run.sh", script), filePart("SKILL.md", skillText)},
		"wrapped parts":   {filePart("demo/references/a/b.md", "# B\n"), filePart("demo/SKILL.md", skillText), filePart("demo/scripts/run.sh", script)},
		"parts without file names": {
			field("SKILL.md", skillText), field("scripts/run.sh", script), field("references/a/b.md", "# B\n"), field("agent", "curl"),
		},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		skillID := w.Skill(ada, "pdf")
		hashes := map[string]bool{}
		for name, parts := range forms {
			got := ada.Upload(uploadPath, append(parts, field("label", name), field("skill_id", skillID))...).
				Want(http.StatusCreated).Object()
			wantKeys(t, got, "id", "label", "sourceType", "skillId", "createdAt", "snapshot", "validationReports")
			snapshot := got["snapshot"].(object)
			hashes[text(snapshot, "contentHash")] = true
			want := object{
				"id": snapshot["id"], "sourceId": got["id"], "contentHash": snapshot["contentHash"], "createdAt": snapshot["createdAt"],
				"fileCount": 3.0, "totalBytes": float64(len(skillText) + len(script) + 4), "skillName": "demo",
				"description": "Shows how a table is read out of a PDF. Use when somebody asks for the numbers of a PDF document.",
				"isCurrent":   true, "runnable": true, "files": []any{
					object{"path": "SKILL.md", "size": float64(len(skillText)), "sha256": sum(skillText)},
					object{"path": "references/a/b.md", "size": 4.0, "sha256": sum("# B\n")},
					object{"path": "scripts/run.sh", "size": float64(len(script)), "sha256": sum(script)},
				},
			}
			if diff := cmp.Diff(want, snapshot); diff != "" {
				t.Errorf("%s: snapshot (-want +got):\n%s", name, diff)
			}
			if text(got, "label") != name || text(got, "sourceType") != "upload" || text(got, "skillId") != skillID {
				t.Errorf("%s: source %v", name, got)
			}
			detail := ada.Detail(text(got, "id"))
			if diff := cmp.Diff(got["snapshot"], detail["currentSnapshot"]); diff != "" {
				t.Errorf("%s: current snapshot (-uploaded +detail):\n%s", name, diff)
			}
			if diff := cmp.Diff([]any{got["snapshot"]}, detail["snapshots"]); diff != "" {
				t.Errorf("%s: snapshots (-uploaded +detail):\n%s", name, diff)
			}
			if diff := cmp.Diff(got["validationReports"], detail["validationReports"]); diff != "" {
				t.Errorf("%s: reports (-uploaded +detail):\n%s", name, diff)
			}
		}
		if len(hashes) != 1 {
			t.Errorf("one skill has the hashes %v", hashes)
		}
	})
}

func TestUploadSingleFile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := sourcestest.New(t, db).Org("acme")
		asFile := ada.Upload(uploadPath, field("label", "x"),
			part{Name: "file", File: "SKILL.md", Content: []byte(skillText)}).Want(http.StatusCreated).Object()
		asPart := ada.Upload(uploadPath, field("label", "x"), filePart("SKILL.md", skillText)).Want(http.StatusCreated).Object()
		if a, b := text(asFile, "snapshot", "contentHash"), text(asPart, "snapshot", "contentHash"); a != b {
			t.Errorf("hashes %s and %s of one file", a, b)
		}
		if got := text(asFile, "snapshot", "skillName"); got != "demo" {
			t.Errorf("skill %q", got)
		}
		ada.Upload(uploadPath, field("label", "x"), part{Name: "file", File: "skill.txt", Content: []byte(skillText)}).
			WantIssueWith("file", "neither a gzip nor a zip")
	})
}

// TestUploadAgain adds snapshots to a source.
func TestUploadAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		a, b := zipped(t, "SKILL.md", skillText), zipped(t, "SKILL.md", skillText, "b", "b")
		first := ada.Uploaded(a)
		id := text(first, "id")
		add := func(archive []byte, id string) object {
			t.Helper()
			return ada.Upload(uploadPath, field("source_id", id), archivePart(archive)).Want(http.StatusCreated).Object()
		}
		again := add(tarGz(t, "SKILL.md", skillText), id)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("the same content (-first +again):\n%s", diff)
		}
		second := add(b, strings.TrimPrefix(id, "src_"))
		third := add(a, id)
		var got []string
		current := 0
		for _, s := range objects(t, ada.Detail(id), "snapshots") {
			got = append(got, text(s, "id"))
			if s["isCurrent"] == true {
				current++
			}
		}
		want := []string{text(third, "snapshot", "id"), text(second, "snapshot", "id"), text(first, "snapshot", "id")}
		if diff := cmp.Diff(want, got); diff != "" || current != 1 {
			t.Errorf("%d current; snapshots (-want +got):\n%s", current, diff)
		}
		if n := len(w.BlobKeys()); n != 2 {
			t.Errorf("%d blobs for two contents", n)
		}
		// So does an empty source; the label stays.
		empty := ada.Made(object{"type": "upload", "label": "empty"})
		filled := ada.Upload(uploadPath, field("source_id", empty), field("label", "other"), archivePart(a)).
			Want(http.StatusCreated).Object()
		if text(filled, "label") != "empty" || text(filled, "id") != empty {
			t.Errorf("got %v", filled)
		}
	})
}

func TestDetailShowsNewestSnapshots(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := sourcestest.New(t, db).Org("acme")
		id := text(ada.Uploaded(zipped(t, "SKILL.md", skillText)), "id")
		for i := range 21 {
			ada.Upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText), filePart("n", fmt.Sprint(i))).
				Want(http.StatusCreated)
		}
		shown := objects(t, ada.Detail(id), "snapshots")
		if len(shown) != 20 || shown[0]["isCurrent"] != true {
			t.Errorf("%d snapshots, the first %v", len(shown), shown[0]["isCurrent"])
		}
	})
}

// TestUploadFailedValidation: a snapshot that fails validation is stored with its
// report.
func TestUploadFailedValidation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		for name, archive := range map[string][]byte{
			"no SKILL.md":    zipped(t, "readme.md", "x"),
			"no frontmatter": zipped(t, "SKILL.md", "# Demo\n"),
			"nothing":        zipped(t),
		} {
			got := ada.Uploaded(archive)
			if at(got, "snapshot", "runnable") != false {
				t.Errorf("%s: runnable", name)
			}
			report := objects(t, got, "validationReports")[0]
			wantKeys(t, report, "id", "snapshotId", "engine", "status", "createdAt", "counts", "findings")
			if report["status"] != "fail" || report["snapshotId"] != at(got, "snapshot", "id") ||
				at(report, "counts", "error").(float64) < 1 {
				t.Errorf("%s: report %v", name, report)
			}
			wantKeys(t, report["counts"].(object), "error", "warning", "info")
			finding := objects(t, report, "findings")[0]
			for _, key := range []string{"code", "category", "severity", "path", "message"} {
				if _, ok := finding[key]; !ok {
					t.Errorf("%s: finding without %s: %v", name, key, finding)
				}
			}
			if !slices.Contains([]string{"spec", "quality", "security"}, text(finding, "category")) {
				t.Errorf("%s: category %v", name, finding["category"])
			}
		}
	})
}

func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	good := zipped(t, "SKILL.md", skillText)
	label, file := field("label", "x"), archivePart(good)
	cases := []struct {
		name       string
		parts      []part
		path, text string
	}{
		{"no label", []part{file}, "label", "1 to 200"},
		{"blank label", []part{field("label", " "), file}, "label", "1 to 200"},
		{"long label", []part{field("label", strings.Repeat("x", 201)), file}, "label", "1 to 200"},
		{"two labels", []part{label, label, file}, "label", "once"},
		{"bad skill", []part{label, field("skill_id", "pdf"), file}, "skill_id", "UUID"},
		{"unknown skill", []part{label, field("skill_id", uuid.NewString()), file}, "skill_id", "names no skill"},
		{"bad source", []part{label, field("source_id", "x"), file}, "source_id", "cloud source"},
		{"no file", []part{label}, "file", "file is required"},
		{"only an unknown field", []part{label, field("agent", "curl")}, "file", "file is required"},
		{"file that is no file", []part{label, field("file", string(good))}, "file", "file is required"},
		{"two files", []part{label, file, file}, "file", "one part"},
		{"both forms", []part{label, file, filePart("SKILL.md", skillText)}, "file", "not both"},
		{"the same path twice", []part{label, filePart("SKILL.md", skillText), filePart("SKILL.md", skillText)}, "file", "twice"},
		{"the same path as field and file", []part{label, filePart("SKILL.md", skillText), field("SKILL.md", skillText)}, "file", "twice"},
		{"the same path by another name", []part{label, filePart("a/x", "1"), filePart("./a/x", "2")}, "file", "twice"},
		{"paths that differ in case", []part{label, filePart("SKILL.md", skillText), filePart("a.md", ""), filePart("A.md", "")}, "file", "only in case"},
		{"path out of the root", []part{label, filePart("SKILL.md", skillText), filePart("../x", "")}, "file", `".."`},
		{"absolute path", []part{label, filePart("/etc/passwd", "")}, "file", "absolute"},
		{"drive", []part{label, filePart("C:/x", "")}, "file", "drive"},
		{"backslash", []part{label, filePart(`a\..\x`, "")}, "file", "backslash"},
		{"file and folder", []part{label, filePart("a", ""), filePart("a/b", "")}, "file", "a folder"},
		{"too deep", []part{label, filePart("1/2/3/4/5/6/7/8/9", "")}, "file", "levels deep"},
		{"path out of the root in a zip", []part{label, archivePart(zipped(t, "SKILL.md", skillText, "../x", ""))}, "file", `".."`},
		{"damaged zip", []part{label, archivePart(good[:len(good)-30])}, "file", "send it again in full"},
		{"nothing", []part{label, archivePart(nil)}, "file", "neither"},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { ada.In(t).Upload(uploadPath, c.parts...).WantIssueWith(c.path, c.text) })
		}
		ada.Post(uploadPath, object{}).WantErrorWith(http.StatusUnsupportedMediaType, "multipart/form-data")
		ada.Do(http.MethodPost, uploadPath, "garbage", "Content-Type: multipart/form-data; boundary=x").
			WantIssueWith("", "multipart form")
		w.WantNothing()
	})
}

func TestUploadTooLarge(t *testing.T) {
	t.Parallel()
	large := noise(6 << 20)
	cases := map[string][]part{
		"10 MiB: the archive is larger than":   {archivePart(zipped(t, "SKILL.md", skillText, "a", large, "b", large[:5<<20]))},
		"10 MiB: the file is larger":           {part{Name: "file", File: "SKILL.md", Content: []byte(large + large[:4<<20+1])}},
		"10 MiB: parts":                        {filePart("a", large), filePart("b", large[:5<<20])},
		"12 MiB: the body":                     {archivePart([]byte(large + large))},
		"100 times its size: the archive is a": {archivePart(zipped(t, "SKILL.md", skillText, "a", strings.Repeat("\x00", 9<<20)))},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		for want, parts := range cases {
			limit, _, _ := strings.Cut(want, ":")
			ada.Upload(uploadPath, append(parts, field("label", "x"))...).WantErrorWith(http.StatusRequestEntityTooLarge, limit)
		}
		w.WantNothing()
	})
}

// TestUploadToOthers: uploading to a repohost source is a conflict, to another
// organisation forbidden.
func TestUploadToOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		repo := ada.Made(object{"type": "repohost", "label": "x", "installation_id": 1, "repo_full_name": "a/b"})
		good := archivePart(zipped(t, "SKILL.md", skillText))
		ada.Upload(uploadPath, field("source_id", repo), good).WantErrorWith(http.StatusConflict, "sync it instead")
		hers := eve.Made(object{"type": "upload", "label": "x"})
		ada.Upload(uploadPath, field("source_id", hers), good).WantErrorWith(http.StatusForbidden, "another organisation")
		ada.Upload(uploadPath, field("source_id", hers), archivePart(nil)).WantIssueWith("file", "neither") // 400 before 403
		ada.Upload(uploadPath, field("source_id", uuid.NewString()), good).WantErrorWith(http.StatusNotFound, "Cloud source not found")
		if keys := w.BlobKeys(); len(keys) != 0 {
			t.Errorf("kept %v", keys)
		}
	})
}

func TestFileOfSnapshot(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := sourcestest.New(t, db).Org("acme")
		html := "<script>alert(1)</script>"
		got := ada.Uploaded(zipped(t, "SKILL.md", skillText, "a/x y.html", html, "bin", "\x00\x01"))
		snapshot := sourcePath(text(got, "id")) + "/snapshots/" + text(got, "snapshot", "id") + "/files/"
		for path, want := range map[string][2]string{
			"SKILL.md":     {skillText, "text/plain; charset=utf-8"},
			"a/x%20y.html": {html, "text/plain; charset=utf-8"},
			"bin":          {"\x00\x01", "application/octet-stream"},
		} {
			a := ada.Get(snapshot + path).Want(http.StatusOK)
			if diff := cmp.Diff(want, [2]string{string(a.Body), a.Header.Get("Content-Type")}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		ada.Get(snapshot+"missing").WantErrorWith(http.StatusNotFound, "File not found")
		ada.Get(sourcePath(text(got, "id"))+"/snapshots/"+uuid.NewString()+"/files/SKILL.md").
			WantErrorWith(http.StatusNotFound, "Snapshot not found")
	})
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := sourcestest.New(t, db).Org("acme")
		first := ada.Uploaded(zipped(t, "SKILL.md", "# no frontmatter\n"))
		id := text(first, "id")
		ada.Upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText)).Want(http.StatusCreated)
		rules := func(query string) []string {
			t.Helper()
			a := ada.Get(sourcePath(id) + "/validation.sarif" + query).Want(http.StatusOK)
			var log struct {
				Version string
				Runs    []struct {
					Results []struct{ RuleID, Level string }
				}
			}
			a.Into(&log)
			if log.Version != "2.1.0" || len(log.Runs) != 1 || a.Header.Get("Content-Type") != "application/sarif+json" {
				t.Errorf("%s %s", a.Header.Get("Content-Type"), a.Body)
			}
			found := []string{}
			for _, r := range log.Runs[0].Results {
				if r.Level == "error" {
					found = append(found, r.RuleID)
				}
			}
			return found
		}
		if got := rules(""); len(got) != 0 {
			t.Errorf("errors of the current snapshot: %v", got)
		}
		if got := rules("?snapshot_id=" + text(first, "snapshot", "id")); !slices.Contains(got, "spec.frontmatter.missing") {
			t.Errorf("errors of the first snapshot: %v", got)
		}
		empty := ada.Made(object{"type": "upload", "label": "x"})
		ada.Get(sourcePath(empty)+"/validation.sarif").WantErrorWith(http.StatusNotFound, "no snapshot yet")
		ada.Get(sourcePath(id)+"/validation.sarif?snapshot_id="+uuid.NewString()).
			WantErrorWith(http.StatusNotFound, "Snapshot not found")
		ada.Get(sourcePath(id)+"/validation.sarif?snapshot_id=x").WantIssueWith("snapshot_id", "uuid")
	})
}
