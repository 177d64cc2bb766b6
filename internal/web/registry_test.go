package web_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// push publishes a version of an entry, which it makes if it is new, and
// returns the entry's id.
func (b *browser) push(name, version string, files map[string]string) string {
	b.w.T.Helper()
	return b.pushTo(name, version, "org", files)
}

// pushTo also says who may see the entry.
func (b *browser) pushTo(name, version, visibility string, files map[string]string) string {
	b.w.T.Helper()
	return apptest.Text(b.publish(name, version, visibility, files).Want(http.StatusCreated).Object(), "entry", "id")
}

// hold pushes a version that a gate holds.
func (b *browser) hold(name, version string, files map[string]string) {
	b.w.T.Helper()
	b.publish(name, version, "org", files).Want(http.StatusAccepted)
}

func (b *browser) publish(name, version, visibility string, files map[string]string) apptest.Response {
	b.w.T.Helper()
	path := "/api/v1/registry"
	listed := b.api.Get(path + "?name=" + url.QueryEscape(name)).Want(http.StatusOK).List("entries")
	if len(listed) > 0 {
		path += "/" + apptest.Text(listed[0], "id") + "/versions"
	}
	folder := fstest.MapFS{}
	for file, text := range files {
		folder[file] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	var archive bytes.Buffer
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}
	if _, err := skillpkg.Pack(b.w.T.Context(), folder, &archive, options); err != nil {
		b.w.T.Fatal(err)
	}
	metadata := object{"name": name, "version": version, "visibility": visibility, "change_summary": "Now " + version}
	return b.api.Upload(path, apptest.JSONPart(b.w.T, "metadata", metadata),
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: archive.Bytes()})
}

// skillText is a SKILL.md.
func skillText(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n" + body
}

// wantForms checks which paths the forms of a page's content lead to.
func (p *page) wantForms(want ...string) *page {
	p.t.Helper()
	got := []string{}
	for _, n := range p.all("form") {
		if action := attr(n, "action"); attr(n, "method") == "post" && action != "/theme" && action != "/logout" {
			got = append(got, action)
		}
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		p.t.Errorf("%s: forms (- want, + got):\n%s", p.name, diff)
	}
	return p
}

// wantInert checks that nothing of a page can run: neither what it says nor
// where it leads.
func (p *page) wantInert() *page {
	p.t.Helper()
	for n := range p.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" && (!strings.HasPrefix(attr(n, "src"), "/static/") || n.FirstChild != nil) || n.Data == "img" ||
			n.Data == "iframe" {
			p.t.Errorf("%s has a foreign <%s>", p.name, n.Data)
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(value, "javascript:") {
				p.t.Errorf("%s: <%s %s=%q>", p.name, n.Data, a.Key, a.Val)
			}
		}
	}
	return p
}

// payload does harm wherever it is not escaped.
const payload = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`

func TestRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	b.get("/registry").want(http.StatusOK).wantText("Nothing published yet", "whetstone push ./my-skill")
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables", "# Reading\n\nFirst *words*"), "a.txt": "one\n", "blob.bin": "\x00\x01"})
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables", "# Reading\n\nSecond words"), "a.txt": "two\n"})
	b.push("mail", "0.1.0", map[string]string{"SKILL.md": skillText("mail", "Writes letters", "Hello")})
	b.get("/registry").want(http.StatusOK).wantText("pdf", "mail", "1.1.0").wantNoText("never").wantForms()
	b.get("/registry?q=letters").want(http.StatusOK).wantText("mail").wantNoText("Reads tables")
	b.get("/registry?q=nothing").want(http.StatusOK).wantText("No matching entries")

	b.sessions("pdf", time.Now(), 1, 1, 1, 0)
	entry := b.get("/registry/" + id).want(http.StatusOK)
	entry.wantText("whetstone install pdf --server "+w.URL, "75 %", "Second words", "No one in this organisation has installed it yet").
		wantForms("/registry/"+id+"/visibility", "/registry/"+id+"/owners", "/registry/"+id+"/rollback", "/registry/"+id+"/delete").wantNoText("name: pdf", "rolled back")
	if got := entry.texts("h1"); !cmp.Equal(got, []string{"pdf 1.1.0"}) {
		t.Errorf("headings: %q", got)
	}
	if got := entry.texts("h3"); !cmp.Equal(got, []string{"Reading"}) {
		t.Errorf("headings of the SKILL.md: %q", got)
	}
	b.get("/registry/"+id+"/versions/1.0.0").want(http.StatusOK).wantText("First words", "blob.bin", "whetstone install pdf@1.0.0",
		"Signed", "pushed by a member with push access to", "whetstone verify pdf@1.0.0 --server "+w.URL)
	b.get("/registry/" + id + "/versions/1.0.0?file=a.txt").want(http.StatusOK).wantText("one")
	b.get("/registry/" + id + "/versions/1.0.0?file=blob.bin").want(http.StatusOK).wantText("Binary file, 2 bytes")
	b.get("/registry/" + id + "/versions/1.0.0?file=../x").want(http.StatusNotFound)
	b.get("/registry/" + id + "/versions/9.9.9").want(http.StatusNotFound)
	diff := b.get("/registry/"+id+"/versions/1.1.0?from=1.0.0").want(http.StatusOK).wantText("From 1.0.0 to 1.1.0", "a.txt")
	if got := len(diff.all("tr.add")); got < 2 {
		t.Errorf("%d lines were added", got)
	}
	b.get("/registry/" + id + "/versions/1.1.0?from=9.9.9").want(http.StatusNotFound)
}

func TestRegistryRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "First")})
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "Second")})
	path := "/registry/" + id
	b.post(path+"/rollback", url.Values{"version": {"1.0.0"}}).want(http.StatusBadRequest).wantText("Enter a reason")
	b.post(path+"/rollback", url.Values{"version": {"7"}, "reason": {"x"}}).want(http.StatusNotFound)
	b.post(path+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"fails on empty input"}}).wantLocation(path)
	b.get(path).want(http.StatusOK).wantText("Rolled back from version 1.1.0 to 1.0.0", "fails on empty input", "rolled back", "First").
		wantForms(path+"/rollback/undo", path+"/rollback/undo", path+"/visibility", path+"/owners", path+"/rollback", path+"/delete")
	b.post(path+"/rollback/undo", url.Values{}).wantLocation(path)
	b.get(path).want(http.StatusOK).wantText("Version 1.1.0 is current again", "undone", "Second").wantForms(path+"/visibility", path+"/owners", path+"/rollback", path+"/delete")
	b.post(path+"/rollback/undo", url.Values{}).want(http.StatusConflict).wantText("was undone already")
	b.post(path+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"again"}, "roll_forward": {"on"}}).wantLocation(path)
	b.get(path).want(http.StatusOK).wantText("version 1.1.1 has the content of 1.0.0", "1.0.0 as 1.1.1")
	b.post(path+"/delete", url.Values{"confirm": {"other"}}).want(http.StatusBadRequest).wantText("Type the name of the entry, pdf")
	b.post(path+"/delete", url.Values{"confirm": {"pdf"}}).wantLocation("/registry")
	b.get(path).want(http.StatusNotFound)
}

func TestRegistryDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "First")})
	install := func(device, hash string) {
		b.api.Post("/api/v1/registry/"+id+"/install", object{"device_id": device, "install_path": "/home/a/.claude/skills", "content_hash": hash}).Want(http.StatusOK)
	}
	versions := b.api.Get("/api/v1/registry/" + id + "/versions").Want(http.StatusOK).List("versions")
	first := versions[0]["content_hash"].(string)
	install("old", first)
	install("edited", strings.Repeat("ab", 32))
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "Second")})
	versions = b.api.Get("/api/v1/registry/" + id + "/versions").Want(http.StatusOK).List("versions")
	install("new", versions[0]["content_hash"].(string))
	b.get("/registry/"+id).want(http.StatusOK).
		wantText("old", "current is 1.1.0", "edited on the device", "1 ● up to date", "1 ▲ behind", "1 ▲ modified")
	if _, err := w.Auth.SetPlan(t.Context(), w.org.Name, access.Pro); err != nil {
		t.Fatal(err)
	}
	b.get("/registry/"+id).want(http.StatusOK).wantText("Installed by 1 person", "part of the team plan").
		wantNoText("edited on the device")
}

func TestRegistryAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	owner, viewer := w.as(access.Owner), w.as(access.Viewer)
	id := owner.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "First")})
	owner.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "Second")})
	path := "/registry/" + id
	viewer.get(path).want(http.StatusOK).wantForms()
	form := url.Values{"version": {"1.0.0"}, "reason": {"x"}, "confirm": {"pdf"}}
	viewer.post(path+"/rollback", form).want(http.StatusForbidden)
	viewer.post(path+"/delete", form).want(http.StatusForbidden)
	other := w.otherOrg(access.Team)
	for _, p := range []string{path, path + "/versions/1.0.0"} {
		other.get(p).want(http.StatusNotFound)
	}
	other.post(path+"/rollback", form).want(http.StatusNotFound)
	other.post(path+"/delete", form).want(http.StatusNotFound)
	owner.do("POST", path+"/delete", form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	if _, err := w.Auth.SetPlan(t.Context(), w.org.Name, access.Free); err != nil {
		t.Fatal(err)
	}
	owner.get(path).want(http.StatusOK).wantForms(path+"/visibility", path+"/owners", path+"/delete")
	owner.post(path+"/rollback", form).want(http.StatusForbidden).wantText("needs the pro plan")
}

func TestRegistryPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, other := w.as(access.Owner), w.otherOrg(access.Pro)
	b.get("/registry?of=everybody").want(http.StatusOK).wantText("No public entries")
	id := other.pushTo("shared", "1.0.0", "public", map[string]string{"SKILL.md": skillText("shared", "For all", "Hello")})
	other.push("own", "1.0.0", map[string]string{"SKILL.md": skillText("own", "For us", "Hello")})
	b.get("/registry?of=everybody").want(http.StatusOK).wantText("shared", "public").wantNoText("For us")
	b.get("/registry").want(http.StatusOK).wantNoText("shared")
	b.get("/registry/" + id).want(http.StatusOK).wantText("whetstone install " + id).wantForms()
	b.get("/registry/" + id + "/versions/1.0.0").want(http.StatusOK).wantText("whetstone install " + id + "@1.0.0")
	b.post("/registry/"+id+"/delete", url.Values{"confirm": {"shared"}}).want(http.StatusNotFound)
}

// TestRegistryOfOthers has a public entry with a history that only its own
// organisation may see.
func TestRegistryOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, other := w.as(access.Owner), w.otherOrg(access.Pro)
	id := other.pushTo("shared", "1.0.0", "public", map[string]string{"SKILL.md": skillText("shared", "For all", "Hello")})
	other.push("shared", "1.1.0", map[string]string{"SKILL.md": skillText("shared", "For all", "Hello again")})
	other.sessions("shared", time.Now(), 1, 1, 1, 0)
	other.api.Post("/api/v1/registry/"+id+"/install", object{}).Want(http.StatusOK)
	other.post("/registry/"+id+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"the customer's name leaked"}}).
		want(http.StatusSeeOther)
	other.get("/registry/"+id).want(http.StatusOK).wantText("75 %", "the customer's name leaked", "Installed by 1 person")
	b.get("/registry/"+id).want(http.StatusOK).wantText("rolled back", "1.1.0").
		wantNoText("75 %", "the customer's name leaked", "Pass rate", "Installed by")
	b.get("/registry?of=everybody").want(http.StatusOK).wantText("shared").wantNoText("75 %")
}

// TestRegistryLongTexts shows the beginning of what is long, and where the rest is.
func TestRegistryLongTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	long := strings.Repeat("some words of a line that is long enough\n\n", 8_000) + "the end"
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", long), "a.txt": "one\n"})
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", strings.ToUpper(long)), "a.txt": "two\n"})
	file := "/registry/" + id + "/versions/1.1.0/files/SKILL.md"
	entry := b.get("/registry/"+id).want(http.StatusOK).wantText("SOME WORDS", "Only the beginning is shown").wantNoText("THE END")
	if len(entry.body) > 256<<10 || !strings.Contains(entry.body, `href="`+file+`"`) {
		t.Errorf("the page of the entry has %d bytes, or no link to the file", len(entry.body))
	}
	b.get("/registry/" + id + "/versions/1.1.0").want(http.StatusOK).wantText("Only the beginning is shown").wantNoText("THE END")
	if whole := b.get(file).want(http.StatusOK); !strings.HasSuffix(whole.body, "THE END") || whole.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		!strings.Contains(whole.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the file is sent as %v", whole.Header)
	}
	diff := "/registry/" + id + "/versions/1.1.0/diff?from=1.0.0"
	changes := b.get("/registry/" + id + "/versions/1.1.0?from=1.0.0").want(http.StatusOK).wantText("Only the beginning is shown")
	if n := len(changes.all("tr.del")) + len(changes.all("tr.add")); n < 4_000 || n > 5_000 ||
		!strings.Contains(changes.body, `href="`+diff+`"`) {
		t.Errorf("%d lines of changes are shown, or there is no link to the others", n)
	}
	if whole := b.get(diff).want(http.StatusOK); !strings.Contains(whole.body, "+THE END") ||
		!strings.Contains(whole.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the diff is sent as %v", whole.Header)
	}
	other := w.otherOrg(access.Team)
	other.get(file).want(http.StatusNotFound)
	other.get(diff).want(http.StatusNotFound)
}

// TestRegistryHostileMarkdown looks at an entry whose SKILL.md would be a page
// of many megabytes.
func TestRegistryHostileMarkdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	table := strings.Repeat("|a", 3_000) + "|\n" + strings.Repeat("|-", 3_000) + "|\n" + strings.Repeat("|\n", 6_000)
	id := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", table)})
	for _, path := range []string{"/registry/" + id, "/registry/" + id + "/versions/1.0.0"} {
		page := b.get(path).want(http.StatusOK).wantText("shown as plain text")
		if len(page.body) > 256<<10 {
			t.Errorf("%s has %d bytes", path, len(page.body))
		}
	}
}

func TestRegistryHostileTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	body := "# Hi\n\n<script>alert(1)</script>\n\n[go](javascript:alert(1)) ![x](http://evil.example/x.png)\n\n<a href=\" javascript:alert(1)\" onclick=alert(1)>b</a>"
	files := map[string]string{"SKILL.md": skillText("pdf", `'Reads "><script>alert(1)</script>'`, body), "x <b>'.md": body, "code.txt": payload}
	id := b.push("pdf", "1.0.0", files)
	files["code.txt"] = "changed"
	b.push("pdf", "1.0.1", files)
	b.post("/registry/"+id+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {payload}}).want(http.StatusSeeOther)
	b.api.Post("/api/v1/registry/"+id+"/install", object{"device_id": payload, "install_path": payload}).Want(http.StatusOK)
	for _, path := range []string{
		"/registry", "/registry?q=" + url.QueryEscape(payload), "/registry/" + id, "/registry/" + id + "/versions/1.0.0",
		"/registry/" + id + "/versions/1.0.0?file=code.txt", "/registry/" + id + "/versions/1.0.0?file=" + url.QueryEscape("x <b>'.md"),
		"/registry/" + id + "/versions/1.0.1?from=1.0.0",
	} {
		b.get(path).want(http.StatusOK).wantInert()
	}
	b.get("/registry/"+id).wantText("<script>alert(1)</script>", "onerror=alert(1)")
}

func TestRegistryDownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	entry := b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "x")})
	path := "/registry/" + entry + "/versions/1.0.0"
	b.get(path).want(http.StatusOK).wantText("download")
	file := w.as(access.Viewer).get(path + "/download").want(http.StatusOK)
	if got := file.Header.Get("Content-Type"); got != "application/gzip" ||
		!strings.Contains(file.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("it is sent as %s, %s", got, file.Header.Get("Content-Disposition"))
	}
	pkg, err := skillpkg.Read(t.Context(), strings.NewReader(file.body), skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	pkg.Close()
	b.get("/registry/" + entry + "/versions/9/download").want(http.StatusNotFound)
	w.otherOrg(access.Team).get(path + "/download").want(http.StatusNotFound)
}

// TestRequirements shows both directions, as tables and as a drawing.
func TestRequirements(t *testing.T) {
	t.Parallel()
	b := newWorld(t, "sqlite").as(access.Owner)
	text := func(name, needs string) map[string]string {
		return map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: Does " + name + ".\nmetadata:\n  requires: \"" + needs + "\"\n---\nText.\n"}
	}
	charts := b.push("charts", "1.0.0", text("charts", "fonts"))
	report := b.push("report", "1.0.0", text("report", "charts >= 2, <b>none</b>, gone"))
	b.push("fonts", "1.0.0", text("fonts", "report"))
	page := b.get("/registry/" + report).want(http.StatusOK)
	page.wantText("Requires", "charts >= 2 is needed, but the current version is 1.0.0", "gone is not in the registry", "Required by", "fonts",
		"Installed along: charts 1.0.0, fonts 1.0.0", "It is required by fonts.")
	for _, part := range []string{`<svg width="`, `class="node unmet"`, `class="node missing"`, `class="node met self"`, `role="img" aria-label="Graph of requirements: report requires 2 skills, and 1 skill requires it.`} {
		if !strings.Contains(page.body, part) {
			t.Errorf("the page has no %s", part)
		}
	}
	b.get("/registry/"+charts).want(http.StatusOK).wantText("Required by", "report")
	alone := b.push("alone", "1.0.0", text("alone", ""))
	b.get("/registry/" + alone).want(http.StatusOK).wantNoText("Requirements")
}
