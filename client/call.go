package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// callTimeout bounds one try of a call, transferTimeout one that moves an
	// archive: 10 MiB on a slow line.
	callTimeout     = time.Minute
	transferTimeout = 10 * time.Minute
	// maxAnswer is more than any answer of the API has.
	maxAnswer = 64 << 20
)

// A call is a request to the API that may have to be made several times.
type call struct {
	method string
	path   string // already escaped
	query  url.Values
	body   body
	// repeatable says that making the call twice is the same as making it once.
	repeatable bool
	timeout    time.Duration // 0: callTimeout
}

// A body can be read from its beginning for every try.
type body interface {
	open() (content io.Reader, size int64, mediaType string)
}

// jsonBody is a body that is small enough to be kept.
type jsonBody []byte

func (b jsonBody) open() (io.Reader, int64, string) {
	return bytes.NewReader(b), int64(len(b)), "application/json"
}

// encode makes a body of one of our own types, which can be encoded.
func encode(value any) jsonBody {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

// do makes a call and decodes the answer into out, unless that is nil. It
// returns the status of the answer.
func (c *Client) do(ctx context.Context, in call, out any) (status int, err error) {
	err = retry(ctx, in.repeatable, func() error {
		status, err = c.try(ctx, in, out)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", in.method, in.path, err)
	}
	return status, nil
}

func (c *Client) try(ctx context.Context, in call, out any) (int, error) {
	timeout := callTimeout
	if in.timeout > 0 {
		timeout = in.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := c.request(ctx, in)
	if err != nil {
		return 0, err
	}
	resp, err := c.api.Do(req)
	if err != nil {
		return 0, unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return 0, newError(resp)
	}
	if out == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, decode(resp.Body, out)
}

func decode(r io.Reader, out any) error {
	err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(out)
	_, notJSON := errors.AsType[*json.SyntaxError](err)
	_, notOurs := errors.AsType[*json.UnmarshalTypeError](err)
	if notJSON || notOurs {
		return permanent{fmt.Errorf("the answer cannot be understood; is this a Whetstone server? %w", err)}
	}
	return err
}

func (c *Client) request(ctx context.Context, in call) (*http.Request, error) {
	address := c.server + in.path
	if len(in.query) > 0 {
		address += "?" + in.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, in.method, address, nil)
	if err != nil {
		return nil, permanent{unwrapURL(err)}
	}
	if !strings.HasPrefix(c.server, "http://") && !strings.HasPrefix(c.server, "https://") {
		return nil, permanent{fmt.Errorf("the server's address %q must begin with http:// or https://", c.server)}
	}
	if in.body != nil {
		setBody(req, in.body)
	}
	req.Header.Set("Accept", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	return req, nil
}

func setBody(req *http.Request, b body) {
	content, size, mediaType := b.open()
	req.Body, req.ContentLength = io.NopCloser(content), size
	req.GetBody = func() (io.ReadCloser, error) {
		again, _, _ := b.open()
		return io.NopCloser(again), nil
	}
	req.Header.Set("Content-Type", mediaType)
	if _, small := b.(jsonBody); !small {
		// A refusal can come before the archive is sent.
		req.Header.Set("Expect", "100-continue")
	}
}

// unwrapURL takes the URL out of an error: a signed one is a secret, and
// the caller names the call anyway.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
