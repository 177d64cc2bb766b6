package runstest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Where suites, runs and improve runs are.
const (
	SuitesPath  = "/api/v1/eval-suites"
	RunsPath    = "/api/v1/eval-runs/"
	ImprovePath = "/api/v1/improve-runs"
)

// A Client calls the API of a World with one person's key.
type Client struct {
	*apptest.Caller
	World *World
}

// In returns the client for a subtest.
func (c *Client) In(t apptest.T) *Client { return &Client{c.Caller.In(t), c.World} }

// Create makes a suite and returns it.
func (c *Client) Create(body apptest.Object) apptest.Object {
	c.T.Helper()
	return c.Post(SuitesPath, body).Want(http.StatusCreated).Field("suite")
}

// Patch changes a suite.
func (c *Client) Patch(id string, body any) apptest.Response {
	c.T.Helper()
	return c.Do(http.MethodPatch, SuitesPath+"/"+id, body)
}

// Import makes a suite of a file, with form fields beside it, in pairs of a name
// and a value.
func (c *Client) Import(name string, content []byte, fields ...string) apptest.Response {
	c.T.Helper()
	var parts []apptest.Part
	for i := 0; i < len(fields); i += 2 {
		parts = append(parts, apptest.Part{Name: fields[i], Content: []byte(fields[i+1])})
	}
	return c.Upload(SuitesPath+"/import", append(parts, apptest.Part{Name: "file", File: name, Content: content})...)
}

// Start runs a suite on the entry, with other fields in the request.
func (c *Client) Start(suite apptest.Object, fields ...apptest.Object) apptest.Object {
	c.T.Helper()
	body := apptest.Object{"subject": apptest.Object{"entry_id": c.Entry()}}
	for _, more := range fields {
		maps.Copy(body, more)
	}
	return c.Post(SuitesPath+"/"+suite["id"].(string)+"/runs", body).Want(http.StatusAccepted).Field("run")
}

// Run reads a run.
func (c *Client) Run(id any) apptest.Object {
	c.T.Helper()
	return c.Get(RunsPath + id.(string)).Want(http.StatusOK).Field("run")
}

// Await waits for the end of a run.
func (c *Client) Await(run apptest.Object) apptest.Object {
	c.T.Helper()
	apptest.Eventually(c.T, "the end of the run", func() bool {
		return c.World.Count("eval_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.Run(run["id"])
}

// Finish runs a suite to its end.
func (c *Client) Finish(suite apptest.Object, fields ...apptest.Object) apptest.Object {
	c.T.Helper()
	return c.Await(c.Start(suite, fields...))
}

// Improve starts an improve run on the entry, with other fields in the request.
func (c *Client) Improve(suite apptest.Object, fields ...apptest.Object) apptest.Object {
	c.T.Helper()
	body := apptest.Object{"entry_id": c.Entry(), "suite_id": suite["id"]}
	for _, more := range fields {
		maps.Copy(body, more)
	}
	return c.Post(ImprovePath, body).Want(http.StatusAccepted).Field("improve_run")
}

// ImproveRun reads an improve run.
func (c *Client) ImproveRun(id any) apptest.Object {
	c.T.Helper()
	return c.Get(ImprovePath + "/" + id.(string)).Want(http.StatusOK).Field("improve_run")
}

// AwaitImprove waits for the end of an improve run.
func (c *Client) AwaitImprove(run apptest.Object) apptest.Object {
	c.T.Helper()
	apptest.Eventually(c.T, "the end of the improve run", func() bool {
		return c.World.Count("improve_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.ImproveRun(run["id"])
}

// SkillText has the versions of the skill pdf.
var SkillText = map[string]string{
	"1.0.0": "---\nname: pdf\ndescription: Reads files.\n---\nUse version one.\n",
	"2.0.0": "---\nname: pdf\ndescription: Extracts tables from PDF files.\n---\nUse version two.\n",
}

// Entry returns the id of the skill pdf in the organisation's registry, with
// the versions 1.0.0 and 2.0.0 and a skill beside it that it competes with.
func (c *Client) Entry() string {
	c.T.Helper()
	c.publish("weather", "---\nname: weather\ndescription: Tells the weather of tomorrow.\n---\n")
	return c.publish("pdf", SkillText["1.0.0"], SkillText["2.0.0"])
}

// Fresh returns the id of a skill with one version.
func (c *Client) Fresh() string {
	c.T.Helper()
	return c.publish("fresh", "---\nname: fresh\ndescription: Is new.\n---\n")
}

// Publish returns the id of a skill with these versions of its SKILL.md.
func (c *Client) Publish(name string, versions ...string) string {
	c.T.Helper()
	return c.publish(name, versions...)
}

// publish makes an entry with the versions 1.0.0, 2.0.0 and so on, once for the
// organisation.
func (c *Client) publish(name string, versions ...string) string {
	c.T.Helper()
	e := c.World.entries
	e.mu.Lock()
	defer e.mu.Unlock()
	if id, ok := e.ids[c.Org.ID+name]; ok {
		return id
	}
	var id string
	for i, text := range versions {
		archive := Archive(name, text)
		p := registry.Publication{
			OrgID: c.Org.ID, UserID: c.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org,
			Version: fmt.Sprintf("%d.0.0", i+1), Source: registry.FromCLI, Archive: bytes.NewReader(archive), Size: int64(len(archive)),
		}
		var err error
		if i == 0 {
			var entry registry.Entry
			entry, _, err = c.World.Registry.Create(c.T.Context(), p)
			id = entry.ID
		} else {
			_, _, _, err = c.World.Registry.Push(c.T.Context(), id, p)
		}
		if err != nil {
			c.T.Fatalf("%v", err)
		}
	}
	e.ids[c.Org.ID+name] = id
	return id
}

// Source returns the id, without its prefix, of a new source of the
// organisation, whose snapshot is the skill pdf 2.0.0.
func (c *Client) Source() string {
	c.T.Helper()
	return c.SourceOf(SkillText["2.0.0"])
}

// SourceOf is Source for a skill pdf with this SKILL.md.
func (c *Client) SourceOf(text string) string {
	c.T.Helper()
	pkg, err := skillpkg.Read(c.T.Context(), bytes.NewReader(Archive("pdf", text)), skillpkg.DefaultLimits())
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	defer pkg.Close()
	caller := access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}
	taken, err := c.World.Sources.CreateFrom(c.T.Context(), caller, sources.NewSource{Label: "pdf", Type: sources.Upload}, pkg)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return taken.Source.ID
}
