package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// used is how many bytes the organisation stores.
func (h *house) used() int64 {
	h.t.Helper()
	a := h.as(h.viewer).Do("GET", "/api/v1/usage", nil)
	var out struct {
		BytesUsed  int64  `json:"bytes_used"`
		BytesLimit *int64 `json:"bytes_limit"`
	}
	if a.Want(http.StatusOK).Into(&out); out.BytesLimit == nil {
		h.t.Fatalf("usage: %d %s", a.Status, a.Body)
	}
	return out.BytesUsed
}

// bundle is a contribution bundle with a query of that text.
func (h *house) bundle(text string) object {
	return object{"creator_id": uuid.NewString(), "skill_name": "deploy", "bundle": object{
		"schema_version": "1.0", "contributor_id": uuid.NewString(), "created_at": "2026-01-02T03:04:05Z", "agent_type": "codex",
		"sanitization_level": "aggressive", "positive_queries": []object{{"query": text, "invocation_type": "implicit", "source": "real"}},
		"eval_entries": []string{}, "session_metrics": object{},
	}}
}

// noise is a text that does not compress well.
func noise(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// telemetryOf is a push with a prompt of that text.
func telemetryOf(text string) object {
	return object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{"prompts": []object{{
		"prompt_id": uuid.NewString(), "session_id": "s", "occurred_at": "2026-01-02T03:04:05Z", "prompt_text": text, "prompt_kind": "user",
	}}}}
}

func taskArchive(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{
		"task/task.toml":      "schema_version = \"1.1\"\n",
		"task/instruction.md": text, "task/tests/test.sh": "#!/bin/sh\nexit 0\n", "task/environment/Dockerfile": "FROM ubuntu\n",
	} {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(content))
	}
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

// TestQuota stores something of every kind until there is no room, and makes
// room again.
func TestQuota(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		h := newHouse(t, append(flags, "--quota", "team=100KiB"))
		const some = -1
		grows := func(what string, n int64, do func()) {
			t.Helper()
			before := h.used()
			do()
			if got := h.used() - before; got != n && (n != some || got <= 0) {
				t.Errorf("%s: %d bytes more, want %d", what, got, n)
			}
		}

		size := int64(len(h.archive("1.0.0")))
		grows("an entry", size, func() {
			h.ids["entry"] = h.publish("/api/v1/registry", h.FirstKey, "1.0.0").Want(http.StatusCreated).Text("entry", "id")
		})
		grows("the same version", 0, func() {
			h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, "1.0.0").Want(http.StatusOK)
		})
		grows("the same content in another entry", size, func() {
			meta := map[string]string{"metadata": `{"name":"twin","version":"1.0.0","visibility":"org"}`}
			a := h.form("/api/v1/registry", h.FirstKey, meta, apptest.Part{Name: "archive", File: "skill.tar.gz", Content: h.archive("1.0.0")})
			h.ids["twin"] = a.Want(http.StatusCreated).Text("entry", "id")
		})
		grows("its delete", -size, func() {
			h.as(h.FirstKey).Do("DELETE", h.fill("/api/v1/registry/{twin}"), nil).Want(http.StatusNoContent)
		})
		grows("a source", some, func() {
			a := h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"label": "deploy"}, apptest.Part{Name: "file", File: "skill.tar.gz", Content: h.archive("1")})
			h.ids["source"] = a.Want(http.StatusCreated).Text("id")
		})
		grows("the same snapshot", 0, func() {
			h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"source_id": h.ids["source"]}, apptest.Part{Name: "file", File: "skill.tar.gz", Content: h.archive("1")}).Want(http.StatusCreated)
		})
		push := telemetryOf("ship it")
		raw, _ := json.Marshal(push)
		grows("telemetry", int64(len(raw)), func() { h.as(h.FirstKey).Do("POST", "/api/v1/push", push).Want(http.StatusCreated) })
		grows("the same push", 0, func() { h.as(h.FirstKey).Do("POST", "/api/v1/push", push).Want(http.StatusOK) })
		grows("a bundle", some, func() {
			h.as(h.FirstKey).Do("POST", "/api/v1/community/bundles", h.bundle("x")).Want(http.StatusCreated)
		})
		grows("an environment", some, func() {
			a := h.form("/api/v1/eval-suites/import", h.FirstKey, nil, apptest.Part{Name: "file", File: "t.tar.gz", Content: taskArchive(t, "Do it.")}).Want(http.StatusCreated)
			h.ids["suite"] = a.Text("suite", "id")
		})
		grows("another name for its suite", 0, func() {
			h.as(h.FirstKey).Do("PATCH", h.fill("/api/v1/eval-suites/{suite}"), object{"name": "tasks"}).Want(http.StatusOK)
		})

		// Fill it up, and try all again.
		free := 100<<10 - h.used()
		h.as(h.FirstKey).Do("POST", "/api/v1/push", telemetryOf(strings.Repeat("a", int(free)-600))).Want(http.StatusCreated)
		full := h.used()
		big := noise(2000)
		for what, a := range map[string]apptest.Response{
			"version":  h.form(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, map[string]string{"metadata": `{"version":"2.0.0"}`}, apptest.Part{Name: "archive", File: "s.tar.gz", Content: h.archive(big)}),
			"snapshot": h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"source_id": h.ids["source"]}, apptest.Part{Name: "file", File: "s.tar.gz", Content: h.archive(big)}),
			"source":   h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"label": "more"}, apptest.Part{Name: "file", File: "s.tar.gz", Content: h.archive(big)}),
			"push":     h.as(h.FirstKey).Do("POST", "/api/v1/push", telemetryOf(big)),
			"otlp": h.as(h.FirstKey).Do("POST", "/v1/logs", object{"resourceLogs": []object{{"scopeLogs": []object{{
				"logRecords": slices.Repeat([]object{{"eventName": "claude_code.api_request"}}, len(big)), // what was said is dropped
			}}}}}),
			"bundle": h.as(h.FirstKey).Do("POST", "/api/v1/community/bundles", h.bundle(big)),
			"suite":  h.form("/api/v1/eval-suites/import", h.FirstKey, nil, apptest.Part{Name: "file", File: "t.tar.gz", Content: taskArchive(t, big)}),
		} {
			if a.Status != http.StatusRequestEntityTooLarge || !strings.Contains(string(a.Body), "its plan allows 100.0 KiB") || !strings.Contains(string(a.Body), "Delete") {
				t.Errorf("%s: %d %s, want 413 that names the limit and what to do", what, a.Status, a.Body)
			}
		}
		if got := h.used(); got != full {
			t.Errorf("%d bytes after what was refused, want %d", got, full)
		}
		// What is there already can be pushed again, and another organisation has room.
		h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, "1.0.0").Want(http.StatusOK)
		h.publish("/api/v1/registry", h.stranger, "1.0.0").Want(http.StatusCreated)

		for _, path := range []string{"/api/v1/registry/{entry}", "/api/v1/cloud-sources/{source}", "/api/v1/eval-suites/{suite}"} {
			before := h.used()
			h.as(h.FirstKey).Do("DELETE", h.fill(path), nil).Want(http.StatusNoContent)
			if after := h.used(); after >= before {
				t.Errorf("DELETE %s frees nothing", path)
			}
		}
		h.publish("/api/v1/registry", h.FirstKey, "2.0.0").Want(http.StatusCreated)

		for _, f := range examine(t, settings(t, h.flags...)) {
			if f.Check == "quota" && f.Status != invariants.Good {
				t.Errorf("the doctor finds %+v", f)
			}
		}
	})
}
