package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client/api"
)

// EvalSuiteFilter selects suites; an empty field selects all.
type EvalSuiteFilter struct {
	SourceID     string
	VerifierKind string
}

const suitesPath = "/api/v1/eval-suites"

func suitePath(id string) string { return suitesPath + "/" + url.PathEscape(id) }

// EvalSuites lists the suites of the caller's organisation without their
// cases, newest first.
func (c *Client) EvalSuites(ctx context.Context, f EvalSuiteFilter) ([]api.EvalSuite, error) {
	query := newQuery(map[string]string{
		"cases": "false", "source_id": f.SourceID, "verifier_kind": f.VerifierKind,
	})
	return List[api.EvalSuite](ctx, c, suitesPath, "suites", query)
}

type suiteAnswer struct {
	Suite api.EvalSuite `json:"suite"`
}

// EvalSuite returns a suite with its cases.
func (c *Client) EvalSuite(ctx context.Context, id string) (api.EvalSuite, error) {
	var out suiteAnswer
	err := c.get(ctx, suitePath(id), nil, &out)
	return out.Suite, err
}

// CreateEvalSuite creates a suite. Cases that cannot be run yet are kept;
// RunnabilityIssues lists what they lack.
func (c *Client) CreateEvalSuite(ctx context.Context, n api.NewEvalSuite) (api.EvalSuite, error) {
	var out suiteAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: suitesPath, body: encode(n)}, &out)
	return out.Suite, err
}

// UpdateEvalSuite changes a suite. A version that is not that of the change is an *Error with the
// status 409.
func (c *Client) UpdateEvalSuite(ctx context.Context, id string, change api.EvalSuiteChange) (api.EvalSuite, error) {
	var out suiteAnswer
	err := c.Call(ctx, http.MethodPatch, suitePath(id), change, &out)
	return out.Suite, err
}

// DeleteEvalSuite deletes a suite and its runs. If an answer is lost, the retry
// may be an *Error with the status 404.
func (c *Client) DeleteEvalSuite(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: suitePath(id), idempotent: true}, nil)
	return err
}

// An EvalImport is a file to become a suite: evals.json, trigger queries, an
// exported suite, or an archive of Harbor task folders or of cases of
// `claude plugin eval`.
type EvalImport struct {
	Name     string // of the suite; taken from the file when empty
	SourceID string
	Oracle   bool // task packages run their solution before their verifier
	// Partial leaves out cases of `claude plugin eval` that the server cannot run. Else
	// one of them refuses all.
	Partial  bool
	Filename string
	// Content is the file: its first Size bytes.
	Content io.ReaderAt
	Size    int64
	// Progress, when set, is called with the number of bytes sent. It starts at 0
	// again with every retry.
	Progress func(sent int64)
}

// ImportEvalSuite creates a suite from a file. The call is not idempotent.
func (c *Client) ImportEvalSuite(ctx context.Context, i EvalImport) (out api.EvalImported, err error) {
	fields := map[string]string{"name": i.Name, "source_id": i.SourceID}
	if i.Oracle {
		fields["oracle"] = "true"
	}
	if i.Partial {
		fields["partial"] = "true"
	}
	file := formFile{field: "file", name: i.Filename, content: i.Content, size: i.Size, progress: i.Progress}
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: suitesPath + "/import", body: newForm(fields, file), timeout: transferTimeout,
	}, &out)
	return out, err
}

// ExportEvalSuite returns a suite as a file in one of the formats suite,
// evals.json, trigger and plugin-eval, which is a zip. A format that cannot
// represent the suite's cases is an *Error with the status 409.
func (c *Client) ExportEvalSuite(ctx context.Context, id, format string) (file []byte, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodGet, path: suitePath(id) + "/export", query: url.Values{"format": {format}}, idempotent: true,
		header: http.Header{"Accept": {"*/*"}},
	}, &file)
	return file, err
}

// ImportEvalRun imports the result of a run that was made elsewhere, the file
// aggregate-result.json of `claude plugin eval`, as a run of a suite, and reports
// whether the suite did not have it before.
func (c *Client) ImportEvalRun(
	ctx context.Context, suiteID string, content io.ReaderAt, size int64,
) (api.EvalReport, bool, error) {
	var out struct {
		Run api.EvalReport `json:"run"`
	}
	file := formFile{field: "file", name: "aggregate-result.json", content: content, size: size}
	status, err := c.do(ctx, call{
		method: http.MethodPost, path: suitePath(suiteID) + "/runs/import", body: newForm(nil, file), timeout: transferTimeout,
		idempotent: true,
	}, &out)
	return out.Run, status == http.StatusCreated, err
}
