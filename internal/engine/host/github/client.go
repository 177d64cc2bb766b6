package github

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// A reply is the metadata of a response.
type reply struct {
	status   int // 0 without a response
	nextPage int // of a list, 0 if this is the last
}

// call makes a request for an installation: to path below its repository, e.g.
// "/pulls/7", or below the API's base URL if r has no name. It retries once with a new
// token if the cached one is not accepted.
//
// A repository of another owner than the installation's is NotFound: a token can also
// read public repositories of others.
func (h *Host) call(ctx context.Context, r host.Repo, method, path string, in, out any) (reply, error) {
	if r.FullName != "" {
		if !r.Owns(r.FullName) {
			return reply{}, notFound(r)
		}
		path = "/repos/" + r.FullName + path
	}
	for attempt := 0; ; attempt++ {
		token, err := h.tokens.get(ctx, h, r.ID)
		if err != nil {
			return reply{}, err
		}
		got, err := h.send(ctx, h.http, token, method, path, in, out)
		if err == nil || got.status != http.StatusUnauthorized || attempt > 0 {
			return got, err
		}
		h.tokens.invalidate(r.ID)
	}
}

func (h *Host) get(ctx context.Context, r host.Repo, path string, out any) error {
	_, err := h.call(ctx, r, http.MethodGet, path, nil, out)
	return err
}

// send makes one request, with in as its body unless that is nil, and decodes the
// response into out unless that is nil. Errors have a kind.
func (h *Host) send(ctx context.Context, over *outbound.Client, token, method, path string, in, out any) (reply, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return reply{}, err
		}
		body = bytes.NewReader(encoded)
	}
	req, err := h.request(ctx, token, method, path, body)
	if err != nil {
		return reply{}, err
	}
	resp, err := over.Do(req)
	if err != nil {
		return reply{}, host.Failure(nil, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	got := reply{resp.StatusCode, nextPage(resp.Header)}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var problem struct{ Message string }
		_ = json.NewDecoder(resp.Body).Decode(&problem) // a proxy may answer with a page
		return got, host.Failure(resp, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, problem.Message))
	}
	if out == nil {
		return got, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return got, host.Failure(resp, err)
	}
	return got, nil
}

func (h *Host) request(ctx context.Context, token, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.base+path, body)
	if err != nil {
		return nil, err
	}
	if slices.Contains(strings.Split(req.URL.Path, "/"), "..") {
		return nil, fault.New(fault.Malformed, "a path on the code host must not have .. in it")
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Authorization", "Bearer "+token) // the client drops it when it is redirected to another origin
	req.Header.Set("User-Agent", "whetstone")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	if body != http.NoBody {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// nextPage is the number of the next page of a list, e.g. 2 for
// <https://api.github.com/repositories/1/tags?per_page=100&page=2>; rel="next".
func nextPage(header http.Header) int {
	for link := range strings.SplitSeq(header.Get("Link"), ",") {
		address, relation, _ := strings.Cut(link, ";")
		if u, err := url.Parse(strings.Trim(address, " <>")); err == nil && strings.Contains(relation, `rel="next"`) {
			number, _ := strconv.Atoi(u.Query().Get("page")) // 0 ends the list
			return number
		}
	}
	return 0
}

// somePages calls each with the first pages of a list, and reports whether these are
// all. The path has a query, e.g. "/tags?per_page=100".
func somePages[T any](
	ctx context.Context, h *Host, r host.Repo, path string, most int, each func(T),
) (complete bool, err error) {
	page := ""
	for range most {
		var list T
		got, err := h.call(ctx, r, http.MethodGet, path+page, nil, &list)
		if err != nil {
			return false, err
		}
		each(list)
		if got.nextPage == 0 {
			return true, nil
		}
		page = "&page=" + strconv.Itoa(got.nextPage)
	}
	return false, nil
}

// pages calls each with every page of a list.
func pages[T any](ctx context.Context, h *Host, r host.Repo, path string, each func(T)) error {
	complete, err := somePages(ctx, h, r, path, host.MaxPages, each)
	if err == nil && !complete {
		return host.ErrTooManyPages()
	}
	return err
}
