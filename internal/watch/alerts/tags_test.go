package alerts

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi/tagtest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

// TestTags compares the schema's enumerations with those of Rule.Check.
func TestTags(t *testing.T) {
	channels := []notify.Channel{notify.ChatA, notify.ChatB, notify.Email, ToOwners, notify.Webhook}
	tagtest.Want(t, createInput{}, "Body.Type", "enum", types)
	tagtest.Want(t, createInput{}, "Body.Sensitivity", "enum", sensitivities)
	tagtest.Want(t, createInput{}, "Body.Action", "enum", []Action{Rollback})
	tagtest.Want(t, createInput{}, "Body.Channel", "enum", channels)
	tagtest.Want(t, updateInput{}, "Body.Sensitivity", "enum", sensitivities)
	tagtest.Want(t, updateInput{}, "Body.Channel", "enum", channels)
}
