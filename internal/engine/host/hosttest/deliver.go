package hosttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// A failer ends a test that cannot go on.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// SigningToken is one as GitLab shows it.
var SigningToken = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// Deliver returns the headers and the body of a webhook as a code host sends it. Tests
// say what happened in GitHub's words: its event and its body.
func Deliver(tb failer, on host.Provider, secret, id, event, body string) (http.Header, string) {
	tb.Helper()
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	if on != host.GitLab {
		header.Set(host.EventHeader, event)
		header.Set(host.DeliveryHeader, id)
		header.Set(host.SignatureHeader, host.Sign(secret, []byte(body)))
		return header, body
	}
	event, body = asGitLab(tb, event, body)
	header.Set(host.GitLabEventHeader, event)
	header.Set(host.GitLabTokenHeader, secret)
	header.Set(host.IdempotencyHeader, id)
	return header, body
}

// SignGitLab adds the signature of a signing token to a delivery of GitLab.
func SignGitLab(tb failer, header http.Header, body, token string, at time.Time) {
	tb.Helper()
	key, err := host.ParseSigningToken(token)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	id, when := header.Get(host.IdempotencyHeader), strconv.FormatInt(at.Unix(), 10)
	header.Set(host.WebhookIDHeader, id)
	header.Set(host.WebhookTimeHeader, when)
	header.Set(host.WebhookSignedHeader, "v1,AAAA "+host.SignGitLab(key, id, when, []byte(body)))
}

// Lines are the headers as apptest takes them.
func Lines(header http.Header) []string {
	var lines []string
	for name, values := range header {
		lines = append(lines, name+": "+values[0])
	}
	return lines
}

// asGitLab translates what happened.
func asGitLab(tb failer, event, body string) (header, translated string) {
	tb.Helper()
	var in struct {
		Action, Ref, After string
		Number             int64
		Head               *struct{ ID string } `json:"head_commit"`
		Repository         struct {
			ID            int64
			FullName      string `json:"full_name"`
			DefaultBranch string `json:"default_branch"`
		}
	}
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		tb.Fatalf("%v", err)
	}
	out := map[string]any{"project": map[string]any{
		"id": in.Repository.ID, "path_with_namespace": in.Repository.FullName, "default_branch": in.Repository.DefaultBranch,
	}}
	attributes := map[string]any{"iid": in.Number, "id": 70_000 + in.Number}
	out["object_attributes"] = attributes
	switch event {
	case "push":
		header, out["object_kind"], out["ref"], out["after"] = "Push Hook", "push", in.Ref, in.After
		if strings.HasPrefix(in.Ref, "refs/tags/") {
			header, out["object_kind"] = "Tag Push Hook", "tag_push"
		}
		if in.Head != nil {
			out["checkout_sha"] = in.Head.ID
		}
	case "pull_request", "pull_request_review":
		header, out["object_kind"] = "Merge Request Hook", "merge_request"
		action, known := map[string]string{
			"opened": "open", "reopened": "reopen", "closed": "close", "submitted": "approved", "dismissed": "unapproved",
		}[in.Action]
		if !known {
			action, out["changes"] = "update", map[string]any{"draft": map[string]any{"previous": true, "current": false}}
		}
		if in.Action == "synchronize" {
			attributes["oldrev"] = strings.Repeat("1", 40)
		}
		attributes["action"] = action
	default:
		header, out["object_kind"] = fmt.Sprint(event, " Hook"), event
	}
	raw, err := json.Marshal(out)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return header, string(raw)
}
