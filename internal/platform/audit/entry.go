// Package audit keeps the audit log: who changed what, when and from where. Every
// operation that changes what a person decided writes an entry in its own
// transaction, so that both commit or neither. An organisation's administrators
// read the log. It owns the table audit_entries.
package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// An Entry is one change. The operation that makes it sets the first four fields;
// Record sets the others.
type Entry struct {
	OrgID  string
	Action string // capability.noun.verb, e.g. "registry.version.publish"
	Target Target
	// Detail describes the change. It must not contain secrets, URLs that are
	// secrets (webhooks), or text that people wrote to their agents.
	Detail Detail

	ID        string
	At        time.Time
	Actor     Actor
	ActorName string // the person's address at the time, or ""
	UserID    *string
	KeyID     *string
	Via       Via
	RequestID *string
}

// A Target is what was changed. It may have been deleted.
type Target struct {
	Kind, ID, Name string
}

// Detail has further fields of an entry, which depend on its action.
type Detail map[string]any

// An Actor is the kind of person or program that made a change.
type Actor string

// The actors.
const (
	User    Actor = "user"    // a person in a browser
	Key     Actor = "key"     // a program with an API key
	System  Actor = "system"  // the service itself: a job, a webhook of the code host
	Command Actor = "command" // the operator, with a command on the server
)

// Via is the interface through which a change was made.
type Via string

// The interfaces.
const (
	API Via = "api"
	Web Via = "web"
	CLI Via = "cli"
	Job Via = "job"
)

// By returns a context for changes that are made through an interface. The default
// is API within a request, and Job otherwise.
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

// Record writes an entry in the transaction of its change. The actor is the caller
// that the context carries.
func Record(ctx context.Context, tx *store.Tx, e Entry) (err error) {
	defer fault.Wrap(&err, "audit %s", e.Action)
	c := access.From(ctx)
	e.ID, e.At, e.Via = store.NewID(), store.Now(), via(ctx)
	e.ActorName, e.UserID, e.KeyID = c.Email, nullIfEmpty(c.UserID), nullIfEmpty(c.KeyID)
	e.Actor, e.RequestID = actor(c, e.Via), nullIfEmpty(httpapi.RequestID(ctx))
	detail, err := e.Detail.encode()
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO audit_entries (`+entryColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		e.ID, e.OrgID, store.Micros(e.At), e.Actor, e.ActorName, e.UserID, e.KeyID, e.Action,
		e.Target.Kind, e.Target.ID, e.Target.Name, detail, e.Via, e.RequestID)
	return err
}

// encode leaves out null: fields that the change left as they were.
func (d Detail) encode() (string, error) {
	set := map[string]json.RawMessage{}
	for name, value := range d {
		raw, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		if string(raw) != "null" {
			set[name] = raw
		}
	}
	raw, err := json.Marshal(set)
	return string(raw), err
}

// ActorOf returns the kind of actor that makes changes with a context.
func ActorOf(ctx context.Context) Actor { return actor(access.From(ctx), via(ctx)) }

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

func nullIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
