package otlp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
)

// TestAllowListIsDocumented: the documentation lists exactly what is kept.
func TestAllowListIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range otlp.AllowList() {
		if !strings.Contains(string(document), "\n"+row+"\n") {
			t.Errorf("docs/telemetry.md lacks the row\n%s", row)
		}
	}
}
