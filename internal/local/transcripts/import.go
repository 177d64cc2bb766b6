package transcripts

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// An Import pushes the records of a folder of transcripts to a server.
type Import struct {
	// Dir is the folder; subfolders are included.
	Dir string
	// Since skips transcripts that were last written before it.
	Since time.Time
	// Prompts reports whether the texts of prompts are sent.
	Prompts bool
	// Content reports whether what was said is sent: prompts, answers, and what goes
	// into tools and comes out of them.
	Content bool
	// Owner identifies the user at the server. It is part of the idempotency
	// keys of pushes.
	Owner string
	// Version is that of the program.
	Version string
	// Push sends a body to the server. If it is nil, the import is a dry run: all
	// is read, and no progress is saved. It is not retried here: an error ends the run, and the
	// next run goes on from the State.
	Push func(ctx context.Context, body []byte) (Receipt, error)
	// State has the progress of earlier imports. It may be nil in a dry run.
	State *State
	// Progress, if not nil, is called after every file and push.
	Progress func(s Summary)

	now func() time.Time // a fake clock in tests, else nil
}

// A Receipt is the server's response to a push.
type Receipt struct {
	Duplicate bool
	Rejected  []string // the messages of rejected records
	// Dropped is why the server did not keep what was said; "" if it did.
	Dropped string
}

// A Summary is the outcome of an import.
type Summary struct {
	Files      int `json:"files"` // found in the folder
	Read       int `json:"files_read"`
	Unchanged  int `json:"files_unchanged"`
	Old        int `json:"files_too_old"`
	Unreadable int `json:"files_unreadable"`

	Records    Counts `json:"records"` // pushed, or to be pushed in a dry run
	Pushes     int    `json:"pushes"`
	Duplicates int    `json:"duplicate_pushes"` // of those, known to the server
	Rejected   int    `json:"rejected"`         // records, by the server

	Malformed int `json:"malformed_lines"`
	// Problems are the first files, lines and records that failed.
	Problems []Problem `json:"problems"`
}

// Counts are numbers of records by kind.
type Counts struct {
	Sessions    int `json:"sessions"`
	Prompts     int `json:"prompts"`
	Invocations int `json:"skill_invocations"`
	Facts       int `json:"execution_facts"`
	Requests    int `json:"model_requests"`
	Offers      int `json:"skill_offers"`
	ToolCalls   int `json:"tool_calls"`
	Outcomes    int `json:"outcomes"`
	Transcripts int `json:"transcripts,omitempty"` // what was said in the others
}

// Total is the number of all records.
func (c Counts) Total() int {
	return c.Sessions + c.Prompts + c.Invocations + c.Facts + c.Requests + c.Offers + c.ToolCalls + c.Outcomes + c.Transcripts
}

func (c *Counts) add(b batch) {
	c.Sessions += len(b.records[sessionKind])
	c.Prompts += len(b.records[promptKind])
	c.Invocations += len(b.records[invocationKind])
	c.Facts += len(b.records[factKind])
	c.Requests += len(b.records[requestKind])
	c.Offers += len(b.records[offerKind])
	c.ToolCalls += len(b.records[toolCallKind])
	c.Outcomes += len(b.records[outcomeKind])
	c.Transcripts += len(b.records[transcriptKind])
}

// maxProblems bounds the list for a folder of other files.
const maxProblems = 20

// Run imports what the state does not have yet. If it fails or is cancelled, the
// progress so far is saved.
func (i *Import) Run(ctx context.Context) (s Summary, err error) {
	r := &run{Import: i, summary: Summary{Problems: []Problem{}}}
	err = r.all(ctx)
	if i.Push != nil {
		err = errors.Join(err, i.State.save())
	}
	return r.summary, err
}

// A run is an Import in progress. It works on one file at a time, so memory does not grow with
// their number.
type run struct {
	*Import
	summary Summary
	batch   batch
	// complete has the files whose records are all in the batch or pushed. Their
	// progress is saved after the push. A file is in several pushes if it is large; it counts
	// as sent after the last one.
	complete map[string]progress
}

// Transcripts come before commits, whose fate needs the end of their session.
func (r *run) all(ctx context.Context) error {
	// The keys of the State are absolute paths without symbolic links: one file
	// has one key, however the folder was named.
	root, err := filepath.EvalSymlinks(r.Dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "%s does not exist; name the folder with the transcripts", r.Dir)
	}
	if err != nil {
		return err
	}
	files, unreadable, err := find(root)
	if err != nil {
		return err
	}
	r.summary.Files = len(files) + len(unreadable)
	for _, path := range unreadable {
		r.unreadable(path, "cannot be read")
	}
	if r.Push != nil {
		r.State.prune(root, files)
	}
	r.complete = map[string]progress{}
	for _, f := range files {
		if err := r.importFile(ctx, f); err != nil {
			return err
		}
		r.report()
	}
	if r.Push == nil {
		return r.push(ctx)
	}
	return r.sendCommits(ctx)
}

func (r *run) report() {
	if r.Progress != nil {
		r.Progress(r.summary)
	}
}

func (r *run) unreadable(path, message string) {
	r.summary.Unreadable++
	r.note(Problem{File: path, Message: message})
}

func (r *run) note(p Problem) {
	if len(r.summary.Problems) < maxProblems {
		r.summary.Problems = append(r.summary.Problems, p)
	}
}

// importFile imports a file, unless there is nothing new in it. What is wrong with one file is
// noted, and doesn't end the import.
func (r *run) importFile(ctx context.Context, f candidate) error {
	var from checkpoint
	switch {
	case f.info.ModTime().Before(r.Since):
		r.summary.Old++
		return nil
	// A dry run reads everything, whatever was sent.
	case r.Push == nil:
	case r.State.upToDate(f, r.Prompts, r.Content):
		r.summary.Unchanged++
		return nil
	default:
		from = r.State.checkpoint(f.path, r.Prompts, r.Content)
	}
	content, err := os.Open(f.path)
	if err != nil {
		r.unreadable(f.path, err.Error())
		return nil
	}
	defer func() { _ = content.Close() }() // it was only read
	p, err := r.scan(ctx, f.path, content, from)
	if e, ok := errors.AsType[unreadableError](err); ok {
		r.unreadable(f.path, e.Error())
		return nil
	}
	if err != nil {
		return err
	}
	r.summary.Read++
	r.complete[f.path] = p
	return nil
}

// scan reads a file up to its present size; the agent may append to it meanwhile. A line that
// is written right now is left to the next import.
func (r *run) scan(ctx context.Context, path string, content *os.File, from checkpoint) (progress, error) {
	info, err := content.Stat()
	if err != nil {
		return progress{}, err
	}
	f := newFile(path)
	f.content = r.Content
	s := scanner{
		file: f, withText: r.Prompts,
		emit: func(record record) error { return r.add(ctx, record) },
		problem: func(p Problem) {
			r.summary.Malformed++
			r.note(p)
		},
	}
	if r.Push != nil {
		s.state = r.State
	}
	next, err := s.scan(ctx, content, info.Size(), from)
	return progress{Size: info.Size(), ModTime: info.ModTime(), Checkpoint: next, Prompts: r.Prompts, Content: r.Content}, err
}

// add adds a record to the batch, and pushes the batch when it is full.
func (r *run) add(ctx context.Context, record record) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if r.batch.bytes+len(raw) > maxBytes {
		if err := r.push(ctx); err != nil {
			return err
		}
	}
	r.batch.add(record.kind(), raw)
	if r.batch.count >= maxRecords || r.batch.bytes >= maxBytes {
		return r.push(ctx)
	}
	return nil
}

// push sends the batch, then saves the progress of the complete files: a crash
// in between repeats a push, which the server deduplicates.
func (r *run) push(ctx context.Context) error {
	if r.Push != nil && r.batch.count > 0 {
		if err := r.send(ctx); err != nil {
			return err
		}
	}
	r.summary.Records.add(r.batch)
	r.batch = batch{}
	if r.Push == nil {
		return nil
	}
	for path, p := range r.complete {
		r.State.content.Files[path] = p
		r.State.changed = true
	}
	clear(r.complete)
	r.report()
	if time.Since(r.State.saved) < saveInterval {
		return nil
	}
	return r.State.save()
}

// Records that the server rejects are noted, and never sent again: they would be rejected
// again.
func (r *run) send(ctx context.Context) error {
	body, err := r.batch.body(r.Owner, r.Version)
	if err != nil {
		return err
	}
	receipt, err := r.Push(ctx, body)
	if err != nil {
		return err
	}
	if receipt.Dropped != "" { // nothing of the push counts as sent
		return fault.New(fault.Conflict, "%s", receipt.Dropped)
	}
	r.summary.Pushes++
	if receipt.Duplicate {
		r.summary.Duplicates++
	}
	r.summary.Rejected += len(receipt.Rejected)
	for _, message := range receipt.Rejected {
		r.note(Problem{Message: message})
	}
	return nil
}
