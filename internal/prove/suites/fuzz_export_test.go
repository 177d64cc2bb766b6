package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/harbor"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// ReadCases reads the cases of a suite as Create does, and returns what is
// kept of them.
func ReadCases(v VerifierKind, all []Fields) ([]Case, []fault.Issue, json.RawMessage, error) {
	cases, issues := newCases("org", v, all)
	if len(issues) > 0 {
		return nil, issues, nil, nil
	}
	fields := make([]Fields, len(cases))
	for i, c := range cases {
		fields[i] = c.Fields
	}
	document, err := json.Marshal(fields)
	return cases, nil, document, err
}

// DraftJSON reads a file of cases.
func DraftJSON(raw []byte) (NewSuite, error) {
	d, err := parseJSONFile(raw)
	return d.NewSuite, err
}

// ReadTasks imports the tasks of an archive but for what needs a database. It
// returns why tasks were refused and what they warn of; an environment that
// was packed must be one that can be unpacked.
func ReadTasks(ctx context.Context, archive []byte) (said []string, err error) {
	p, err := skillpkg.Open(ctx, bytes.NewReader(archive), int64(len(archive)), skillpkg.DefaultLimits())
	if err != nil {
		return nil, nil // the archive itself is another test's
	}
	defer p.Close()
	service := harbor.Service{
		Missing: func(context.Context, environments.Recipe) string { return "images are not built here" },
		Store: func(ctx context.Context, packed []byte) (string, error) {
			again, err := skillpkg.Read(ctx, bytes.NewReader(packed), skillpkg.DefaultLimits())
			if err != nil {
				return "", err
			}
			return "blob://evals/org/environment", again.Close()
		},
	}
	for _, t := range harbor.Find(p, "archive") {
		if _, err := t.Case(ctx, service, true); err != nil {
			return said, err
		}
		said = slices.Concat(said, t.Reasons, t.Warnings)
	}
	return said, nil
}
