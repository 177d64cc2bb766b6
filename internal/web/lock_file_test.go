package web_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestLockFile sends lock files of clients to the page.
func TestLockFile(t *testing.T) {
	t.Parallel()
	b := newWorld(t, "sqlite").as(access.Owner)
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables", "One.")})
	hash := apptest.Text(b.api.Get("/api/v1/registry/" + id + "/versions").Want(http.StatusOK).List("versions")[0], "content_hash")
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables", "Two.")})
	b.get("/registry").wantText("Check a lock file")
	b.get("/registry/lock-file").want(http.StatusOK).wantForms("/registry/lock-file")
	send := func(name, content string) *page {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(content)) // a buffer takes everything
		_ = form.Close()
		header := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {form.FormDataContentType()}}
		return b.request(http.MethodPost, "/registry/lock-file", &body, header)
	}
	lock := fmt.Sprintf(`{"skills":{
		"pdf":{"sourceUrl":"https://skills.example.com/o/acme/ct_secret","wellKnownDigest":"sha256:%s"},
		"<script>alert(1)</script>":{}, "%s":{}}}`, hash, strings.Repeat("x", 900))
	p := send("skills-lock.json", lock).want(http.StatusOK)
	p.wantText("1.0.0", "1.1.0", "behind", "<script>alert(1)</script>", "unknown", "An address in the file has a catalog token", "npx skills update",
		"whetstone status --lock . --report").wantNoText("ct_secret")
	if strings.Contains(p.body, "<script>alert") {
		t.Error("a name is not escaped")
	}
	for name, want := range map[string]string{
		"package-lock.json":    "package-lock.json is no lock file that whetstone reads",
		"../skills-lock.json":  "skills-lock.json is not valid JSON",
		"config.toml":          "whetstone status --lock ~/.codex/config.toml",
		".whetstone-lock.json": ".whetstone-lock.json is not valid JSON",
	} {
		send(name, "{").want(http.StatusBadRequest).wantText(want)
	}
	send("skills-lock.json", strings.Repeat(" ", 9<<20)).want(http.StatusBadRequest).wantText("skills-lock.json is larger than 8 MiB")
	send("skills-lock.json", "{}").want(http.StatusOK).wantText("The file names no skills")
	if n := len(b.api.Get("/api/v1/registry/installed").Want(http.StatusOK).List("installations")); n != 0 {
		t.Errorf("%d installations are recorded", n)
	}
}
