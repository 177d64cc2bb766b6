package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestDecodeForm(t *testing.T) {
	type form struct {
		Name    string              `form:"name"`
		Reason  string              `form:"reason,raw"`
		Text    string              `form:"text,lines"`
		Role    access.Role         `form:"role"`
		Ticked  bool                `form:"ticked"`
		Empty   bool                `form:"empty"`
		Version int64               `form:"version"`
		Wrong   int64               `form:"wrong"`
		Some    []access.Permission `form:"some"`
		None    []string            `form:"none"`
		Other   string
	}
	body := url.Values{
		"name": {" a b\t"}, "reason": {" so "}, "text": {" one\r\ntwo\n"}, "role": {"viewer"}, "ticked": {"on"}, "empty": {""},
		"version": {"7"}, "wrong": {"7x"}, "some": {"read", "write"}, "Other": {"no field"},
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	want := form{
		Name: "a b", Reason: " so ", Text: " one\ntwo\n", Role: "viewer", Ticked: true, Version: 7,
		Some: []access.Permission{"read", "write"},
	}
	if diff := cmp.Diff(want, decodeForm[form](r)); diff != "" {
		t.Error(diff)
	}
}
