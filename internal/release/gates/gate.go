// Package gates lets no version of a skill become current without proof that it
// is not worse than the one before: it tries both on the same cases, decides with
// a known rate of false blocks, and publishes the candidate or keeps it back. It
// owns the tables gate_policies, gate_requirements, gates and gate_runs.
package gates

import (
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// A Gate is the comparison of one version with the one that was current.
type Gate struct {
	ID      string
	OrgID   string
	EntryID string
	// VersionID is that of the snapshot, and Version the one that a push of the
	// commit would make, where Pull is set.
	VersionID, Version string
	Pull               *Pull // the head of a pull request that is tried instead of a version
	Apart              bool  // as registry.Version.Apart
	// AgainstID is the current version or, if that was withdrawn, the one that was current
	// last; nil for the first version of an entry.
	AgainstID, Against *string
	// A later change of the policy doesn't change what an open gate asks; see Policy.after for
	// reruns.
	Policy  Policy // as it was at the push
	Status  Status
	Verdict *decision.Verdict
	// Reason is a sentence for people, e.g. "worse on 5 and better on 0 of 20 cases (p =
	// 0.03)".
	Reason    string
	Result    Result
	Override  *Override
	CreatedBy string
	CreatedAt time.Time
	// Content is a digest of the files of the version, and Pool one of that, of AgainstID
	// and of what the suites ask: gates of one pool add up their trials. Both are set by the
	// time the trials are planned, and empty for gates that need none.
	Content, Pool string
	// Previous are the ids of the earlier gates of the pool. They are in order of time, and
	// their number is what the API shows as the attempt.
	Previous []string

	StartedAt, DecidedAt *time.Time
}

// A Status is the state of a gate. Once it is closed, it never changes again.
type Status string

// The statuses.
const (
	Queued     Status = "queued"
	Running    Status = "running"
	Decided    Status = "decided"
	Superseded Status = "superseded" // by a newer push, or another current version
	Cancelled  Status = "cancelled"  // a person decided about the version before
)

// Open reports whether the gate has yet to decide.
func (s Status) Open() bool { return s == Queued || s == Running }

// A Result has the numbers that led to a verdict. It is stored as JSON, so fields may be added
// but not renamed.
type Result struct {
	Suites  []api.GateSuite `json:"suites"`
	Floors  []api.GateFloor `json:"floors"`
	CostUSD *float64        `json:"cost_usd"`
	// Interrupted says that a person stopped the trials. That must not pass a gate,
	// whatever the policy does with inconclusive ones.
	Interrupted bool `json:"interrupted,omitempty"`
	// Lifting says that the question was whether an earlier block is lifted.
	Lifting bool `json:"lifting,omitempty"`
}

// stored returns the result without addresses: the database has those of users once. Otherwise
// an address would stay here after its user is erased; see addEmails.
func (r Result) stored() Result {
	r.Suites = slices.Clone(r.Suites)
	for i := range r.Suites {
		r.Suites[i].Changes = slices.Clone(r.Suites[i].Changes)
		for j := range r.Suites[i].Changes {
			r.Suites[i].Changes[j].Email = ""
		}
	}
	return r
}

// A Pull is the head of a pull request, or a folder: content that is tried before it
// is merged or pushed, and that no verdict publishes. Its gate never changes the registry.
type Pull struct {
	// For a folder a fresh id, so that gates of folders never supersede each other.
	ID         string `json:"id"`     // ours
	Number     int64  `json:"number"` // 0 for a folder
	Commit     string `json:"commit"`
	URL        string `json:"url"`
	SnapshotID string `json:"snapshot_id"` // of a cloud source
}

// An Override is a person's decision against the verdict. It stays on the gate beside its
// verdict, which it does not change.
type Override struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// holds reports whether the gate keeps its version a candidate. Only such gates have a say in
// the registry. The others only report.
func (g Gate) holds() bool { return g.Policy.Mode == Enforce && g.Pull == nil }

// Releases reports whether the verdict lets a candidate become current. An open gate does not.
func (g Gate) Releases() bool {
	switch {
	case g.Verdict == nil || g.Result.Interrupted:
		return false
	case *g.Verdict == decision.Inconclusive:
		return g.Policy.OnInconclusive == PassInconclusive
	}
	return *g.Verdict == decision.Pass || *g.Verdict == decision.Skipped
}

// subject is what the trials are about. The snapshot of a pull request exists before any
// version does.
func (g Gate) subject() subject.Ref {
	if g.Pull != nil {
		return subject.Ref{SnapshotID: g.Pull.SnapshotID}
	}
	return subject.Ref{EntryID: g.EntryID, Version: g.Version}
}

// current is the version that the trials are compared with. It must not be called without
// Against.
func (g Gate) current() subject.Ref { return subject.Ref{EntryID: g.EntryID, Version: *g.Against} }

// apart is the lane of versions that do not become current. It is no id of a pull request.
const apart = "apart"

// lane tells gates apart that do not supersede each other: those of an entry's pushes, of
// versions that do not become current, and of each pull request.
func (g Gate) lane() string {
	switch {
	case g.Pull != nil:
		return g.Pull.ID
	case g.Apart:
		return apart
	}
	return ""
}

// Shown is the verdict or, without one, the status.
func (g Gate) Shown() string {
	if g.Verdict != nil {
		return string(*g.Verdict)
	}
	return string(g.Status)
}

// Output is the gate as the API shows it. Slices are never nil: the API promises arrays.
func (g Gate) Output() api.Gate {
	out := api.Gate{
		ID: g.ID, EntryID: g.EntryID, Version: g.Version, Against: g.Against, Mode: string(g.Policy.Mode),
		Status: string(g.Status),
		Reason: g.Reason, Suites: append([]api.GateSuite{}, g.Result.Suites...),
		Floors:         append([]api.GateFloor{}, g.Result.Floors...),
		FalseBlockRate: decision.FalseBlockRate, CostUSD: g.Result.CostUSD,
		CreatedAt: httpapi.Time(g.CreatedAt), DecidedAt: httpapi.NullTime(g.DecidedAt),
		Attempt: len(g.Previous) + 1, Previous: append([]string{}, g.Previous...),
	}
	for i := range out.Suites { // gates of before have none
		out.Suites[i].Changes = append([]api.GateSuiteChange{}, out.Suites[i].Changes...)
	}
	if g.Verdict != nil {
		verdict := string(*g.Verdict)
		out.Verdict = &verdict
	}
	if p := g.Pull; p != nil && p.Number != 0 {
		out.PullRequest = &api.GatePullRequest{Number: p.Number, Commit: p.Commit, URL: p.URL}
	}
	if o := g.Override; o != nil {
		out.Override = &api.GateOverride{By: o.By, Reason: o.Reason, At: httpapi.Time(o.At)}
	}
	return out
}
