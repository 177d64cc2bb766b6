package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
)

// TestPages reads a list to its end, also one that becomes shorter meanwhile.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		pages []string
		want  int
		err   string
	}{
		{"one page", []string{`{"skills":[{"name":"a"}],"pagination":{"total":1}}`}, 1, ""},
		{"none", []string{`{"skills":[],"pagination":{"total":0}}`}, 0, ""},
		{
			"two pages",
			[]string{
				`{"skills":[{"name":"a"},{"name":"b"}],"pagination":{"total":3}}`,
				`{"skills":[{"name":"c"}],"pagination":{"total":3}}`,
			},
			3, "",
		},
		{
			"shorter meanwhile",
			[]string{
				`{"skills":[{"name":"a"},{"name":"b"}],"pagination":{"total":3}}`,
				`{"skills":[],"pagination":{"total":3}}`,
			},
			2, "",
		},
		{"no list", []string{`{"skills":"none"}`}, 0, "the field skills of the answer is not valid"},
		{"another service", []string{`{"status":"ok"}`}, 0, "the field skills of the answer is not valid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if want := fmt.Sprint(asked + 1); r.URL.Query().Get("page") != want {
					t.Errorf("got page %s, want %s", r.URL.Query().Get("page"), want)
				}
				fmt.Fprint(w, row.pages[asked])
				asked++
			}))
			t.Cleanup(server.Close)
			got, err := client.New(client.Options{Server: server.URL}).Skills(t.Context(), client.SkillFilter{})
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want %q", err, row.err)
				}
				return
			}
			if err != nil || len(got) != row.want || asked != len(row.pages) {
				t.Errorf("got %d skills of %d pages and %v, want %d of %d", len(got), asked, err, row.want, len(row.pages))
			}
		})
	}
}
