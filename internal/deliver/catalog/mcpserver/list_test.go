package mcpserver_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// verify reads every file of skills, and compares size and digest. It returns how
// many files there were.
func verify(h host, list []entry) (files int) {
	h.t.Helper()
	for _, e := range list {
		found := false
		for _, r := range e.Resources {
			content, err := h.read(r.URI)
			sum := sha256.Sum256(content)
			if err != nil || int64(len(content)) != r.Size || "sha256:"+hex.EncodeToString(sum[:]) != r.Digest {
				h.t.Fatalf("%s: %d bytes with the SHA-256 %x, want %d, %s: %v", r.URI, len(content), sum, r.Size, r.Digest, err)
			}
			found = found || r.URI == e.URI
			files++
		}
		if !found {
			h.t.Fatalf("%s is not among its resources", e.URI)
		}
	}
	return files
}

// TestVerify500 lists 500 skills by the official client, and verifies every digest.
func TestVerify500(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		const skills, private = 500, 100
		for i := range skills {
			name, fields := fmt.Sprintf("skill-%03d", i), public
			if i < private {
				fields = object{"visibility": "org"}
			}
			ada.Made(name, "1.0.0", skill(t, name, fmt.Sprintf("Does %d things.", i),
				"references/notes & more.md", strings.Repeat("é\n", i), "data.bin", "\x00\xff"+name), fields)
		}
		for _, c := range []struct {
			path, key, scope string
			want             int
		}{
			{"", "", "public", skills - private},
			{base("acme"), "", "public", skills - private},
			{base("acme", token(ada)), "", "private", skills},
			{base("acme"), ada.Key, "private", skills},
			{"", ada.Key, "private", skills},
		} {
			h := connect(t, w, c.path, c.key)
			all, pages := h.list("")
			if len(all) != c.want || len(pages) != (c.want+99)/100 || !slices.IsSorted(names(all)) {
				t.Fatalf("%s lists %d skills on %d pages, want %d", c.path, len(all), len(pages), c.want)
			}
			for _, p := range pages {
				if p.CacheScope != c.scope || p.TTLMs != 60_000 || p.ResultType != "complete" {
					t.Errorf("%s: cacheScope %q, ttlMs %d, resultType %q", c.path, p.CacheScope, p.TTLMs, p.ResultType)
				}
			}
			some := all
			if c.key != "" { // the same files as with the token
				some = all[:20]
			}
			if files := verify(h, some); files != 3*len(some) {
				t.Errorf("%s: %d files of %d skills", c.path, files, len(some))
			}
		}
	})
}

func TestEntry(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("Acme Sons", access.Pro)
		text := "---\nname: pdf\ndescription: Reads PDF.\nlicense: MIT\nmetadata:\n  version: 1.10\n  count: 007\n  on: yes\n  date: 2026-01-02\n" +
			"  quoted: \"1.10\"\n  nothing:\n  big: 12345678901\n  nested: {a: [1, true, x]}\n---\n# PDF\n"
		id := ada.Made("pdf", "1.0.0", registrytest.Pack(t, registrytest.File("SKILL.md", text), registrytest.File("a b/%2e.txt", "")), public)
		h := connect(t, w, base("Acme Sons"), ada.Key)
		const uri = "skill://Acme%20Sons/pdf/SKILL.md"
		got, err := h.get(uri)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"name": "pdf", "description": "Reads PDF.", "license": "MIT", "metadata": map[string]any{
				"version": 1.1, "count": 7.0, "on": "yes", "date": "2026-01-02", "quoted": "1.10", "nothing": nil, "big": 12345678901.0,
				"nested": map[string]any{"a": []any{1.0, true, "x"}},
			},
		}
		if fmt.Sprint(got.Frontmatter) != fmt.Sprint(want) || got.URI != uri {
			t.Errorf("%s: %v\nwant %v", got.URI, got.Frontmatter, want)
		}
		if got.Meta["dev.whetstone/version"] != "1.0.0" || got.Meta["dev.whetstone/pass_rate"] != nil {
			t.Errorf("_meta %v: a pass rate that is not known is not there", got.Meta)
		}
		if files := verify(h, []entry{got}); files != 2 {
			t.Errorf("%d files", files)
		}
		// A push changes what is current; the pinned version stays as it was.
		ada.Pushed(id, "2.0.0", registrytest.Pack(t, registrytest.File("SKILL.md", strings.Replace(text, "Reads", "Writes", 1))))
		current, err := h.get(uri)
		if err != nil || current.Frontmatter["description"] != "Writes PDF." || len(current.Resources) != 1 {
			t.Errorf("after a push: %v, %v", current, err)
		}
		pinned, err := h.get("skill://Acme%20Sons/v/1.0.0/pdf/SKILL.md")
		if err != nil || pinned.Frontmatter["description"] != "Reads PDF." || verify(h, []entry{pinned}) != 2 {
			t.Errorf("the pinned version: %v, %v", pinned, err)
		}
		// A withdrawn version is gone, and so is a candidate.
		ada.Post(registrytest.VersionPath(id, "1.0.0")+"/withdraw", object{"reason": "Broken."}).Want(http.StatusOK)
		_, err = h.get("skill://Acme%20Sons/v/1.0.0/pdf/SKILL.md")
		wantCode(t, err, jsonrpc.CodeInvalidParams)
		h = connect(t, w, base("Acme Sons"), ada.Key) // the client keeps pinned files for a minute
		_, err = h.read("skill://Acme%20Sons/v/1.0.0/pdf/SKILL.md")
		wantCode(t, err, jsonrpc.CodeInvalidParams)
		if text, err := h.read(uri); err != nil || !strings.Contains(string(text), "Writes") {
			t.Errorf("the current version: %q, %v", text, err)
		}
		w.Exec(`UPDATE registry_versions SET state = 'candidate' WHERE version = '1.0.0'`)
		_, err = h.read("skill://Acme%20Sons/v/1.0.0/pdf/SKILL.md")
		wantCode(t, err, jsonrpc.CodeInvalidParams)
	})
}

// TestLeftOut has skills that hosts would refuse.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		fields := map[string]string{
			"anchor": "a: &x 1", "alias": "a: &x [1]\nb: *x", "tag": "a: !!str 1", "merge": "<<: {a: 1}", "fence": "a: b --- c",
			"infinite": "a: .inf", "huge": "a: 12345678901234567890", "colon": "license: a: b", "complex": "? [a]\n: b",
		}
		for name, field := range fields {
			text := "---\nname: " + name + "\ndescription: x\n" + field + "\n---\n"
			ada.Create(name, "1", registrytest.Pack(t, registrytest.File("SKILL.md", text)), public)
		}
		ada.Made("other", "1", skill(t, "another", "Has another name."), public)
		ada.Made("v", "1", skill(t, "v", "Has a reserved name."), public)
		ada.Made("fine", "1", skill(t, "fine", "Is listed."), public)
		all, pages := connect(t, w, base("acme"), ada.Key).list("")
		if got := names(all); !slices.Equal(got, []string{"fine"}) {
			t.Errorf("listed: %v", got)
		}
		out, _ := pages[0].Meta["dev.whetstone/left_out"].([]any)
		if len(out) < len(fields) {
			t.Errorf("left out: %v", out)
		}
		for _, one := range out {
			if one, _ := one.(object); one["reason"] == "" {
				t.Errorf("left out without a reason: %v", one)
			}
		}
		all, pages = connect(t, w, base("acme"), "").list("")
		if len(all) != 1 || pages[0].Meta["dev.whetstone/left_out"] != nil {
			t.Errorf("without a key: %v, %v", names(all), pages[0].Meta)
		}
		// They can still be read, and loaded by the tool.
		h := connect(t, w, base("acme"), "")
		if _, err := h.read("skill://acme/other/SKILL.md"); err != nil {
			t.Error(err)
		}
		_, err := h.get("skill://acme/other/SKILL.md")
		wantCode(t, err, jsonrpc.CodeInvalidParams)
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		var many []string
		for i := range 220 {
			many = append(many, fmt.Sprintf("docs/%03d.md", i), "x")
		}
		ada.Made("pdf", "1", skill(t, "pdf", "Reads.", many...), public)
		h := connect(t, w, "", "")
		var got []string
		for cursor := ""; ; {
			page, err := h.directory("skill://acme/pdf/docs", cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Resources {
				got = append(got, r.URI)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if len(got) != 220 || got[219] != "skill://acme/pdf/docs/219.md" {
			t.Errorf("%d files: %v", len(got), got[max(0, len(got)-3):])
		}
		root, err := h.directory("skill://acme/pdf", "")
		if err != nil || len(root.Resources) != 2 || root.Resources[1].MIMEType != "inode/directory" ||
			root.Resources[1].URI != "skill://acme/pdf/docs" || root.Resources[0].MIMEType != "text/markdown" {
			t.Errorf("the skill's folder: %+v, %v", root, err)
		}
		for _, uri := range []string{"skill://acme/pdf/SKILL.md", "skill://acme/pdf/doc", "skill://acme", "skill://acme/pdf/docs/"} {
			_, err := h.directory(uri, "")
			wantCode(t, err, jsonrpc.CodeInvalidParams)
		}
		resources, err := h.ListResources(t.Context(), nil)
		if err != nil || len(resources.Resources) != 1 || resources.Resources[0].URI != "skill://acme/pdf/SKILL.md" ||
			resources.Resources[0].Name != "pdf" || resources.Resources[0].Description != "Reads." || resources.CacheScope != "public" {
			t.Errorf("resources: %+v, %v", resources, err)
		}
		templates, err := h.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 {
			t.Errorf("templates: %+v, %v", templates, err)
		}
		for _, cursor := range []string{"..", strings.Repeat("a", 60_000), "é", "A", "\x00"} {
			_, err := h.ListResources(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			status, answer, _ := raw(t.Context(), t, w, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"cursor":%q}}`, cursor))
			if failed, _ := answer["error"].(object); status != http.StatusOK && status != http.StatusBadRequest || failed == nil && cursor != "\x00" {
				t.Errorf("cursor %.20q: %d %v", cursor, status, answer)
			}
		}
	})
}
