package hostapi

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi/tagtest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// TestTags compares the schema's limits with those of Check.
func TestTags(t *testing.T) {
	tagtest.Want(t, bindInput{}, "Body.InstallationID", "minimum", 1)
	tagtest.Want(t, bindInput{}, "Body.InstallationID", "maximum", repohost.MaxInstallationID)
	tagtest.Want(t, bindInput{}, "Body.AccountLogin", "maxLength", repohost.MaxAccountLogin)
	tagtest.Want(t, SettingsBody{}, "WriteBackMode", "enum", []repohost.Mode{repohost.ModeOff, repohost.ModeChecks, repohost.ModePRs})
}
