package transcripts

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// outcomeRecord is what came of a command, or that a person interrupted the agent. The
// command and the commit are left out. Command lines have passwords and names, and a hash names
// a repository.
type outcomeRecord struct {
	base
	OutcomeID  string    `json:"outcome_id"`
	OccurredAt time.Time `json:"occurred_at"`
	Outcome    string    `json:"outcome"`
	Passed     bool      `json:"passed"`
}

// The outcomes that are sent.
const (
	testsPassed    = "tests_passed"
	commitSurvived = "commit_survived"
	interrupted    = "interrupted"
)

// A toolEnd is what Claude Code notes with the result of a tool. GitOperation is there in newer
// versions only; older ones need madeCommit.
type toolEnd struct {
	Interrupted      bool
	BackgroundTaskID string // of a command that goes on
	GitOperation     struct {
		Commit struct {
			SHA string
		}
	}
}

// UnmarshalJSON accepts anything: most tools note something else.
func (r *toolEnd) UnmarshalJSON(raw []byte) error {
	type plain toolEnd // without this method
	var found plain
	if json.Unmarshal(raw, &found) == nil {
		*r = toolEnd(found)
	}
	return nil
}

// A shellCall is a command line of the agent's shell that has ended. Nothing of it is sent but
// what addOutcomes makes of it.
type shellCall struct {
	line   string
	status int
	output string
	commit string // the abbreviated hash of the commit that it made; "" if unknown
	dir    string // where it ran
}

// exitCode is how Claude Code begins the result of a command that failed.
var exitCode = regexp.MustCompile(`^Exit code (\d+)(?:\n|$)`)

// shellCall returns the command line whose result a block is, if it has ended and its
// exit status is known.
func (t *turn) shellCall(e entry, b block) (c shellCall, ok bool) {
	if e.command != nil {
		return *e.command, true
	}
	line, ok := t.shell[b.ToolUseID]
	if !ok || e.ToolEnd.Interrupted || e.ToolEnd.BackgroundTaskID != "" {
		return c, false
	}
	c = shellCall{line: line, commit: e.ToolEnd.GitOperation.Commit.SHA, dir: e.CWD}
	// Outputs are long, and decoding each would slow an import down.
	if b.IsError || c.commit == "" && Commits(line) { // else the output is of no use
		c.output = b.Content.text()
	}
	if !b.IsError {
		return c, true
	}
	match := exitCode.FindStringSubmatch(c.output)
	if match == nil { // e.g. a person refused it
		return c, false
	}
	status, err := strconv.Atoi(match[1])
	c.status = status
	return c, err == nil
}

var (
	commitHash = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
	// madeCommit matches what git commit prints, e.g. "[main 1a2b3c4] Fix it".
	madeCommit = regexp.MustCompile(`(?m)^\[[^\]\n]+ ([0-9a-f]{7,40})\] `)
)

// addOutcomes adds what came of a command line. The commit itself is looked up later, in the
// repository on this machine; see sendCommits.
func (t *turn) addOutcomes(e entry, callID string, c shellCall) {
	if passed := TestsPassed(c.line, c.status, c.output); passed != nil {
		t.addOutcome(e, testsPassed, callID, *passed)
	}
	if c.commit == "" && Commits(c.line) {
		if all := madeCommit.FindAllStringSubmatch(c.output, -1); all != nil {
			c.commit = all[len(all)-1][1]
		}
	}
	if made := t.calls[callID]; made != nil && commitHash.MatchString(c.commit) && c.dir != "" {
		t.commits = append(t.commits, sessionCommit{
			Session: t.file.sessionOf(e), ToolCall: callID, File: t.file.stem, Dir: c.dir, Hash: c.commit,
			From: made.OccurredAt, To: e.at,
		})
	}
}

// id must be the same each time the line is read: it is the key by which the server
// deduplicates.
func (t *turn) addOutcome(e entry, name, id string, passed bool) {
	t.outcomes = append(t.outcomes, outcomeRecord{
		base:      newBase(outcomeKind, t.file.sessionOf(e), e.at, t.file.source(e)),
		OutcomeID: id, OccurredAt: e.at, Outcome: name, Passed: passed,
	})
}

// shellCall returns the command line of an item of Codex. nil for one that is still running or
// was refused.
func (i rolloutItem) shellCall() *shellCall {
	if i.ExitCode == nil || i.Status != "completed" && i.Status != "failed" {
		return nil
	}
	c := &shellCall{line: Quote(i.Command), status: *i.ExitCode, output: i.Output}
	// A shell with a script, e.g. ["bash", "-lc", "go test ./..."]: the script is what matters.
	if n := len(i.Command); n == 3 && (i.Command[1] == "-lc" || i.Command[1] == "-c") {
		c.line = i.Command[2]
	}
	if at, err := url.Parse(i.CWD); err == nil && (at.Scheme == "file" || at.Scheme == "") {
		c.dir = at.Path
	}
	return c
}

// A sessionCommit is a commit whose fate is not known yet. It stays on this machine.
type sessionCommit struct {
	Session  string    `json:"session"`
	ToolCall string    `json:"tool_call"`
	File     string    `json:"file"` // the transcript, without its folder
	Dir      string    `json:"dir"`
	Hash     string    `json:"hash"` // abbreviated
	From     time.Time `json:"from"` // when the command ran
	To       time.Time `json:"to"`
	Ended    time.Time `json:"ended"`        // when the session ended, as far as it was read
	Due      time.Time `json:"due,omitzero"` // when it is looked at again
}

// Ids of tool calls are unique within a session only.
func (c sessionCommit) key() string { return c.Session + "\n" + c.ToolCall }

const (
	// commitAge is how old a commit is when its fate is looked up: every one survives its
	// session.
	commitAge = 24 * time.Hour
	// maxCommitAge is how old it is when it is given up.
	maxCommitAge = 30 * 24 * time.Hour
	// maxCommits is how many commits a State has. The oldest are dropped.
	maxCommits = 1000
)

// sendCommits sends what became of the commits that are old enough. Commits are asked for by
// folder, since each repository is opened once.
func (r *run) sendCommits(ctx context.Context) error {
	now := time.Now()
	if r.now != nil {
		now = r.now()
	}
	byDir := map[string][]sessionCommit{}
	for _, c := range r.State.content.Commits {
		if now.Sub(c.To) >= commitAge && !now.Before(c.Due) {
			byDir[c.Dir] = append(byDir[c.Dir], c)
		}
	}
	done := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		asked := make([]localCommit, len(byDir[dir]))
		for i, c := range byDir[dir] {
			asked[i] = localCommit{Hash: c.Hash, From: c.From, To: c.To, Ended: c.Ended}
		}
		for i, fate := range fatesOf(ctx, dir, asked) {
			c := byDir[dir][i]
			if done[c.key()] = fate != fateUnknown || now.Sub(c.To) >= maxCommitAge; fate == fateUnknown {
				continue
			}
			err := r.add(ctx, outcomeRecord{
				base: newBase(outcomeKind, c.Session, c.To, source{Path: c.File + ".jsonl"}), OutcomeID: c.ToolCall,
				OccurredAt: c.To,
				Outcome:    commitSurvived, Passed: fate == fateSurvived,
			})
			if err != nil {
				return err
			}
		}
	}
	// Only what was pushed may be removed from the State.
	if err := r.push(ctx); err != nil || len(byDir) == 0 {
		return err
	}
	// Remove the commits that are done, by key, and puts the others that were looked at off
	// until a time.
	until := now.Add(commitAge)
	r.State.content.Commits = slices.DeleteFunc(r.State.content.Commits, func(c sessionCommit) bool { return done[c.key()] })
	for i, c := range r.State.content.Commits {
		if _, asked := done[c.key()]; asked {
			r.State.content.Commits[i].Due = until
		}
	}
	r.State.changed = true
	return nil
}
