package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestCosign verifies what the real binary signs with cosign, which `make e2e-cosign`
// builds, as docs/signing.md shows it.
func TestCosign(t *testing.T) {
	t.Parallel()
	program := os.Getenv("WHETSTONE_COSIGN")
	if program == "" {
		t.Skip("WHETSTONE_COSIGN does not name a cosign; run `make e2e-cosign`")
	}
	p := startProcess(t, "sqlite")
	owner := &apptest.Caller{T: t, URL: p.url, Key: p.key}
	archive := runstest.Archive("pdf", "---\nname: pdf\ndescription: Reads tables out of PDF files.\n---\nDo it.\n")
	entry := owner.Upload("/api/v1/registry",
		apptest.Part{Name: "metadata", Content: []byte(`{"name":"pdf","version":"1.0.0"}`)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: archive}).Want(http.StatusCreated).Text("entry", "id")
	suite := owner.Post(runstest.SuitesPath, runstest.Deterministic(runstest.Exact("a", "a"))).Want(http.StatusCreated).Field("suite")
	run := owner.Post(runstest.SuitesPath+"/"+suite["id"].(string)+"/runs", apptest.Object{"subject": apptest.Object{"entry_id": entry}}).
		Want(http.StatusAccepted).Field("run")
	apptest.Eventually(t, "the end of the run", func() bool {
		return owner.Get(runstest.RunsPath + run["id"].(string)).Want(http.StatusOK).Field("run")["status"] == "succeeded"
	})

	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pem := owner.Get("/.well-known/whetstone-keys.json").Want(http.StatusOK).List("keys")[0]["pem"].(string)
	key, blob, other := file("key.pem", []byte(pem)), file("pdf.tar.gz", archive), file("other.tar.gz", archive[1:])
	verify := func(envelope, predicate, blob string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, "verify-blob-attestation", "--key", key, "--signature", envelope, "--type", predicate,
			"--private-infrastructure", blob)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const provenance, result = "https://slsa.dev/provenance/v1", "https://whetstone.dev/attestation/eval-result/v1"
	seen := map[string]bool{}
	for _, envelope := range owner.Get("/api/v1/registry/" + entry + "/versions/1.0.0/attestations").Want(http.StatusOK).List("attestations") {
		raw, err := json.Marshal(envelope)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
		if err != nil {
			t.Fatal(err)
		}
		var statement struct{ PredicateType string }
		if err := json.Unmarshal(payload, &statement); err != nil {
			t.Fatal(err)
		}
		seen[statement.PredicateType] = true
		signed := file("attestation.json", raw)
		if out, err := verify(signed, statement.PredicateType, blob); err != nil || !strings.Contains(out, "Verified OK") {
			t.Errorf("%s: %v: %s", statement.PredicateType, err, out)
		}
		if out, err := verify(signed, statement.PredicateType, other); err == nil {
			t.Errorf("%s of another archive: %s", statement.PredicateType, out)
		}
		envelope["payload"] = base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(payload), "default/pdf", "default/pdg", 1)))
		if raw, err = json.Marshal(envelope); err != nil {
			t.Fatal(err)
		}
		if out, err := verify(file("forged.json", raw), statement.PredicateType, blob); err == nil {
			t.Errorf("%s, forged: %s", statement.PredicateType, out)
		}
	}
	if !seen[provenance] || !seen[result] {
		t.Errorf("signed are only %v", seen)
	}
}
