package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/mcpserver"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

type object = apptest.Object

var public = object{"visibility": "public"}

// newWorld is a registry that speaks MCP, as internal/app wires it.
func newWorld(t *testing.T, db *store.DB) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, db)
	money := &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded()}
	opened := &sessions.Service{
		DB: db, Skills: w.Skills, Costs: money, Registry: w.Registry,
		Grades: grades.Reasons{DB: db, Seal: sealtest.Keyring(), Log: w.Log},
	}
	pushes := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: w.Skills, Costs: money, Sessions: opened, Auth: w.Auth,
		Retention: 90 * 24 * time.Hour, Log: w.Log,
	}
	builtin, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	graded := &grades.Service{
		DB: db, Jobs: w.Queue, Skills: w.Skills, Sessions: opened, Costs: money, Registry: w.Registry,
		Sources: &sources.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: w.Skills, Files: w.Registry.Files, Log: w.Log},
		Judge:   builtin, Seal: sealtest.Keyring(), Counter: pushes, Log: w.Log,
	}
	w.Skills.Costs, w.Skills.Plugins, opened.OnReported = money, plugins.History{}, graded
	graded.Register()
	server := &mcpserver.Service{
		DB: db, Catalog: w.Catalog, Registry: w.Registry, Auth: w.Auth, Telemetry: pushes, Sessions: opened, Grades: graded,
		Gates:     verdicts{"gate-1": "pass", "gate-2": "block"},
		PublicURL: w.Server.URL, Version: "1", Log: w.Log,
	}
	for _, m := range []interface{ Mount(*httpapi.API) }{w.Skills, opened, pushes, graded, server} {
		m.Mount(w.API)
	}
	return w
}

// verdicts are those of gates, by id.
type verdicts map[string]decision.Verdict

func (all verdicts) Verdicts(_ context.Context, _ string, ids []string) (map[string]*decision.Verdict, error) {
	found := map[string]*decision.Verdict{}
	for _, id := range ids {
		if v, ok := all[id]; ok {
			found[id] = &v
		}
	}
	return found, nil
}

// recounted wants the numbers of skills to be those of their observations.
func recounted(w *registrytest.World) {
	w.T.Helper()
	for _, check := range []func(context.Context, store.Querier) ([]invariants.Finding, error){
		w.Skills.Check, (&sessions.Service{DB: w.DB}).Check, (&grades.Service{DB: w.DB}).Check,
	} {
		findings, err := check(w.T.Context(), w.DB)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, f := range findings {
			if f.Status != invariants.Good {
				w.T.Errorf("%+v", f)
			}
		}
	}
}

// base is the path of an organisation's catalog, with a token or without.
func base(org string, token ...string) string {
	return strings.Join(append([]string{"/o", url.PathEscape(org)}, token...), "/")
}

// skill is the archive of a skill whose SKILL.md has its name.
func skill(t *testing.T, name, description string, more ...string) []byte {
	t.Helper()
	members := []registrytest.Member{registrytest.File("SKILL.md", "---\nname: "+name+"\ndescription: "+description+"\n---\n# "+name+"\n")}
	for i := 0; i < len(more); i += 2 {
		members = append(members, registrytest.File(more[i], more[i+1]))
	}
	return registrytest.Pack(t, members...)
}

// token makes a catalog token.
func token(c *registrytest.Client) string {
	c.T.Helper()
	return apptest.Text(c.Post("/api/v1/catalog-tokens", object{"name": "laptops"}).Want(http.StatusCreated).Object(), "token")
}

// The messages of the extension, as a host reads them.
type (
	listParams struct {
		mcp.ParamsBase
		Cursor string `json:"cursor,omitempty"`
	}
	uriParams struct {
		mcp.ParamsBase
		URI    string `json:"uri"`
		Cursor string `json:"cursor,omitempty"`
	}
	entry struct {
		URI         string         `json:"uri"`
		Frontmatter map[string]any `json:"frontmatter"`
		Resources   []entryFile    `json:"resources"`
		Meta        map[string]any `json:"_meta"`
	}
	entryFile struct {
		URI    string `json:"uri"`
		Digest string `json:"digest"`
		Size   int64  `json:"size"`
	}
	listResult struct {
		mcp.ResultBase
		ResultType string  `json:"resultType"`
		NextCursor string  `json:"nextCursor"`
		CacheScope string  `json:"cacheScope"`
		TTLMs      int     `json:"ttlMs"`
		Skills     []entry `json:"skills"`
	}
	getResult struct {
		mcp.ResultBase
		Skill entry `json:"skill"`
	}
	directoryResult struct {
		mcp.ResultBase
		Resources  []*mcp.Resource `json:"resources"`
		NextCursor string          `json:"nextCursor"`
	}
)

// withKey adds a key to requests.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A host is the official client.
type host struct {
	*mcp.ClientSession
	t *testing.T
}

// connect connects the official client to a path, with a key or "".
func connect(t *testing.T, w *registrytest.World, path, key string) host {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	for _, err := range []error{
		mcp.AddSendingCustomMethod[*listParams, *listResult](client, "skills/list"),
		mcp.AddSendingCustomMethod[*uriParams, *getResult](client, "skills/get"),
		mcp.AddSendingCustomMethod[*uriParams, *directoryResult](client, "resources/directory/read"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.Server.URL + path + "/mcp", HTTPClient: &http.Client{Transport: withKey{key}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return host{session, t}
}

// list walks all pages of skills/list. The session is named unless it is "".
func (h host) list(session string) (all []entry, pages []*listResult) {
	h.t.Helper()
	for cursor := ""; ; {
		in := &listParams{Cursor: cursor}
		if session != "" {
			in.SetMeta(map[string]any{"dev.whetstone/session": session})
		}
		page, err := mcp.CallCustomMethod[*listParams, *listResult](h.t.Context(), h.ClientSession, "skills/list", in)
		if err != nil {
			h.t.Fatal(err)
		}
		all, pages = append(all, page.Skills...), append(pages, page)
		if cursor = page.NextCursor; cursor == "" {
			return all, pages
		}
	}
}

func (h host) get(uri string) (entry, error) {
	out, err := mcp.CallCustomMethod[*uriParams, *getResult](h.t.Context(), h.ClientSession, "skills/get", &uriParams{URI: uri})
	if err != nil {
		return entry{}, err
	}
	return out.Skill, nil
}

func (h host) directory(uri, cursor string) (*directoryResult, error) {
	return mcp.CallCustomMethod[*uriParams, *directoryResult](h.t.Context(), h.ClientSession, "resources/directory/read",
		&uriParams{URI: uri, Cursor: cursor})
}

// read returns the bytes of a resource.
func (h host) read(uri string) ([]byte, error) {
	out, err := h.ReadResource(h.t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return nil, err
	}
	if len(out.Contents) != 1 || out.Contents[0].URI != uri {
		return nil, fmt.Errorf("contents %+v", out.Contents)
	}
	if c := out.Contents[0]; c.Text == "" {
		return c.Blob, nil
	}
	return []byte(out.Contents[0].Text), nil
}

// names are the names of skills.
func names(list []entry) []string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = fmt.Sprint(e.Frontmatter["name"])
	}
	return all
}

// call calls a tool, and returns its structured result, its text, and whether it
// failed.
func (h host) call(name string, arguments object) (out object, text string, failed bool) {
	h.t.Helper()
	result, err := h.CallTool(h.t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range result.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	out, _ = result.StructuredContent.(object)
	return out, text, result.IsError
}

// wantCode wants an error of JSON-RPC.
func wantCode(t *testing.T, err error, code int64) {
	t.Helper()
	known, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || known.Code != code {
		t.Errorf("error %v, want one with the code %d", err, code)
	}
}

// raw sends a message as it is.
func raw(ctx context.Context, t *testing.T, w *registrytest.World, path, body string, headers ...string) (status int, answer object, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Server.URL+path+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	_ = json.NewDecoder(a.Body).Decode(&answer) // some errors are plain text
	return a.StatusCode, answer, a.Header
}
