package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An EvalSuite is a set of cases that say what a skill should do.
type EvalSuite struct {
	ID                string            `json:"id"`
	SourceID          *string           `json:"source_id"`
	Name              string            `json:"name"`
	SourceKind        string            `json:"source_kind"`   // manual, imported, contributor_aggregate or org_exemplars
	VerifierKind      string            `json:"verifier_kind"` // llm_judge, deterministic or structured_rubric
	SupportsNoSkill   bool              `json:"supports_no_skill"`
	ResourceLimits    json.RawMessage   `json:"resource_limits_json"`
	CaseCount         int               `json:"case_count"`
	Cases             []json.RawMessage `json:"cases_json,omitempty"` // lists have none
	SuiteKind         string            `json:"suite_kind"`           // task_package or cases
	Runnable          bool              `json:"runnable"`
	RunnabilityIssues []Issue           `json:"runnability_issues"`
	Version           int64             `json:"version"`
	CreatedAt         time.Time         `json:"created_at"`
	UpdatedAt         time.Time         `json:"updated_at"`
}

// EvalSuiteFilter chooses suites; empty fields let all pass.
type EvalSuiteFilter struct {
	SourceID     string
	VerifierKind string
}

const (
	suitesPath     = "/api/v1/eval-suites"
	suitesPageSize = 100
)

func suitePath(id string) string { return suitesPath + "/" + url.PathEscape(id) }

// EvalSuites lists the suites of the caller's organisation without their
// cases, newest first.
func (c *Client) EvalSuites(ctx context.Context, f EvalSuiteFilter) ([]EvalSuite, error) {
	query := url.Values{"per_page": {strconv.Itoa(suitesPageSize)}, "cases": {"false"}}
	if f.SourceID != "" {
		query.Set("source_id", f.SourceID)
	}
	if f.VerifierKind != "" {
		query.Set("verifier_kind", f.VerifierKind)
	}
	all := []EvalSuite{}
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var out struct {
			Suites     []EvalSuite `json:"suites"`
			Pagination struct {
				Total int `json:"total"`
			} `json:"pagination"`
		}
		if _, err := c.do(ctx, call{method: http.MethodGet, path: suitesPath, query: query, repeatable: true}, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Suites...)
		if len(out.Suites) == 0 || len(all) >= out.Pagination.Total {
			return all, nil
		}
	}
}

type suiteAnswer struct {
	Suite EvalSuite `json:"suite"`
}

// EvalSuite returns a suite with its cases.
func (c *Client) EvalSuite(ctx context.Context, id string) (EvalSuite, error) {
	var out suiteAnswer
	_, err := c.do(ctx, call{method: http.MethodGet, path: suitePath(id), repeatable: true}, &out)
	return out.Suite, err
}

// A NewEvalSuite is a suite to be made.
type NewEvalSuite struct {
	SourceID        string            `json:"source_id,omitempty"`
	Name            string            `json:"name"`
	SourceKind      string            `json:"source_kind"`
	VerifierKind    string            `json:"verifier_kind"`
	SupportsNoSkill bool              `json:"supports_no_skill,omitempty"`
	ResourceLimits  json.RawMessage   `json:"resource_limits_json,omitempty"`
	Cases           []json.RawMessage `json:"cases_json"`
}

// CreateEvalSuite makes a suite. Cases that cannot be run yet are kept; the
// suite says what they lack.
func (c *Client) CreateEvalSuite(ctx context.Context, n NewEvalSuite) (EvalSuite, error) {
	var out suiteAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: suitesPath, body: encode(n)}, &out)
	return out.Suite, err
}

// DeleteEvalSuite removes a suite and its runs. When an answer is lost and the
// call is made again, the suite may be gone: then it is a 404.
func (c *Client) DeleteEvalSuite(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: suitePath(id), repeatable: true}, nil)
	return err
}

// An EvalImport is a file to become a suite: evals.json, trigger queries, an
// exported suite, or an archive of Harbor task folders.
type EvalImport struct {
	Name     string // of the suite; told from the file when empty
	SourceID string
	Oracle   bool // task packages run their solution before their verifier
	Filename string
	// Content has the file in its first Size bytes.
	Content io.ReaderAt
	Size    int64
	// Progress, when set, is told how much of the file has been sent. It starts
	// again with every try.
	Progress func(sent int64)
}

// EvalImported tells what came of an import.
type EvalImported struct {
	Suite    EvalSuite     `json:"suite"`
	Refused  []RefusedTask `json:"refused"`
	Warnings []string      `json:"warnings"`
}

// A RefusedTask is a task of an archive that cannot be a case.
type RefusedTask struct {
	Task    string   `json:"task"`
	Reasons []string `json:"reasons"`
}

// ImportEvalSuite makes a suite of a file. It is not made again once it may
// have reached the server.
func (c *Client) ImportEvalSuite(ctx context.Context, i EvalImport) (out EvalImported, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: suitesPath + "/import", body: newImportForm(i), timeout: transferTimeout,
	}, &out)
	return out, err
}

func newImportForm(i EvalImport) *form {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	// A boundary of our own cannot be refused, and a buffer takes everything.
	_ = w.SetBoundary(rand.Text() + rand.Text())
	for name, value := range map[string]string{"name": i.Name, "source_id": i.SourceID} {
		if value != "" {
			_ = w.WriteField(name, value)
		}
	}
	if i.Oracle {
		_ = w.WriteField("oracle", "true")
	}
	_, _ = w.CreateFormFile("file", i.Filename)
	f := &form{
		upload: Upload{Archive: i.Content, Size: i.Size, Progress: i.Progress},
		head:   bytes.Clone(b.Bytes()), mediaType: w.FormDataContentType(),
	}
	b.Reset()
	_ = w.Close()
	f.tail = b.Bytes()
	return f
}

// ExportEvalSuite returns a suite as a file in one of the formats suite,
// evals.json and trigger. One that cannot hold the suite's cases is an *Error
// with the status 409.
func (c *Client) ExportEvalSuite(ctx context.Context, id, format string) (file []byte, err error) {
	var raw json.RawMessage
	query := url.Values{"format": {format}}
	_, err = c.do(ctx, call{method: http.MethodGet, path: suitePath(id) + "/export", query: query, repeatable: true}, &raw)
	return raw, err
}
