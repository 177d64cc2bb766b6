// Package gating asks the server to compare the skill in a folder with a version in
// the registry, as after a push, before it is pushed.
package gating

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/release/gates/lines"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Options say what to compare.
type Options struct {
	Archive  []byte // of the new version
	Entry    client.Entry
	Against  string   // a version; "": the current one
	Suites   []string // ids; empty: those of the entry's policy
	Trials   *int     // nil: as the policy says
	MinCases *int     // nil: as the policy says
	// Progress, if not nil, is called with the state of the gate while it runs.
	Progress func(state string)
}

const poll = 300 * time.Millisecond

// Compare has the server gate the folder and waits for the verdict.
func Compare(ctx context.Context, c *client.Client, o Options) (g client.Gate, err error) {
	snapshotID, err := upload(ctx, c, o)
	if err != nil {
		return g, err
	}
	g, err = c.AskGate(ctx, o.Entry.ID, client.GateQuestion{
		SnapshotID: snapshotID, Against: o.Against, Suites: o.Suites, Trials: o.Trials, MinCases: o.MinCases,
	})
	for err == nil && (g.Status == "queued" || g.Status == "running") {
		if o.Progress != nil {
			o.Progress(g.Status)
		}
		select {
		case <-ctx.Done():
			return g, ctx.Err()
		case <-time.After(poll):
		}
		var now client.Gate
		if now, err = c.Gate(ctx, g.ID); err == nil {
			g = now
		}
	}
	return g, err
}

// upload stores the folder as a snapshot of a cloud source that is kept for
// this: a snapshot can be run, and is not published.
func upload(ctx context.Context, c *client.Client, o Options) (snapshotID string, err error) {
	u := client.SourceUpload{Label: "gate: " + o.Entry.Name, Archive: o.Archive}
	all, err := c.Sources(ctx, "upload")
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.Label == u.Label {
			u.SourceID = s.ID
			break
		}
	}
	taken, err := c.UploadSource(ctx, u)
	return taken.Snapshot.ID, err
}

// Formats are what Write can write.
const Formats = "markdown,json,junit,sarif"

// Write encodes the result. SARIF shows cases at their lines in the folder's files,
// whose names begin with dir.
func Write(w io.Writer, gate client.Gate, format, dir string, pkg *skillpkg.Package) error {
	raw, err := json.Marshal(gate)
	if err != nil {
		return err
	}
	var g gateapi.Gate
	if err := json.Unmarshal(raw, &g); err != nil {
		return err
	}
	switch format {
	case "junit":
		return outcome.JUnit(w, g)
	case "markdown":
		return outcome.Markdown(w, g, nil)
	}
	var value any = g
	if format == "sarif" {
		files, err := lines.Read(pkg)
		if err != nil {
			return err
		}
		value = outcome.SARIF(g, func(c gateapi.CaseOutcome) (string, int) {
			file, line := files.Find(lines.Case{ID: c.Case, Text: c.Name, Described: true})
			return path.Join(dir, file), line
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}
