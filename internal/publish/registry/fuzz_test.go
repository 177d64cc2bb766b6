package registry_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// FuzzMetadata: the metadata of a publication are refused with a path, or
// hold what can be stored.
func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"name":"pdf","entry_type":"skill","version":"1.0.0","file_manifest":[{"path":"SKILL.md","hash":"00","size":1}],"content_hash":"AB","visibility":"public","source_repo":"a/b"}`,
		`{"name":"\u0000","version":"a/b","description":"\ud800"}`, `{"name":5}`, `{"file_manifest":{}}`, `null`, `[]`, ``, `{"version":"` + "\u202e" + `1"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		issues, err := registry.CheckMetadata(httpapi.Form{Values: map[string][]string{"metadata": {text}}})
		if err != nil && !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.TooLarge) {
			t.Fatalf("%v is not about the metadata", err)
		}
		for _, issue := range issues {
			if issue.Message == "" || len(issue.Path) == 0 {
				t.Errorf("bad issue %+v", issue)
			}
		}
	})
}
