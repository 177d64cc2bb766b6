package mcpserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestOtherOrganisations reads what is private, and other things that are no file.
func TestOtherOrganisations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		ada.Made("secret", "1.0.0", skill(t, "secret", "Private.", "docs/a.md", "x"))
		ada.Made("pdf", "1.0.0", skill(t, "pdf", "Public.", "docs/a.md", "x"), public)
		uris := []string{
			"skill://acme/secret/SKILL.md", "skill://acme/v/1.0.0/secret/SKILL.md", "skill://other/secret/SKILL.md", "skill://acme/secret/docs/a.md",
			"skill://acme/pdf/../secret/SKILL.md", "skill://acme/pdf/docs/../SKILL.md", "skill://acme/pdf/./SKILL.md", "skill://acme/pdf//SKILL.md",
			"skill://acme/pdf/%2e%2e/secret/SKILL.md", "skill://acme/pdf%2fSKILL.md", "skill://acme/pdf/docs%2Fa.md", "skill://acme/pdf/%53KILL.md",
			"SKILL://acme/pdf/SKILL.md", "skill://ACME/pdf/SKILL.md", "skill:acme/pdf/SKILL.md", "skill:///pdf/SKILL.md", "skill://acme/pdf/SKILL.md?x",
			"skill://acme/pdf/SKILL.md#x", "skill://user@acme/pdf/SKILL.md", "skill://acme/pdf/", "skill://acme/pdf", "skill://", "",
			"file:///etc/passwd", "http://127.0.0.1/", "skill://acme/pdf/SKILL.md\x00", "skill://acme/v/1.0.0/v/1.0.0/pdf/SKILL.md", "skill://acme/v/",
			"skill://acme/pdf/" + strings.Repeat("a/", 20_000), "skill://acme/pdf/%", "skill://acme/pdf/%00", "skill://acme/pdf/\xff", "skill://acme/v/%2e%2e/pdf/SKILL.md",
			"skill://acme/v//pdf/SKILL.md", "skill://acme/pdf/docs/a.md/", "skill://acme/pdf/docs\\a.md", "skill://acme\x00/pdf/SKILL.md",
		}
		for name, h := range map[string]host{
			"nobody": connect(t, w, "", ""), "another's key": connect(t, w, "", bob.Key), "another's key at the organisation": connect(t, w, base("acme"), bob.Key),
			"another's token": connect(t, w, base("other", token(bob)), ""), "another's token in a header": connect(t, w, base("acme"), token(bob)),
		} {
			for _, uri := range uris {
				content, err := h.read(uri)
				if len(content) > 0 || err == nil {
					t.Errorf("%s reads %.80q: %q", name, uri, content)
				}
				if !strings.Contains(fmt.Sprint(err), "Mcp-Name") { // else the client cannot send it
					wantCode(t, err, jsonrpc.CodeInvalidParams)
				}
				_, err = h.get(uri)
				wantCode(t, err, jsonrpc.CodeInvalidParams)
				if !strings.HasSuffix(uri, "acme/pdf") || strings.Contains(name, "token") && !strings.Contains(name, "header") {
					_, err = h.directory(uri, "")
					wantCode(t, err, jsonrpc.CodeInvalidParams)
				}
			}
			all, _ := h.list("")
			for _, e := range all {
				if strings.Contains(e.URI, "secret") || e.Meta["dev.whetstone/pass_rate"] != nil {
					t.Errorf("%s sees %v", name, e)
				}
			}
		}
		if _, err := connect(t, w, "", ada.Key).read("skill://acme/v/1.0.0/secret/SKILL.md"); err != nil {
			t.Error(err)
		}
	})
}

// TestRequests sends what is no message, or of somebody who may not.
func TestRequests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		w.Org("other", access.Pro)
		ada.Made("pdf", "1.0.0", skill(t, "pdf", "Reads."), public)
		const list = `{"jsonrpc":"2.0","id":1,"method":"skills/list"}`
		deep := `{"jsonrpc":"2.0","id":1,"method":"skills/list","params":` + strings.Repeat(`{"a":`, 9_000) + `1` + strings.Repeat("}", 9_000) + `}`
		for _, c := range []struct {
			name, path, body string
			headers          []string
			want             int
		}{
			{"no token", base("acme"), list, nil, http.StatusOK},
			{"bad key", "", list, []string{"Authorization", "Bearer wk_nothing"}, http.StatusUnauthorized},
			{"bad key at an organisation", base("acme"), list, []string{"Authorization", "Bearer wk_nothing"}, http.StatusUnauthorized},
			{"bad token in a header", base("acme"), list, []string{"Authorization", "Bearer ct_nothing"}, http.StatusUnauthorized},
			{"bad token", base("acme", "ct_nothing"), list, nil, http.StatusUnauthorized},
			{"bad token of no organisation", base("nothing", "ct_nothing"), list, nil, http.StatusUnauthorized},
			{"token of another organisation", base("other", token(ada)), list, nil, http.StatusUnauthorized},
			{"key in the path of another", base("other", ada.Key), list, nil, http.StatusUnauthorized},
			{"no such organisation", base("nothing"), list, nil, http.StatusOK},
			{"batch", "", "[" + list + "," + list + "]", nil, http.StatusBadRequest},
			{"batch of an old client", "", " \n[" + list + "]", []string{"Mcp-Protocol-Version", "2025-03-26"}, http.StatusBadRequest},
			{"too large", "", list + strings.Repeat(" ", 64<<10), nil, http.StatusRequestEntityTooLarge},
			{"deep", "", deep, nil, http.StatusBadRequest},
			{"no JSON", "", "{", nil, http.StatusBadRequest},
			{"nothing", "", "", nil, http.StatusBadRequest},
			{"no method", "", `{"jsonrpc":"2.0","id":1,"method":"skills/delete"}`, nil, http.StatusBadRequest},
			{"another media type", "", list, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
			{"another site", "", list, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
			{"a bound name", "", list, []string{"Origin", "http://evil.example:8080", "Host", "evil.example:8080"}, http.StatusForbidden},
			{"no origin", "", list, []string{"Origin", "null"}, http.StatusForbidden},
			{"the inspector", "", list, []string{"Origin", "http://localhost:6274"}, http.StatusOK},
			{"our own page", "", list, []string{"Origin", w.Server.URL}, http.StatusOK},
			{"a listener", "", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`, nil, http.StatusOK},
		} {
			status, answer, header := raw(t.Context(), t, w, c.path, c.body, c.headers...)
			if status != c.want {
				t.Errorf("%s: status %d, want %d: %v", c.name, status, c.want, answer)
			}
			if (header.Get("Www-Authenticate") != "") != (c.want == http.StatusUnauthorized) {
				t.Errorf("%s: WWW-Authenticate %q", c.name, header.Get("Www-Authenticate"))
			}
			if strings.Contains(fmt.Sprint(answer), "goroutine") {
				t.Errorf("%s: %v", c.name, answer)
			}
			if header.Get("Mcp-Session-Id") != "" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: headers %v", c.name, header)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			for _, path := range []string{"/mcp", base("acme") + "/mcp", base("acme", token(ada)) + "/mcp"} {
				a := w.Anonymous().Do(method, path, nil, "Accept: text/event-stream")
				if a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != http.MethodPost {
					t.Errorf("%s %s: status %d, Allow %q", method, path, a.Status, a.Header.Get("Allow"))
				}
			}
		}
	})
}

// TestCapabilities asks a server as clients of the old and the new revisions do.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
			status, answer, _ := raw(t.Context(), t, w, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+
				`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "Mcp-Protocol-Version", revision)
			result, _ := answer["result"].(object)
			if status != http.StatusOK || result["protocolVersion"] != revision || !strings.Contains(fmt.Sprint(result["capabilities"]),
				"io.modelcontextprotocol/skills:map[directoryRead:true]") {
				t.Errorf("%s: %d %v", revision, status, answer)
			}
		}
		h := connect(t, w, "", "")
		got := h.InitializeResult()
		if got.ProtocolVersion != "2026-07-28" || got.Capabilities.Extensions["io.modelcontextprotocol/skills"] == nil || got.Capabilities.Resources == nil {
			t.Errorf("%+v", got)
		}
	})
}
