package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// used is how many bytes the organisation stores.
func (h *house) used() int64 {
	h.t.Helper()
	a := h.json("GET", "/api/v1/usage", h.viewer, nil)
	var out struct {
		BytesUsed  int64  `json:"bytes_used"`
		BytesLimit *int64 `json:"bytes_limit"`
	}
	if err := json.Unmarshal([]byte(a.raw), &out); err != nil || a.status != http.StatusOK || out.BytesLimit == nil {
		h.t.Fatalf("usage: %d %s", a.status, a.raw)
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
		want := func(a answer, status int) answer {
			t.Helper()
			if a.status != status {
				t.Fatalf("%d %s, want %d", a.status, a.raw, status)
			}
			return a
		}
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
			h.ids["entry"] = want(h.publish("/api/v1/registry", h.FirstKey, "1.0.0"), http.StatusCreated).at("entry", "id")
		})
		grows("the same version", 0, func() {
			want(h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, "1.0.0"), http.StatusOK)
		})
		grows("the same content in another entry", size, func() {
			meta := map[string]string{"metadata": `{"name":"twin","version":"1.0.0","visibility":"org"}`}
			a := h.form("/api/v1/registry", h.FirstKey, meta, "archive", "skill.tar.gz", h.archive("1.0.0"))
			h.ids["twin"] = want(a, http.StatusCreated).at("entry", "id")
		})
		grows("its delete", -size, func() {
			want(h.json("DELETE", h.fill("/api/v1/registry/{twin}"), h.FirstKey, nil), http.StatusNoContent)
		})
		grows("a source", some, func() {
			a := h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"label": "deploy"}, "file", "skill.tar.gz", h.archive("1"))
			h.ids["source"] = want(a, http.StatusCreated).at("id")
		})
		grows("the same snapshot", 0, func() {
			want(h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"source_id": h.ids["source"]}, "file", "skill.tar.gz", h.archive("1")), http.StatusCreated)
		})
		push := telemetryOf("ship it")
		raw, _ := json.Marshal(push)
		grows("telemetry", int64(len(raw)), func() { want(h.json("POST", "/api/v1/push", h.FirstKey, push), http.StatusCreated) })
		grows("the same push", 0, func() { want(h.json("POST", "/api/v1/push", h.FirstKey, push), http.StatusOK) })
		grows("a bundle", some, func() {
			want(h.json("POST", "/api/v1/community/bundles", h.FirstKey, h.bundle("x")), http.StatusCreated)
		})
		grows("an environment", some, func() {
			a := want(h.form("/api/v1/eval-suites/import", h.FirstKey, nil, "file", "t.tar.gz", taskArchive(t, "Do it.")), http.StatusCreated)
			h.ids["suite"] = a.at("suite", "id")
		})
		grows("another name for its suite", 0, func() {
			want(h.json("PATCH", h.fill("/api/v1/eval-suites/{suite}"), h.FirstKey, object{"name": "tasks"}), http.StatusOK)
		})

		// Fill it up, and try all again.
		free := 100<<10 - h.used()
		want(h.json("POST", "/api/v1/push", h.FirstKey, telemetryOf(strings.Repeat("a", int(free)-600))), http.StatusCreated)
		full := h.used()
		big := noise(2000)
		for what, a := range map[string]answer{
			"version":  h.form(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, map[string]string{"metadata": `{"version":"2.0.0"}`}, "archive", "s.tar.gz", h.archive(big)),
			"snapshot": h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"source_id": h.ids["source"]}, "file", "s.tar.gz", h.archive(big)),
			"source":   h.form("/api/v1/cloud-sources/upload", h.FirstKey, map[string]string{"label": "more"}, "file", "s.tar.gz", h.archive(big)),
			"push":     h.json("POST", "/api/v1/push", h.FirstKey, telemetryOf(big)),
			"otlp": h.json("POST", "/v1/logs", h.FirstKey, object{"resourceLogs": []object{{"scopeLogs": []object{{"logRecords": []object{
				{"body": object{"stringValue": big}},
			}}}}}}),
			"bundle": h.json("POST", "/api/v1/community/bundles", h.FirstKey, h.bundle(big)),
			"suite":  h.form("/api/v1/eval-suites/import", h.FirstKey, nil, "file", "t.tar.gz", taskArchive(t, big)),
		} {
			if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.raw, "its plan allows 100.0 KiB") || !strings.Contains(a.raw, "Delete") {
				t.Errorf("%s: %d %s, want 413 that names the limit and what to do", what, a.status, a.raw)
			}
		}
		if got := h.used(); got != full {
			t.Errorf("%d bytes after what was refused, want %d", got, full)
		}
		// What is there already can be pushed again, and another organisation has room.
		want(h.publish(h.fill("/api/v1/registry/{entry}/versions"), h.FirstKey, "1.0.0"), http.StatusOK)
		want(h.publish("/api/v1/registry", h.stranger, "1.0.0"), http.StatusCreated)

		for _, path := range []string{"/api/v1/registry/{entry}", "/api/v1/cloud-sources/{source}", "/api/v1/eval-suites/{suite}"} {
			before := h.used()
			want(h.json("DELETE", h.fill(path), h.FirstKey, nil), http.StatusNoContent)
			if after := h.used(); after >= before {
				t.Errorf("DELETE %s frees nothing", path)
			}
		}
		want(h.publish("/api/v1/registry", h.FirstKey, "2.0.0"), http.StatusCreated)

		for _, f := range examine(t, settings(t, h.flags...)) {
			if f.Check == "quota" && f.Status != exam.Good {
				t.Errorf("the doctor finds %+v", f)
			}
		}
	})
}
