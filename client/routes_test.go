package client_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/client"
)

// notCalled are the routes that no method of the client calls, by the reason: methods and a path.
var notCalled = map[string][]string{
	"the commands call it by its path; its types are in package api": {
		"GET POST /api/v1/catalog-tokens", "DELETE /api/v1/catalog-tokens/{id}", "POST /api/v1/catalog-tokens/{id}/rotate",
		"GET POST /api/v1/event-webhooks", "GET PATCH DELETE /api/v1/event-webhooks/{id}",
		"GET /api/v1/event-webhooks/{id}/deliveries", "POST /api/v1/event-webhooks/{id}/deliveries/{delivery_id}/replay",
		"POST /api/v1/event-webhooks/{id}/rotate-secret", "POST /api/v1/event-webhooks/{id}/test",
		"GET POST /api/v1/invitations", "POST /api/v1/invitations/accept", "DELETE /api/v1/invitations/{id}",
		"GET PUT /api/v1/key-policy", "GET POST /api/v1/keys", "PATCH DELETE /api/v1/keys/{id}", "GET /api/v1/members",
		"PATCH DELETE /api/v1/members/{user_id}", "POST /api/v1/members/{user_id}/transfer", "POST /api/v1/me/leave",
		"DELETE /api/v1/organization", "GET POST /api/v1/organization/export", "GET /api/v1/scim-groups",
		"PUT /api/v1/scim-groups/{id}", "GET POST /api/v1/scim-tokens", "DELETE /api/v1/scim-tokens/{id}",
		"GET POST /api/v1/service-accounts", "GET PATCH DELETE /api/v1/service-accounts/{id}", "GET POST /api/v1/teams",
		"GET PATCH DELETE /api/v1/teams/{id}", "PUT /api/v1/teams/{id}/members",
		"PUT DELETE /api/v1/teams/{id}/members/{user_id}", "GET POST /api/v1/trusted-publishers",
		"POST /api/v1/trusted-publishers/token", "DELETE /api/v1/trusted-publishers/{id}",
		"GET PUT /api/v1/registry/{id}/owners", "GET POST /api/v1/registry/{id}/versions/{version}/approvals",
		"POST /api/v1/registry/{id}/versions/{version}/approvals/override", "GET /api/v1/approvals",
		"GET /api/v1/registry/{id}/requirements", "POST /api/v1/registry/requirements", "POST /api/v1/registry/resolve",
	},
	"the commands call it by its path, and print what comes": {
		"GET /api/v1/catalogue-report", "GET /api/v1/audit/export", "GET /api/v1/registry/{id}/versions/{version}/diff",
		"GET /api/v1/registry/{id}/versions/{version}/attestations",
	},
	"an exporter of OpenTelemetry calls it": {
		"POST /v1/logs", "POST /v1/metrics", "POST /v1/traces",
	},
	"the same as another route": {
		"GET /api/v1/device-code/poll", "GET /api/v1/creator-signals/proposals",
		"GET /api/v1/cloud-sources/{sourceId}/eval-suggestions",
		"GET /api/v1/cloud-sources/{sourceId}/eval-suggestions/reviews",
	},
	"a file": {
		"GET /api/v1/cloud-sources/{id}/snapshots/{snapshotId}/files/{path}",
		"GET /api/v1/registry/{id}/versions/{version}/files/{path}", "GET /api/v1/cloud-sources/{id}/validation.sarif",
		"GET /api/v1/community/bundles/schema", "GET /api/v1/me/export", "DELETE /api/v1/me/data",
	},
	"no program has needed it yet": {
		"GET /api/v1/agents", "GET /api/v1/alerts/{id}/deliveries", "POST /api/v1/alerts/{id}/rotate-secret",
		"GET /api/v1/alpha/verify", "GET /api/v1/push/{push_id}", "GET /api/v1/registry/{id}/installations",
		"POST /api/v1/registry/{id}/versions/{version}/comments", "GET /api/v1/registry/{id}/versions/{version}/publisher",
		"GET /api/v1/repohost/pull-requests", "GET /api/v1/repohost/pull-requests/{id}",
		"GET PUT /api/v1/settings/gate-policy", "GET /api/v1/usage", "GET PUT /v1/skills/{skill_id}/grader",
	},
}

// TestRoutesAreThoseOfTheDocument calls every method of the client, and compares what it
// asks for with the document: a route that the client lacks needs a reason in notCalled.
func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../internal/app/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{} // routes, e.g. "GET /api/v1/keys/{id}"
	for path, methods := range document.Paths {
		for method := range methods {
			missing[strings.ToUpper(method)+" "+path] = true
		}
	}
	for asked, route := range routesOf(slices.Collect(maps.Keys(missing)), requests(t)) {
		if route == "" {
			t.Errorf("the client asks for %s, which is not in the document", asked)
		}
		delete(missing, route)
	}
	for reason, patterns := range notCalled {
		for _, pattern := range patterns {
			words := strings.Fields(pattern)
			for _, method := range words[:len(words)-1] {
				route := method + " " + words[len(words)-1]
				if !missing[route] {
					t.Errorf("notCalled has %s (%s), but the client calls it, or there is no such route", route, reason)
				}
				delete(missing, route)
			}
		}
	}
	for route := range missing {
		t.Errorf("no method of the client calls %s, and notCalled has no reason", route)
	}
}

// routesOf finds the route of each request; "" stands for none.
func routesOf(routes, requests []string) map[string]string {
	// A route without parameters comes before one with some: /registry/sync is no {id}.
	slices.SortFunc(routes, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	parameter := regexp.MustCompile(`\{\w+\}`)
	patterns := make([]*regexp.Regexp, len(routes))
	for i, route := range routes {
		patterns[i] = regexp.MustCompile("^" + parameter.ReplaceAllString(route, "[^/]+") + "$")
	}
	found := map[string]string{}
	for _, asked := range requests {
		found[asked] = ""
		i := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(asked) })
		if i >= 0 {
			found[asked] = routes[i]
		}
	}
	return found
}

// requests are what the methods of the client ask a server for, e.g. "GET /api/v1/me", which
// refuses all of it.
func requests(t *testing.T) []string {
	t.Helper()
	var lock sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		all = append(all, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	c := reflect.ValueOf(client.New(client.Options{Server: server.URL}))
	for i := range c.NumMethod() {
		// These two call any route, and Ready one that is no part of the API.
		if slices.Contains([]string{"Call", "DownloadTo", "Ready"}, c.Type().Method(i).Name) {
			continue
		}
		method := c.Method(i)
		for _, set := range []bool{true, false} {
			in := []reflect.Value{reflect.ValueOf(t.Context())}
			for k := 1; k < method.Type().NumIn(); k++ {
				value := reflect.New(method.Type().In(k)).Elem()
				fill(value, set)
				in = append(in, value)
			}
			method.Call(in)
		}
	}
	return all
}

// fill sets texts, truth values as given, and gives lists one element.
func fill(v reflect.Value, set bool) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(set)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), set)
			}
		}
	}
}
