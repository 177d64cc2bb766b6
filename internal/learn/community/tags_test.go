package community

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi/tagtest"
)

// TestTags compares the schema's limits with those of New.Check.
func TestTags(t *testing.T) {
	tagtest.Want(t, submitInput{}, "Body.SkillName", "minLength", 1)
	tagtest.Want(t, submitInput{}, "Body.SkillName", "maxLength", maxSkillName)
	tagtest.Want(t, submitInput{}, "Body.CreatorID", "format", "uuid")
}
