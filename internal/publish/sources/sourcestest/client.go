package sourcestest

import (
	"net/http"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A Client calls the API of a World with one person's key.
type Client struct {
	*apptest.Caller
	W *World
}

// In returns the client for a subtest.
func (c *Client) In(t apptest.T) *Client { return &Client{c.Caller.In(t), c.W} }

// SourcesPath is the path of the collection.
const SourcesPath = "/api/v1/cloud-sources"

// SourcePath is the path of a source.
func SourcePath(id string) string { return SourcesPath + "/" + id }

// Field is a field of a form.
func Field(name, value string) apptest.Part { return apptest.Part{Name: name, Content: []byte(value)} }

// FilePart is a file under its own path.
func FilePart(path, content string) apptest.Part {
	return apptest.Part{Name: path, File: "blob", Content: []byte(content)}
}

// ArchivePart is an archive in the part file.
func ArchivePart(content []byte) apptest.Part {
	return apptest.Part{Name: "file", File: "skill.zip", Content: content}
}

// Uploaded makes a source from an archive and returns the answer.
func (c *Client) Uploaded(archive []byte, more ...apptest.Part) apptest.Object {
	c.T.Helper()
	parts := append([]apptest.Part{Field("label", "demo"), ArchivePart(archive)}, more...)
	return c.Upload(SourcesPath+"/upload", parts...).Want(http.StatusCreated).Object()
}

// Made makes an empty source and returns its id.
func (c *Client) Made(body apptest.Object) string {
	c.T.Helper()
	return apptest.Text(c.Post(SourcesPath, body).Want(http.StatusCreated).Object(), "id")
}

// Linked makes an upload source that is linked to a skill.
func (c *Client) Linked(skill string) string {
	c.T.Helper()
	return c.Made(apptest.Object{"type": "upload", "label": "demo", "skill_id": c.W.Skill(c, skill)})
}

// Detail reads a source.
func (c *Client) Detail(id string) apptest.Object {
	c.T.Helper()
	return c.Get(SourcePath(id)).Want(http.StatusOK).Object()
}

// Pending returns the suggestions in the detail of a source.
func (c *Client) Pending(id string) []apptest.Object {
	c.T.Helper()
	return apptest.List(c.T, c.Detail(id), "evalSuggestions")
}

// Reviewed returns the reviews in the detail of a source.
func (c *Client) Reviewed(id string) []apptest.Object {
	c.T.Helper()
	return apptest.List(c.T, c.Detail(id), "reviewedSuggestions")
}

// Decision is a body that accepts a suggestion, with changes; nil removes a
// field.
func Decision(change apptest.Object) apptest.Object {
	o := apptest.Object{
		"suggestion_id": "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70", "query": "Read the table", "should_trigger": true,
		"review_status": "accepted", "source": "linked_telemetry", "provenance": "missed_query",
	}
	for key, value := range change {
		o[key] = value
		if value == nil {
			delete(o, key)
		}
	}
	return o
}

// Review sends a decision on a suggestion.
func (c *Client) Review(id string, change apptest.Object) apptest.Response {
	c.T.Helper()
	return c.Post(SourcePath(id)+"/eval-suggestions/review", Decision(change))
}

// Clear deletes the review of a suggestion.
func (c *Client) Clear(id, suggestionID string) apptest.Response {
	c.T.Helper()
	return c.Do(http.MethodDelete, SourcePath(id)+"/eval-suggestions/"+suggestionID+"/review", nil)
}

// Apply appends a suggestion to a suite.
func (c *Client) Apply(id, suggestionID, suiteID string, change apptest.Object) apptest.Response {
	c.T.Helper()
	body := Decision(change)
	body["suite_id"] = suiteID
	for _, not := range []string{"suggestion_id", "review_status"} {
		delete(body, not)
	}
	return c.Post(SourcePath(id)+"/eval-suggestions/"+suggestionID+"/apply-to-suite", body)
}

// Together makes calls at the same time and returns their answers.
func Together(calls ...func() apptest.Response) []apptest.Response {
	answers := make([]apptest.Response, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			<-start
			answers[i] = call()
		})
	}
	close(start)
	wg.Wait()
	return answers
}
