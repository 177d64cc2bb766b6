package repohost

import (
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi/tagtest"
)

// TestTags compares the schema's limits with those of Check.
func TestTags(t *testing.T) {
	tagtest.Want(t, bindInput{}, "Body.InstallationID", "minimum", 1)
	tagtest.Want(t, bindInput{}, "Body.InstallationID", "maximum", MaxInstallationID)
	tagtest.Want(t, bindInput{}, "Body.AccountLogin", "maxLength", MaxAccountLogin)
	tagtest.Want(t, api.RepohostSettings{}, "WriteBackMode", "enum", []Mode{ModeOff, ModeChecks, ModePRs})
}
