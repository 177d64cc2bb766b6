package quality

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// gateQuestion describes what to compare. What is nil or empty is taken from the
// gate policy of the entry.
type gateQuestion struct {
	Archive  []byte // the new version, packed
	Entry    client.Entry
	Against  string   // a version; "" for the current one
	Suites   []string // ids; empty for those of the entry's policy
	Trials   *int     // nil: as the policy has it
	MinCases *int     // nil: as the policy has it
	// Progress, if not nil, is called with the state of the gate while it runs.
	Progress func(state string)
}

// gatePoll is how often the state of a gate is asked for. Gates that need no model
// take about a second.
const gatePoll = 300 * time.Millisecond

// compareFolder has the server gate the folder and waits for the verdict. If ctx ends
// first, g has the id of the gate, which continues on the server.
func compareFolder(ctx context.Context, c *client.Client, o gateQuestion) (g client.Gate, err error) {
	snapshotID, err := uploadFolder(ctx, c, o)
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
		case <-time.After(gatePoll):
		}
		// A failed poll must not lose the id of the gate.
		var now client.Gate
		if now, err = c.Gate(ctx, g.ID); err == nil {
			g = now
		}
	}
	return g, err
}

// uploadFolder stores the folder as a snapshot of a cloud source that is kept for this
// purpose, one per entry: a snapshot can be tested without being published.
func uploadFolder(ctx context.Context, c *client.Client, o gateQuestion) (snapshotID string, err error) {
	u := client.SourceUpload{Label: "gate: " + o.Entry.Name, Archive: o.Archive}
	all, err := c.Sources(ctx, "upload")
	if err != nil {
		return "", err
	}
	// The label is the key: the source is made once, and found by every later gate.
	for _, s := range all {
		if s.Label == u.Label {
			u.SourceID = s.ID
			break
		}
	}
	taken, err := c.UploadSource(ctx, u)
	return taken.Snapshot.ID, err
}

// writeGate encodes the result as json, markdown, junit or sarif. SARIF shows cases at
// their lines in the folder's files, whose names get dir as a prefix. The encoders
// are those of the server, so that a file is the same wherever it was made.
func writeGate(w io.Writer, g client.Gate, format, dir string, pkg *skillpkg.Package) error {
	switch format {
	case "junit":
		return outcome.JUnit(w, g)
	case "markdown":
		return outcome.Markdown(w, g, nil)
	}
	var value any = g
	if format == "sarif" {
		files, err := outcome.ReadCaseFiles(pkg)
		if err != nil {
			return err
		}
		value = outcome.SARIF(g, func(c client.GateCase) (string, int) {
			file, line := files.Find(outcome.CaseLine{ID: c.Case, Text: c.Name, Described: true})
			return path.Join(dir, file), line
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}
