package transcripts

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// An Import sends what a folder of transcripts tells to a server.
type Import struct {
	// Dir is the folder; all transcripts in it and below are meant.
	Dir string
	// Since leaves out transcripts that were not written to after it.
	Since time.Time
	// Prompts says whether the texts of the prompts are sent.
	Prompts bool
	// Owner names the server's user, in whatever form: the ids of pushes are
	// made from it.
	Owner string
	// Version is that of the program.
	Version string
	// Push hands a body to the server, and returns when that has it. Without
	// it the import is a rehearsal: all is read, and nothing is remembered.
	Push func(ctx context.Context, body []byte) (Receipt, error)
	// State remembers what was sent. Without Push it may be nil.
	State *State
	// Progress, when set, is told how far the import has come.
	Progress func(s Summary)
}

// A Receipt is what the server made of a push.
type Receipt struct {
	Duplicate bool
	Rejected  []string // what is wrong with records that it did not take
}

// A Summary is what came of an import.
type Summary struct {
	Files      int `json:"files"` // found in the folder
	Read       int `json:"files_read"`
	Unchanged  int `json:"files_unchanged"`
	Old        int `json:"files_too_old"`
	Unreadable int `json:"files_unreadable"`

	Records    Counts `json:"records"` // that the server has got, or would get
	Pushes     int    `json:"pushes"`
	Duplicates int    `json:"duplicate_pushes"` // that the server had already
	Rejected   int    `json:"rejected"`         // records that the server did not take

	Malformed int `json:"malformed_lines"`
	// Problems name the first of what could not be read or was rejected.
	Problems []Problem `json:"problems"`
}

// Counts are numbers of records.
type Counts struct {
	Sessions    int `json:"sessions"`
	Prompts     int `json:"prompts"`
	Invocations int `json:"skill_invocations"`
	Facts       int `json:"execution_facts"`
}

// Total is how many records that are.
func (c Counts) Total() int { return c.Sessions + c.Prompts + c.Invocations + c.Facts }

func (c *Counts) add(b batch) {
	c.Sessions += len(b.records[sessionKind])
	c.Prompts += len(b.records[promptKind])
	c.Invocations += len(b.records[invocationKind])
	c.Facts += len(b.records[factKind])
}

// maxProblems bounds what is kept of a folder full of something else.
const maxProblems = 20

// Run imports all that the state does not have yet. When it ends early, by an
// error of Push or the end of ctx, what the server has is remembered.
func (i *Import) Run(ctx context.Context) (s Summary, err error) {
	r := &run{Import: i, summary: Summary{Problems: []Problem{}}}
	err = r.all(ctx)
	if i.Push != nil {
		err = errors.Join(err, i.State.save())
	}
	return r.summary, err
}

// A run is an Import on its way.
type run struct {
	*Import
	summary Summary
	batch   batch
	// complete are the files whose records are all in the batch or pushed.
	complete map[string]progress
}

func (r *run) all(ctx context.Context) error {
	root, err := resolve(r.Dir)
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
		r.State.forget(root, files)
	}
	r.complete = map[string]progress{}
	for _, f := range files {
		if err := r.one(ctx, f); err != nil {
			return err
		}
		r.report()
	}
	return r.push(ctx)
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

// one imports one file, unless there is nothing new in it.
func (r *run) one(ctx context.Context, f found) error {
	var from point
	switch {
	case f.info.ModTime().Before(r.Since):
		r.summary.Old++
		return nil
	case r.Push == nil:
	case r.State.has(f, r.Prompts):
		r.summary.Unchanged++
		return nil
	default:
		from = r.State.from(f.path, r.Prompts)
	}
	content, err := os.Open(f.path)
	if err != nil {
		r.unreadable(f.path, err.Error())
		return nil
	}
	defer func() { _ = content.Close() }() // it was only read
	p, err := r.read(ctx, f.path, content, from)
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

// read reads a file as it is now; it may grow meanwhile.
func (r *run) read(ctx context.Context, path string, content *os.File, from point) (progress, error) {
	info, err := content.Stat()
	if err != nil {
		return progress{}, err
	}
	reading := reading{
		file: newFile(path), withText: r.Prompts,
		emit: func(record record) error { return r.add(ctx, record) },
		problem: func(p Problem) {
			r.summary.Malformed++
			r.note(p)
		},
	}
	next, err := reading.read(ctx, content, info.Size(), from)
	return progress{Size: info.Size(), ModTime: info.ModTime(), Point: next, Prompts: r.Prompts}, err
}

// add puts a record into the batch, which is pushed when it is full.
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
	if r.batch.full() {
		return r.push(ctx)
	}
	return nil
}

// push sends the batch, and then remembers the files that are complete.
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
		r.State.set(path, p)
	}
	clear(r.complete)
	r.report()
	return r.State.saveSoon()
}

func (r *run) send(ctx context.Context) error {
	body, err := r.batch.body(r.Owner, r.Version)
	if err != nil {
		return err
	}
	receipt, err := r.Push(ctx, body)
	if err != nil {
		return err
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
