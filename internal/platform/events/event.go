// Package events tells other systems what happens in an organisation: signed
// webhooks, which its administrators set up. An event is written in the transaction
// that causes it, with a delivery for each webhook that wants it, and sent with
// retries: at least once, in no promised order. It owns the tables event_webhooks,
// event_records and event_deliveries.
package events

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Type is a kind of event.
type Type string

// The types.
const (
	VersionPublished  Type = "version.published"
	VersionCandidate  Type = "version.candidate"
	VersionRolledBack Type = "version.rolled_back"
	VersionWithdrawn  Type = "version.withdrawn"
	GateDecided       Type = "gate.decided"
	AlertFired        Type = "alert.fired"
	AlertResolved     Type = "alert.resolved"
	ProposalApplied   Type = "proposal.applied"
	MemberRemoved     Type = "member.removed"

	test Type = "test" // sent on request; not to be subscribed to
)

// Types returns the types that a webhook can want.
func Types() []Type {
	return []Type{
		VersionPublished, VersionCandidate, VersionRolledBack, VersionWithdrawn, GateDecided, AlertFired, AlertResolved,
		ProposalApplied, MemberRemoved,
	}
}

// Data has the fields of an event, which depend on its type. It must not contain
// secrets or text that people wrote to their agents: it is sent to third parties.
type Data map[string]any

// An Event is something that happened in an organisation.
type Event struct {
	OrgID string
	Type  Type
	Path  string // of the page about it, e.g. "/registry/ID"; "" for none
	Data  Data
}

// record is an event as it is stored.
type record struct {
	ID, OrgID  string
	Type       Type
	Path       string
	Data       json.RawMessage
	OccurredAt time.Time
}

// Emit writes an event in the transaction that causes it, with the jobs that deliver
// it. Where no webhook wants it, that is one query and nothing is written. Without a
// queue, e.g. in a command on the server, the server finds the deliveries later.
func Emit(ctx context.Context, tx *store.Tx, q *jobs.Queue, e Event) (err error) {
	defer fault.Wrap(&err, "event %s", e.Type)
	webhooks, err := subscribers(ctx, tx, e.OrgID, e.Type)
	if err != nil || len(webhooks) == 0 {
		return err
	}
	e.Data["actor"] = newActor(ctx)
	data, err := json.Marshal(e.Data)
	if err != nil {
		return err
	}
	r := record{ID: store.NewID(), OrgID: e.OrgID, Type: e.Type, Path: e.Path, Data: data, OccurredAt: store.Now()}
	_, err = tx.Exec(ctx, `INSERT INTO event_records (`+recordColumns+`) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.ID, r.OrgID, r.Type, r.Path, string(r.Data), store.Micros(r.OccurredAt))
	if err != nil {
		return err
	}
	for _, id := range webhooks {
		if err := enqueue(ctx, tx, q, newDelivery(r, id)); err != nil {
			return err
		}
	}
	return nil
}

// enqueue writes a delivery and the job that sends it.
func enqueue(ctx context.Context, tx *store.Tx, q *jobs.Queue, d Delivery) error {
	if d.queued = q != nil; !d.queued {
		return deliveries.Insert(ctx, tx, d)
	}
	return deliveries.Enqueue(ctx, tx, q, d)
}

// actor is who caused an event.
type actor struct {
	Kind   audit.Actor `json:"kind"`
	UserID string      `json:"user_id,omitempty"`
	Email  string      `json:"email,omitempty"`
}

func newActor(ctx context.Context) actor {
	c := access.From(ctx)
	return actor{audit.ActorOf(ctx), c.UserID, c.Email}
}

// body is what is sent.
type body struct {
	ID             string          `json:"id"`
	Type           Type            `json:"type"`
	Timestamp      string          `json:"timestamp"`
	OrganisationID string          `json:"organisation_id"`
	URL            string          `json:"url"`
	Data           json.RawMessage `json:"data"`
}

func (s *Service) body(r record) ([]byte, error) {
	b := body{
		ID: r.ID, Type: r.Type, Timestamp: r.OccurredAt.UTC().Format("2006-01-02T15:04:05.000Z"), OrganisationID: r.OrgID,
		URL: s.PublicURL + r.Path, Data: r.Data,
	}
	return json.Marshal(b)
}

// inOrder returns the types in the order of Types, each once.
func inOrder(types []Type) []Type {
	return slices.DeleteFunc(Types(), func(t Type) bool { return !slices.Contains(types, t) })
}
