package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// maxProblem bounds what is kept of an error's text.
const maxProblem = 64 << 10

// A refusal is an error that the server explains.
type refusal struct {
	request, status, reason string
	moved                   string // the Location of a redirect
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s: %s", r.request, r.status, r.reason) }

// send makes one request to a path of the API, with in as its body unless that is nil, and
// decodes the response into out unless that is nil. It follows no redirect. Errors have a
// kind.
func (h *Host) send(ctx context.Context, at host.Installation, method, path string, in, out any) (http.Header, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	resp, err := h.do(ctx, at, h.http, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if out == nil {
		return resp.Header, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, host.Failure(resp, err)
	}
	return resp.Header, nil
}

// do makes one request and turns refusals into errors. The caller closes the body.
func (h *Host) do(
	ctx context.Context, at host.Installation, over *outbound.Client, method, path string, body io.Reader,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.base+path, body)
	if err != nil {
		return nil, err
	}
	// Any client drops this header when it is redirected to another origin.
	req.Header.Set("Private-Token", h.tokenFor(at))
	req.Header.Set("User-Agent", "whetstone")
	if body != http.NoBody {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := over.Do(req)
	if err != nil {
		return nil, host.Failure(nil, err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	cause := &refusal{
		request: method + " " + path, status: resp.Status, reason: reason(resp.Body), moved: resp.Header.Get("Location"),
	}
	if resp.StatusCode == http.StatusConflict { // e.g. locked by another request
		return nil, fault.New(fault.BadGateway, "The code host is busy with this").Because(cause)
	}
	return nil, host.Failure(resp, cause)
}

// reason is the text of an error. GitLab sends a message, which is a text or has the texts
// of fields, or an error with its description; a proxy may send a page.
func reason(body io.Reader) string {
	raw, _ := io.ReadAll(io.LimitReader(body, maxProblem)) // what there is will do
	var problem struct {
		Message, Error json.RawMessage
		Description    string `json:"error_description"`
	}
	if json.Unmarshal(raw, &problem) != nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s%s %s", problem.Message, problem.Error, problem.Description))
}

func (h *Host) get(ctx context.Context, at host.Installation, path string, out any) error {
	_, err := h.send(ctx, at, http.MethodGet, path, nil, out)
	return err
}

// somePages calls each with the first pages of a list, and reports whether these are all.
// The path has a query, e.g. "/projects?per_page=100".
func somePages[T any](
	ctx context.Context, h *Host, at host.Installation, path string, most int, each func([]T),
) (complete bool, err error) {
	for range most {
		var list []T
		header, err := h.send(ctx, at, http.MethodGet, path, nil, &list)
		if err != nil {
			return false, err
		}
		each(list)
		next := nextPage(header)
		if next == "" || len(list) == 0 {
			return true, nil
		}
		plain, _, _ := strings.Cut(path, "?")
		path = plain + "?" + next
	}
	return false, nil
}

// nextPage is the query of the next page of a list, "" for the last. Of a keyset it has no
// number, but where the page begins. The rest of the address is not used: it may be one
// that is not reached from here, and the token is not for other addresses.
func nextPage(header http.Header) string {
	for link := range strings.SplitSeq(header.Get("Link"), ",") {
		address, relation, _ := strings.Cut(link, ";")
		if u, err := url.Parse(strings.Trim(address, " <>")); err == nil && strings.Contains(relation, `rel="next"`) {
			return u.RawQuery
		}
	}
	return ""
}

// pages calls each with every page of a list.
func pages[T any](ctx context.Context, h *Host, at host.Installation, path string, each func([]T)) error {
	complete, err := somePages(ctx, h, at, path, host.MaxPages, each)
	if err == nil && !complete {
		return host.ErrTooManyPages()
	}
	return err
}
