package web_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/web"
)

// TestTemplates reads the templates of all pages, which the service does only
// when a page is first requested.
func TestTemplates(t *testing.T) {
	t.Parallel()
	s, err := web.New(web.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	if pages, err := s.ReadTemplates(); err != nil || pages < 30 {
		t.Errorf("%d pages, %v", pages, err)
	}
}
