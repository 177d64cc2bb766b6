package client

import (
	"context"
	"io"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
)

// An Upload is the archive of a new version, and its metadata.
type Upload struct {
	Name          string `json:"name,omitempty"`
	EntryType     string `json:"entry_type,omitempty"`  // of a new entry; skill when empty
	Description   string `json:"description,omitempty"` // that of the SKILL.md when empty
	Version       string `json:"version"`
	ChangeSummary string `json:"change_summary,omitempty"`
	Visibility    string `json:"visibility,omitempty"` // of a new entry; org when empty
	SourceRepo    string `json:"source_repo,omitempty"`
	// ContentHash and FileManifest, when given, let the server detect that the
	// archive was changed on the way.
	ContentHash  string `json:"content_hash,omitempty"`
	FileManifest []File `json:"file_manifest,omitempty"`

	// Archive is a tar.gz: its first Size bytes.
	Archive io.ReaderAt `json:"-"`
	Size    int64       `json:"-"`
	// Progress, when set, is called with the number of bytes sent. It starts at 0
	// again with every retry.
	Progress func(sent int64) `json:"-"`
}

// A Publication is the result of an upload.
type Publication struct {
	Entry   Entry   `json:"entry"`
	Version Version `json:"version"`
	// Warnings are about the skills that it requires.
	Warnings []string          `json:"warnings"`
	Requires []api.Requirement `json:"requires,omitempty"`
	Gate     *Gate             `json:"gate,omitempty"` // with a candidate: it waits until this gate lets it pass
	// Created is false for a version that already existed with this content.
	Created bool `json:"-"`
}

// CreateEntry creates an entry with its first version. A taken name is an *Error
// with the status 409. The call is not idempotent: after an error that is not an
// *Error, use EntryByName to see whether the entry was created.
func (c *Client) CreateEntry(ctx context.Context, u Upload) (Publication, error) {
	return c.publish(ctx, call{path: "/api/v1/registry", body: u.form()})
}

// PushVersion adds a version to an entry and makes it current, or a candidate
// where a gate is enforced. Pushing a version
// again with the same content changes nothing; with other content it is an *Error
// with the status 409.
func (c *Client) PushVersion(ctx context.Context, entryID string, u Upload) (Publication, error) {
	return c.publish(ctx, call{path: entryPath(entryID) + "/versions", body: u.form(), idempotent: true})
}

func (u Upload) form() *form {
	return newForm(map[string]string{"metadata": string(encode(u))}, formFile{
		field: "archive", name: "archive.tar.gz", mediaType: "application/gzip",
		content: u.Archive, size: u.Size, progress: u.Progress,
	})
}

func (c *Client) publish(ctx context.Context, in call) (out Publication, err error) {
	in.method, in.timeout = http.MethodPost, transferTimeout
	status, err := c.do(ctx, in, &out)
	out.Created = status == http.StatusCreated || status == http.StatusAccepted
	return out, err
}
