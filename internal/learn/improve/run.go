// Package improve looks for a better SKILL.md: it lets a model change a few words
// at a time, scores every candidate by eval runs, and proves the best one on cases
// that neither wrote nor chose it. It owns the tables improve_runs,
// improve_searches, improve_iterations, improve_candidates, improve_trials,
// improve_sources and improve_proofs.
package improve

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
)

// A Run is an improve run. It scores the current version, lets candidates be
// written from one part of the suite's cases (train), chooses among them by another
// (selection), and compares the winner with the current version on the last
// (proof), which is touched once.
type Run struct {
	ID      string
	OrgID   string
	SuiteID string
	Status  runs.Status
	Subject subject.Pinned
	// Description is the skill's when the run was started.
	Description   string
	Distractors   []judge.Skill
	MaxIterations int
	Holdout       float64 // share of the cases that are not written from
	Seed          int64
	Judge         judge.Description
	// Train, HeldOut and LeftOut count the suite's cases; HeldOut are those of the
	// selection and the proof.
	Train, HeldOut, LeftOut int
	Done                    int // trials
	Total                   int
	Winner                  *int // the iteration that was proposed; it has won if the run succeeded
	ProposalID              *string
	Error                   *string // why the run failed, or has no winner; safe to show
	CreatedBy               string
	CreatedAt               time.Time

	StartedAt, FinishedAt *time.Time

	Terms Terms
	Cost  spend.Cost       // so far: of its eval runs, and of the writer
	Proof *search.Evidence // nil until the winner was tried

	// Iterations are in their order; number 0 is the current version.
	Iterations []Iteration

	phase   phase
	writing spend.Cost // of the writer alone
	cases   []Case     // nil where only the columns of the run were read
	skillMD string     // of the current version
}

// Terms are what a run may change and cost. Runs of earlier versions have only a
// target. They are stored as JSON: a new field needs no migration.
type Terms struct {
	Target     edit.Target `json:"target"`
	MaxMicros  *int64      `json:"max_micros,omitempty"`
	MaxCalls   *int64      `json:"max_calls,omitempty"`
	MaxMinutes *int        `json:"max_minutes,omitempty"`
	// Trials is how often a case is tried with each candidate. The proof has more.
	Trials       int   `json:"trials,omitempty"`
	SuiteVersion int64 `json:"suite_version,omitempty"`
	Selection    int   `json:"selection,omitempty"` // cases
	ProofCases   int   `json:"proof,omitempty"`
	// StoppedBy is the limit that ended the run before there was nothing left to try.
	StoppedBy limit `json:"stopped_by,omitempty"`
}

// A limit of a run, by the name that it has in the API.
type limit string

const (
	byCalls      limit = "max_calls"
	byIterations limit = "max_iterations"
	byMinutes    limit = "max_minutes"
	byCost       limit = "max_cost_usd"
)

// Text is the limit in words.
func (l limit) Text() string {
	return map[limit]string{
		byCalls: "the limit of requests to models", byIterations: "the number of candidates to try",
		byMinutes: "the time limit", byCost: "the cost limit",
	}[l]
}

// Splits returns the sizes of the three parts. Runs of earlier versions have no
// proof.
func (r Run) Splits() search.Counts {
	if r.Terms.Trials == 0 {
		return search.Counts{Train: r.Train, Selection: r.HeldOut}
	}
	return search.Counts{Train: r.Train, Selection: r.Terms.Selection, Proof: r.Terms.ProofCases}
}

// A phase is what a run is at. It only ever goes forward, and change refuses steps of an earlier
// one.
type phase string

const (
	scoring   phase = "current" // the current version is tried on all cases
	searching phase = "search"
	proving   phase = "proof"
)

// The statuses that only improve runs have. They use those of package runs, too,
// except Failed.
const (
	NoWinner        runs.Status = "no_winner"        // nothing is proved to be better than the current version
	FailedTransient runs.Status = "failed_transient" // the judge was unavailable; another run may succeed
	FailedTerminal  runs.Status = "failed_terminal"  // another run would fail, too
)

// A Case is a case of the suite in a run.
type Case struct {
	ID     string      `json:"id"`
	Digest string      `json:"digest"` // of its content
	Group  string      `json:"group"`
	Part   search.Part `json:"part,omitempty"` // "" before the current version is scored
	Calls  int         `json:"calls"`          // of models, for a trial
}

// An Iteration is a candidate and its scores.
type Iteration struct {
	N           int
	Description *string // the candidate's; nil if nothing usable was written
	Reason      string  // the writer's
	// Problem says why the candidate cannot win, whatever its scores; nil if it can.
	Problem *string
	// Train is of the minibatch, and of all training cases for the current version;
	// HeldOut is of the selection.
	Train, HeldOut Score
	Errors         int // cases without a verdict

	Parent  int  // the iteration that it was made from
	Partner *int // the other one of a merge; nil for all others
	SkillMD string
	Edits   []edit.Edit // that made it from its parent; nil for a merge

	stage     stage
	sourceID  *string // holds its files while it is tried
	minibatch []string
	results   map[string]result // by case; nil where only scores were read
}

// A stage is how far a candidate has come.
type stage string

const (
	written     stage = "written"
	inMinibatch stage = "minibatch"
	inSelection stage = "selection"
	done        stage = "done"
)

// Scored reports whether the candidate has come as far as it will. Iterations of earlier versions
// have no stage.
func (it Iteration) Scored() bool { return it.stage == done || it.stage == "" }

// A Score counts cases that have a verdict.
type Score struct {
	Passed, Cases int
}

// Rate is the share that passed; nil if none has a verdict.
func (s Score) Rate() *float64 {
	if s.Cases == 0 {
		return nil
	}
	rate := float64(s.Passed) / float64(s.Cases)
	return &rate
}

// Interval is the Wilson interval of 95 %; nil if none has a verdict.
func (s Score) Interval() *[2]float64 {
	rate := s.Rate()
	if rate == nil {
		return nil
	}
	low, high := stats.Wilson(*rate, s.Cases)
	return &[2]float64{low, high}
}

func (s *Score) add(r result) {
	if r.Verdict.Decided() {
		s.Cases++
	}
	if r.Verdict == runs.Pass {
		s.Passed++
	}
}

// A result is what the trials of a case showed.
type result struct {
	Verdict runs.Verdict `json:"verdict"`
	Passed  int          `json:"passed,omitempty"` // trials
	Decided int          `json:"decided,omitempty"`
	RunID   string       `json:"run,omitempty"` // of package runs
}

// score is the share of the trials that passed; false without a verdict. Shares of trials and not
// verdicts: three of three and two of three both pass, but aren't equally good.
func (r result) score() (float64, bool) {
	if r.Decided == 0 {
		return 0, false
	}
	return float64(r.Passed) / float64(r.Decided), true
}

// subject refers to the files of the current version.
func (r Run) subject() subject.Ref {
	if id := r.Subject.Pin.SnapshotID; id != "" {
		return subject.Ref{SnapshotID: id}
	}
	return r.Subject.Pin
}

// of returns the ids of the cases of a part.
func (r Run) of(part search.Part) (ids []string) {
	for _, c := range r.cases {
		if c.Part == part {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// known returns what is known about a case with a candidate: its own result, or
// that of the nearest ancestor which has one. It is a guess for the descendants, whose text has
// changed, and is only used to choose what to write from.
func (r Run) known(n int, caseID string) (result, bool) {
	for {
		it := r.Iterations[n]
		if got, ok := it.results[caseID]; ok || n == 0 {
			return got, ok
		}
		n = it.Parent
	}
}

// lineage returns the edits that made a candidate from the current version.
func (r Run) lineage(n int) (all []edit.Edit) {
	for _, from := range r.ancestry(n, map[int]bool{}) {
		all = append(all, r.Iterations[from].Edits...)
	}
	return all
}

// ancestry returns a candidate after those that it was made from, without those that
// were seen before. It adds all of them to seen. A merge has two parents, so the ancestry is a
// graph, and seen keeps common ancestors from being listed twice.
func (r Run) ancestry(n int, seen map[int]bool) (all []int) {
	if n == 0 || seen[n] {
		return nil
	}
	seen[n] = true
	all = r.ancestry(r.Iterations[n].Parent, seen)
	if partner := r.Iterations[n].Partner; partner != nil {
		all = append(all, r.ancestry(*partner, seen)...)
	}
	return append(all, n)
}

// member is the candidate in the pool. Its scores are on the selection, which neither it nor its
// parents were written from.
func (r Run) member(n int) search.Member {
	m := search.Member{N: n, Scores: map[string]float64{}}
	for _, id := range r.of(search.Selection) {
		score, ok := r.Iterations[n].results[id].score()
		if !ok && n == 0 {
			score, ok = 1, true // a candidate must not win by what is not known of the current version
		}
		if ok {
			m.Scores[id] = score
		}
	}
	return m
}

// gain is by how many cases of its minibatch a candidate passes more than its
// parent.
func (r Run) gain(it Iteration) (gain float64, known bool) {
	return search.Gain(pairs(it.minibatch, r.Iterations[it.Parent].results, it.results))
}

// state is how far the search has come. Merges are not rounds: they come after the
// last one. It is rebuilt from the stored iterations on every step instead of being stored itself,
// so it can't disagree with them.
func (r Run) state() *search.State {
	s := search.New(r.member(0))
	for _, it := range r.Iterations[1:] {
		var candidate *search.Member
		if it.Problem == nil {
			m := r.member(it.N)
			gain, _ := r.gain(it)
			m.Gained = gain > 0
			candidate = &m
		}
		s.Finish(candidate)
	}
	return s
}
