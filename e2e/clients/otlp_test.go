package clients_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// TestOTLPByGRPC sends records by the exporter of OpenTelemetry's SDK for JavaScript,
// which Claude Code has, with the variables that its users set.
func TestOTLPByGRPC(t *testing.T) {
	t.Parallel()
	org := newOrganisation(t, "gRPC")
	programs := servertest.InstallNPM(t, root, "e2e/clients")
	export := func(key, compression string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "node"), "testdata/otlp-grpc.cjs")
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NODE_PATH=" + filepath.Dir(programs),
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + org.URL, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer " + key,
			"OTEL_EXPORTER_OTLP_COMPRESSION=" + compression,
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, compression := range []string{"none", "gzip"} {
		if got := export(org.Key, compression); got != `{"code":0}` {
			t.Errorf("compression %s: %s", compression, got)
		}
	}
	if got, want := export("st_live_wrong", "gzip"), `{"code":1,"error":"16 UNAUTHENTICATED: Unknown API key"}`; got != want {
		t.Errorf("a wrong key: %s, want %s", got, want)
	}
	skills := org.Get("/v1/skills").Want(http.StatusOK).Object()["skills"].([]any)
	if len(skills) != 1 || skills[0].(object)["name"] != "pdf-forms" || skills[0].(object)["unique_sessions"] != 1.0 {
		t.Errorf("skills %v, want one session of pdf-forms", skills)
	}
}
