package edit_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// FuzzApply: whatever the edits, every field but the description stays as it is,
// and a refused edit changes nothing.
func FuzzApply(f *testing.F) {
	f.Add(invoices, "replace", "dollars", "euros", "insert_after", "the tax.", "And\r\nmore")
	f.Add(invoices, "replace", "a bill", "it: \"a\" # b\n---\n", "delete", "Writes invoices.", "")
	f.Add("---\nname: x\ndescription: >-\n  a b\n  c\n---\nbody", "replace", "a b c", "d\n\n e", "delete", "body", "")
	f.Add("---\r\nname: x\r\ndescription: 'it''s'\r\n---\r\na\r\nb", "replace", "it's", "its", "replace", "a\nb", "c")
	f.Add("\ufeff---\ndescription:\n  a\n\n  # c\nname: x\n---", "replace", "a", "b", "delete", "b", "")
	f.Fuzz(func(t *testing.T, skillMD, op1, anchor1, text1, op2, anchor2, text2 string) {
		edits := []edit.Edit{{Op: op1, Anchor: anchor1, Text: text1}, {Op: op2, Anchor: anchor2, Text: text2}}
		before, err := skillpkg.ParseSkill([]byte(skillMD))
		after, refused := edit.Apply(skillMD, edits)
		if err != nil || len(refused) == len(edits) {
			if after != skillMD {
				t.Fatalf("refused edits changed %q to %q", skillMD, after)
			}
			return
		}
		now, err := skillpkg.ParseSkill([]byte(after))
		if err != nil {
			t.Fatalf("%q became %q: %v", skillMD, after, err)
		}
		if strings.HasSuffix(skillMD, "\n") != strings.HasSuffix(after, "\n") && now.Body != "" {
			t.Errorf("%q became %q: the end of the file changed", skillMD, after)
		}
		for i, was := range before.Fields {
			if is := now.Fields[i]; is.Key != was.Key || was.Key != "description" && !reflect.DeepEqual(is.Value, was.Value) {
				t.Errorf("%q became %q: the field %s changed", skillMD, after, was.Key)
			}
		}
		if first, others := edit.Apply(skillMD, edits[:1]); len(refused) == 0 && len(others) == 0 {
			second, _ := edit.Apply(skillMD, edits[1:])
			if merged, ok := edit.Merge(skillMD, first, second); ok {
				if _, err := skillpkg.ParseSkill([]byte(merged)); err != nil {
					t.Errorf("merged %q: %v", merged, err)
				}
			}
		}
	})
}
