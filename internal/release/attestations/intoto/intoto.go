// Package intoto has the statements that this installation signs about versions:
// where one comes from (SLSA provenance), and what evals showed. It owns no tables.
package intoto

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
)

// The types of what is signed. They are part of what is signed, and must never change.
const (
	PayloadType   = "application/vnd.in-toto+json"
	StatementType = "https://in-toto.io/Statement/v1"
	Provenance    = "https://slsa.dev/provenance/v1"
	EvalResult    = "https://whetstone.dev/attestation/eval-result/v1"

	// BuildCodeHost is the build type of a version that this installation took from a
	// repository, BuildWorkflow that of one that a workflow run sent, for which its code
	// host vouches, and BuildPush that of one that anybody else sent.
	BuildCodeHost = "https://whetstone.dev/buildtypes/code-host/v1"
	BuildWorkflow = "https://whetstone.dev/buildtypes/workflow/v1"
	BuildPush     = "https://whetstone.dev/buildtypes/push/v1"
)

// A Statement says something about archives.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// A Subject is an archive: the first is the one that was pushed, with the digest of
// its files, and those after it are other archives of the same files.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// A Version names what a statement is about. The name of a subject alone could be
// split in several ways.
type Version struct {
	Organisation string `json:"organisation"`
	Name         string `json:"name"`
	Version      string `json:"version"`
}

// Subject is the name of the version as a subject, e.g. "acme/pdf@1.0.0".
func (v Version) Subject() string { return v.Organisation + "/" + v.Name + "@" + v.Version }

// Archives are the digests of a version, "" for those that it does not have.
type Archives struct {
	SHA256    string // of the archive as it was pushed
	DirHash   string // of its files: the h1 of Go modules in hex
	Discovery string // SHA-256 of the archive that discovery serves
	Plugin    string // SHA-256 of the zip that plugin marketplaces serve
}

// New makes a statement about a version. The digests of other archives are subjects of their
// own, so that a verifier that has only one of them finds it.
func New(v Version, a Archives, predicateType string, predicate any) (s Statement, err error) {
	first := Subject{v.Subject(), map[string]string{"sha256": a.SHA256}}
	if a.DirHash != "" {
		first.Digest["dirHash"] = a.DirHash
	}
	s = Statement{Type: StatementType, Subject: []Subject{first}, PredicateType: predicateType}
	if a.Discovery != "" && a.Discovery != a.SHA256 {
		s.Subject = append(s.Subject, Subject{v.Subject() + "?archive=discovery", map[string]string{"sha256": a.Discovery}})
	}
	if a.Plugin != "" {
		s.Subject = append(s.Subject, Subject{v.Subject() + "?archive=plugin", map[string]string{"sha256": a.Plugin}})
	}
	s.Predicate, err = json.Marshal(predicate)
	return s, err
}

// A ProvenancePredicate is SLSA provenance v1.
type ProvenancePredicate struct {
	BuildDefinition struct {
		BuildType            string             `json:"buildType"`
		ExternalParameters   ExternalParameters `json:"externalParameters"`
		ResolvedDependencies []Dependency       `json:"resolvedDependencies,omitempty"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			InvocationID string    `json:"invocationId"`
			StartedOn    time.Time `json:"startedOn"`
			FinishedOn   time.Time `json:"finishedOn"`
		} `json:"metadata"`
	} `json:"runDetails"`
}

// ExternalParameters say how a version came to the registry. Repository, ref, path
// and commit are those of the code host, which this installation has read itself.
// Of a push they are claims. The split between what was verified and what is claimed is the
// point of provenance.
type ExternalParameters struct {
	Version
	// Publisher is the kind of caller: code-host for a push or tag of a connected
	// repository, code-host-sync for a person who had it read, trusted-publisher for a
	// workflow run, and api for somebody with the permission to push, by API, command line
	// or another client.
	Publisher  string    `json:"publisher"`
	Repository string    `json:"repository,omitempty"`
	Ref        string    `json:"ref,omitempty"`
	Path       string    `json:"path,omitempty"`
	Workflow   *Workflow `json:"workflow,omitempty"`
	Claimed    *Claims   `json:"claimed,omitempty"`
}

// A Workflow is the run of a trusted publisher. Its code host vouches for it with an ID
// token, which this installation has verified; what the run made of the commit it has not
// seen.
type Workflow struct {
	Issuer      string `json:"issuer"` // of the ID token
	Repository  string `json:"repository"`
	Ref         string `json:"ref"` // full, e.g. "refs/tags/v1.2.3"
	Commit      string `json:"commit"`
	File        string `json:"file,omitempty"` // e.g. "acme/skills/.github/workflows/release.yml@refs/heads/main"
	RunID       string `json:"runId,omitempty"`
	RunAttempt  string `json:"runAttempt,omitempty"`
	RunURL      string `json:"runUrl,omitempty"`
	Event       string `json:"event,omitempty"`
	Environment string `json:"environment,omitempty"`
	Runner      string `json:"runner,omitempty"` // e.g. "github-hosted"
}

// Address is that of the repository, e.g. "https://github.com/acme/skills"; "" if it is
// not known where people see it. It is derived from the address of the run, since an ID token
// has the bare name.
func (w *Workflow) Address() string {
	base, _, ok := strings.Cut(w.RunURL, "/"+w.Repository+"/")
	if !ok || w.Repository == "" {
		return ""
	}
	return base + "/" + w.Repository
}

// Claims are what the sender of a version says about its source.
type Claims struct {
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
}

// A Dependency is what a version was made from.
type Dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// An EvalPredicate is what the trials of a version showed: names, counts and rates,
// nothing of what the cases are. Other organisations may read it, and the cases may be
// confidential.
type EvalPredicate struct {
	Version
	Gate       string    `json:"gate,omitempty"` // its id
	Against    string    `json:"against,omitempty"`
	Suites     []Suite   `json:"suites"`
	Floors     []Floor   `json:"floors,omitempty"`
	Decision   *Decision `json:"decision,omitempty"` // of the gate
	FinishedOn time.Time `json:"finishedOn"`
}

// A Suite has the runs of one suite.
type Suite struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Version    int         `json:"version,omitempty"` // where it is known
	Runs       []Run       `json:"runs"`
	Comparison *Comparison `json:"comparison,omitempty"` // of the two versions, case by case
}

// A Run is one arm.
type Run struct {
	ID       string      `json:"id"`
	Arm      string      `json:"arm"`            // new, current
	Step     string      `json:"step,omitempty"` // screen: all cases; confirm: those that looked worse, again
	Status   string      `json:"status"`
	Trials   int         `json:"trials"` // of each case
	Cases    int         `json:"cases"`  // with a verdict
	Passed   int         `json:"passed"`
	Errors   int         `json:"errors"`
	PassRate *float64    `json:"passRate"`
	Interval *[2]float64 `json:"interval"` // Wilson, 95 %
	Baseline *Baseline   `json:"baseline,omitempty"`
	Judge    *Judge      `json:"judge,omitempty"`
	Agent    *Agent      `json:"agent,omitempty"`
}

// A Baseline is the same cases without the skill, or with the version before.
type Baseline struct {
	Kind     string  `json:"kind"` // no_skill, previous
	PassRate float64 `json:"passRate"`
	Delta    float64 `json:"delta"` // the version's pass rate minus the baseline's
}

// A Judge is the model that graded.
type Judge struct {
	API           string `json:"api"`
	Model         string `json:"model"`
	PromptVersion string `json:"promptVersion"`
}

// An Agent is the one that worked on the cases.
type Agent struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"`
}

// A Comparison counts cases.
type Comparison struct {
	Cases     int         `json:"cases"`
	Better    int         `json:"better"`
	Worse     int         `json:"worse"`
	Unchanged int         `json:"unchanged"`
	Errors    int         `json:"errors"`
	AdjustedP *float64    `json:"adjustedP"`
	Interval  *[2]float64 `json:"interval"` // of the difference, 95 % (Tango)
}

// A Floor is an absolute demand of the policy.
type Floor struct {
	Name   string `json:"name"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	Passed bool   `json:"passed"`
}

// A Decision is that of a gate.
type Decision struct {
	Verdict    string `json:"verdict,omitempty"` // empty if a person did not wait for it
	Overridden bool   `json:"overridden"`        // a person published the version all the same
	Policy     Policy `json:"policy"`
}

// A Policy is that of the gate, as it was at the push.
type Policy struct {
	Mode           string  `json:"mode"`
	Trials         int     `json:"trials"`
	MinCases       int     `json:"minCases"`
	OnInconclusive string  `json:"onInconclusive"`
	FalseBlockRate float64 `json:"falseBlockRate"`
}

// A Read is a statement that was verified. It says what was signed, not whether it fits the
// files in hand: see Check.
type Read struct {
	Statement
	Of         Version
	Provenance *ProvenancePredicate // one of the two is nil
	Eval       *EvalPredicate
	At         time.Time // of what it states
}

// Parse reads the payload of an envelope. What it does not know it refuses. A newer predicate
// must not be taken for something that it isn't.
func Parse(payload []byte) (r Read, err error) {
	if err := dsse.Unmarshal(payload, &r.Statement); err != nil {
		return r, fmt.Errorf("statement: %w", err)
	}
	if r.Type != StatementType {
		return r, fmt.Errorf("statement of the type %q", r.Type)
	}
	if len(r.Subject) == 0 {
		return r, errors.New("statement without a subject")
	}
	switch r.PredicateType {
	case Provenance:
		err = json.Unmarshal(r.Predicate, &r.Provenance)
		if err == nil && r.Provenance != nil {
			r.Of = r.Provenance.BuildDefinition.ExternalParameters.Version
			r.At = r.Provenance.RunDetails.Metadata.FinishedOn
		}
	case EvalResult:
		err = json.Unmarshal(r.Predicate, &r.Eval)
		if err == nil && r.Eval != nil {
			r.Of, r.At = r.Eval.Version, r.Eval.FinishedOn
		}
	default:
		return r, fmt.Errorf("predicate of the type %q", r.PredicateType)
	}
	if err == nil && r.Provenance == nil && r.Eval == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return r, fmt.Errorf("predicate: %w", err)
	}
	return r, nil
}

// Check compares what the statement is about with what is wanted: a valid
// statement about another version proves nothing. The name and the fields of the predicate must
// agree: a name alone could be split in several ways.
func (r Read) Check(want Version, sha256 string) error {
	first := r.Subject[0]
	switch {
	case first.Name != want.Subject() || r.Of != want:
		return fmt.Errorf("it is about %s, not %s", first.Name, want.Subject())
	case first.Digest["sha256"] != sha256:
		return fmt.Errorf("it is about an archive with the SHA-256 %.12s, not %.12s", first.Digest["sha256"], sha256)
	}
	return nil
}

// DirHash is the signed digest of the files; "" if it has none.
func (r Read) DirHash() string { return r.Subject[0].Digest["dirHash"] }
