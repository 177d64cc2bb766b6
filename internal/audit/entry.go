// Package audit keeps the record of who changed what, when and from where.
// Every operation that changes something a person decided writes an entry in
// its own transaction, so that the two stand or fall together; an
// organisation's administrators read them. It owns the table audit_entries.
package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Entry says what was done to what. The operation that does it fills in
// the first four fields; Record knows the rest.
type Entry struct {
	OrgID  string
	Action string // capability.noun.verb, like registry.version.publish
	Target Target
	// Detail says more in a few words. It holds no secret, no address that is
	// one, and nothing that people wrote to their agents.
	Detail Detail

	ID        string
	At        time.Time
	Actor     Actor
	ActorName string // the person's address at that time, or ""
	UserID    *string
	KeyID     *string
	Via       Via
	RequestID *string
}

// A Target is what was changed. Its id may be the only thing left of it.
type Target struct {
	Kind, ID, Name string
}

// Detail is what an entry says beside its action.
type Detail map[string]any

// An Actor is the kind of who changed something.
type Actor string

// The actors.
const (
	User    Actor = "user"    // a person in a browser
	Key     Actor = "key"     // a program with somebody's API key
	System  Actor = "system"  // the service itself: a job, a code host's delivery
	Command Actor = "command" // somebody on the server with its database at hand
)

// Via is the way by which a change came in.
type Via string

// The ways.
const (
	API Via = "api"
	Web Via = "web"
	CLI Via = "cli"
	Job Via = "job"
)

// By returns a context whose changes came in that way. Without it a request is
// one of the API, and what no request asked for is a job.
func By(ctx context.Context, v Via) context.Context {
	return context.WithValue(ctx, viaKey{}, v)
}

type viaKey struct{}

func via(ctx context.Context) Via {
	if v, ok := ctx.Value(viaKey{}).(Via); ok {
		return v
	}
	if httpapi.RequestID(ctx) != "" {
		return API
	}
	return Job
}

// Record writes an entry in the transaction of the change that it tells of. Who
// did it is the caller that the context carries.
func Record(ctx context.Context, tx *store.Tx, e Entry) (err error) {
	defer fault.Wrap(&err, "audit %s", e.Action)
	c := access.From(ctx)
	e.ID, e.At, e.Via = store.NewID(), store.Now(), via(ctx)
	e.ActorName, e.UserID, e.KeyID = c.Email, given(c.UserID), given(c.KeyID)
	e.Actor, e.RequestID = actor(c, e.Via), given(httpapi.RequestID(ctx))
	detail, err := e.Detail.encode()
	if err != nil {
		return err
	}
	return insertEntry(ctx, tx, e, detail)
}

// encode leaves out what is null: a change that left something as it was says
// nothing of it.
func (d Detail) encode() (string, error) {
	given := map[string]json.RawMessage{}
	for name, value := range d {
		raw, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		if string(raw) != "null" {
			given[name] = raw
		}
	}
	raw, err := json.Marshal(given)
	return string(raw), err
}

func actor(c access.Caller, v Via) Actor {
	switch {
	case v == CLI:
		return Command
	case c.UserID == "":
		return System
	case v == Web || c.KeyID == "":
		return User
	}
	return Key
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
