package signals

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi/tagtest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestTags compares the limits in the OpenAPI document with those of the reader.
func TestTags(t *testing.T) {
	tagtest.Want(t, Body{}, "UserCohort", "maxLength", maxCohort)
	tagtest.Want(t, Body{}, "SkillName", "maxLength", skills.MaxName)
	tagtest.Want(t, Body{}, "SignalType", "maxLength", maxType)
	tagtest.Want(t, Body{}, "ClientVersion", "maxLength", maxClient)
	tagtest.Want(t, aggregatesInput{}, "SkillName", "maxLength", skills.MaxName)
	tagtest.Want(t, aggregatesInput{}, "SignalType", "maxLength", maxType)
}
