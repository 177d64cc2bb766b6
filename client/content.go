package client

import (
	"context"
	"net/http"
)

// ContentSetting is whether the organisation keeps what was said in sessions.
type ContentSetting struct {
	Enabled bool `json:"enabled"`
}

const contentPath = "/api/v1/settings/content"

// ContentSetting returns the setting.
func (c *Client) ContentSetting(ctx context.Context) (out ContentSetting, err error) {
	err = c.get(ctx, contentPath, nil, &out)
	return out, err
}

// SetContent switches the keeping of content on or off. Only an owner may. What is
// there stays; see DeleteContent.
func (c *Client) SetContent(ctx context.Context, on bool) (out ContentSetting, err error) {
	in := call{method: http.MethodPut, path: contentPath, body: encode(ContentSetting{on}), idempotent: true}
	_, err = c.do(ctx, in, &out)
	return out, err
}

// DeleteContent deletes all content that the organisation keeps. Only an owner may.
func (c *Client) DeleteContent(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/api/v1/content", idempotent: true}, nil)
	return err
}
