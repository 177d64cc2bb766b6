package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// callTimeout limits one try of a call, transferTimeout one that sends or
	// receives an archive: 10 MiB over a slow connection.
	callTimeout     = time.Minute
	transferTimeout = 10 * time.Minute
	// maxAnswer is larger than any answer of the API.
	maxAnswer = 64 << 20
)

// A call is a request to the API that may be retried.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   body
	// idempotent permits a retry after a try that may have had an effect.
	idempotent bool
	timeout    time.Duration // 0: callTimeout
}

// A body can be read from its beginning for every try.
type body interface {
	open() (content io.Reader, size int64, mediaType string)
}

// jsonBody is an encoded JSON value.
type jsonBody []byte

func (b jsonBody) open() (io.Reader, int64, string) {
	return bytes.NewReader(b), int64(len(b)), "application/json"
}

// encode returns the body of a value of this package's types, which can always
// be encoded.
func encode(value any) jsonBody {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

// get is do for a GET request, which is always idempotent.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, idempotent: true}, out)
	return err
}

// Call calls a route of the API that this package has no method for: method and
// escaped path, with query if it has one. A body that is not nil is sent as JSON, and
// the answer is decoded into out unless that is nil. A POST is never retried after it
// may have had an effect.
func (c *Client) Call(ctx context.Context, method, path string, body, out any) error {
	in := call{method: method, path: path, idempotent: method != http.MethodPost}
	if body != nil {
		in.body = encode(body)
	}
	_, err := c.do(ctx, in, out)
	return err
}

// do makes a call, with retries, and decodes the answer into out, a *[]byte for a
// file, unless that is nil. It returns the HTTP status of the answer.
func (c *Client) do(ctx context.Context, in call, out any) (status int, err error) {
	err = retry(ctx, in.idempotent, func() error {
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
	switch file := out.(type) {
	case nil:
		return resp.StatusCode, nil
	case *[]byte:
		*file, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return resp.StatusCode, err
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out)
	_, notJSON := errors.AsType[*json.SyntaxError](err)
	_, otherShape := errors.AsType[*json.UnmarshalTypeError](err)
	if notJSON || otherShape {
		err = permanent{fmt.Errorf("the answer is not valid; is this a Whetstone server? %w", err)}
	}
	return resp.StatusCode, err
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
	maps.Copy(req.Header, in.header)
	if in.body != nil {
		setBody(req, in.body)
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
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
		// The server can reject the request before the archive is sent.
		req.Header.Set("Expect", "100-continue")
	}
}

// unwrapURL removes the URL from an error: a signed URL is a secret, and the
// caller adds the path of the call.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
