package repohost

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// A Delivery is a webhook request of the code host. It's stored before it is processed,
// so that none is lost.
type Delivery struct {
	ID             string
	Provider       host.Provider
	DeliveryID     string // assigned by the code host; unique per provider
	Event          string
	Action         string
	ContentType    string
	InstallationID int64
	RepoFullName   string
	Body           []byte
	Status         DeliveryStatus
	Attempts       int
	Detail         string
	ReceivedAt     time.Time
	FinishedAt     *time.Time
}

// A DeliveryStatus is the progress of a delivery.
type DeliveryStatus string

// The statuses of a delivery. Ignored means that its event concerns nothing here.
const (
	Received        DeliveryStatus = "received"
	Processing      DeliveryStatus = "processing"
	DeliveryDone    DeliveryStatus = "done"
	DeliveryFailed  DeliveryStatus = "failed"
	DeliveryIgnored DeliveryStatus = "ignored"
)

// finished reports whether nothing is left to do.
func (d Delivery) finished() bool { return d.Status != Received && d.Status != Processing }

// header rebuilds the HTTP headers that host.ParseEvent needs.
func (d Delivery) header() http.Header {
	h := http.Header{}
	h.Set(d.Provider.EventHeader(), d.Event)
	h.Set("Content-Type", d.ContentType)
	return h
}

// Incoming is a webhook request as received, not yet trusted.
type Incoming struct {
	Header http.Header
	Body   []byte
}

// verifier checks the deliveries of the code host.
func (s *Service) verifier() host.Verifier {
	return host.Verifier{Provider: s.Host.Provider(), Secrets: s.Secrets, SigningTokens: s.SigningTokens}
}

// maxHeader is the longest stored header, in bytes.
const maxHeader = 100

// Receive verifies a webhook's signature and stores the delivery together with the job
// that processes it. Deliveries are deduplicated by the code host's delivery id: a
// repeated one returns the stored delivery, and is processed again only if it had failed.
func (s *Service) Receive(ctx context.Context, in Incoming) (d Delivery, err error) {
	defer fault.Wrap(&err, "receive delivery")
	from := s.verifier()
	if err := from.Verify(in.Header, in.Body, time.Now()); err != nil {
		return d, err
	}
	event, id := in.Header.Get(from.Provider.EventHeader()), from.DeliveryID(in.Header)
	if event == "" || len(event) > maxHeader || id == "" || len(id) > maxHeader {
		return d, fault.New(fault.Malformed, "The delivery needs the header %s, and one with its id", from.Provider.EventHeader())
	}
	received := Delivery{
		ID: store.NewID(), Provider: from.Provider, DeliveryID: id, Event: event, ContentType: in.Header.Get("Content-Type"),
		Body: in.Body, Status: Received, ReceivedAt: store.Now(),
	}
	e, err := host.ParseEvent(received.header(), received.Body)
	if err != nil {
		return received, err
	}
	received.Action, received.InstallationID, received.RepoFullName = e.Action, e.Installation, e.Repository.FullName
	// Store ignored deliveries too: people look here for a webhook that did nothing.
	if !used(e) {
		received.Status, received.Detail, received.FinishedAt = DeliveryIgnored, nothingToDo, &received.ReceivedAt
	}
	// The job commits with the delivery, before the reply: the code host sends a delivery
	// once, and takes any 2xx as done.
	err = s.DB.InGroup(ctx, func(tx *store.Tx) error {
		d = received
		inserted, err := insertDelivery(ctx, tx, d)
		if err != nil {
			return err
		}
		if !inserted {
			d, err = lockDeliveryOfHost(ctx, tx, d.Provider, d.DeliveryID)
			if err != nil || d.Status != DeliveryFailed {
				return err
			}
			return s.requeue(ctx, tx, &d)
		}
		if d.finished() {
			return nil
		}
		return s.enqueueProcess(ctx, tx, d)
	})
	return d, err
}

// used reports whether an event has any effect here. Most events about checks and pull
// requests don't: labels, assignments, and what the server itself wrote.
func used(e host.Event) bool {
	switch e.Kind {
	case host.EventPush, host.EventInstallation, host.EventAccess, host.EventRepo:
		return true
	case host.EventPull:
		return slices.Contains(pullActions, e.Action)
	case host.EventReview:
		return slices.Contains(reviewActions, e.Action)
	case host.EventCheckRun, host.EventCheckSuite:
		return e.Rerun != nil
	case host.EventPing, host.EventOther:
	}
	return false
}

// nothingToDo is the detail of an ignored event.
const nothingToDo = "Nothing is done for this event"

// enqueueProcess enqueues the job of a delivery. A delivery may concern several
// organisations, so fairness goes by the account on the code host: a busy account can't
// delay the others.
func (s *Service) enqueueProcess(ctx context.Context, tx *store.Tx, d Delivery) error {
	account, _, _ := strings.Cut(d.RepoFullName, "/")
	return s.Jobs.Enqueue(ctx, tx, process{DeliveryID: d.ID}, jobs.Unique(d.ID), jobs.For("account "+account))
}

// requeue resets a delivery and enqueues its job again.
func (s *Service) requeue(ctx context.Context, tx *store.Tx, d *Delivery) error {
	d.Status, d.Detail, d.FinishedAt = Received, "", nil
	if err := updateDelivery(ctx, tx, *d); err != nil {
		return err
	}
	return s.enqueueProcess(ctx, tx, *d)
}

// Redeliver processes one of the organisation's deliveries again, whatever its status.
func (s *Service) Redeliver(ctx context.Context, orgID, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "redeliver %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if d, err = deliveryOfOrg(ctx, tx, orgID, id); err != nil {
			return err
		}
		if err := s.requeue(ctx, tx, &d); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "repohost.delivery.redeliver",
			Target: audit.Target{Kind: "delivery", ID: d.ID, Name: d.RepoFullName},
			Detail: audit.Detail{"event": d.Event},
		})
	})
	return d, err
}

// Deliveries returns a page of the deliveries that the organisation may see, newest
// first, and their total number.
func (s *Service) Deliveries(ctx context.Context, orgID string, p store.Page) ([]Delivery, int, error) {
	return listedDeliveries.Page(ctx, s.DB, p, orgID)
}

// processDelivery is the job of a delivery: it queues attempts for a push, or follows a
// change on the code host. It may run again for an unfinished delivery.
func (s *Service) processDelivery(ctx context.Context, id string) (err error) {
	defer fault.Wrap(&err, "delivery %s", id)
	d, err := deliveryByID(ctx, s.DB, id)
	if fault.Is(err, fault.NotFound) || err == nil && d.finished() {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := host.ParseEvent(d.header(), d.Body)
	if err != nil {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "The delivery is not understood")
	}
	d.Status, d.Attempts = Processing, d.Attempts+1
	if err := updateDelivery(ctx, s.DB, d); err != nil {
		return err
	}
	switch e.Kind {
	case host.EventPush:
		return s.queuePush(ctx, d, e)
	case host.EventInstallation:
		return s.installationChanged(ctx, d, e)
	case host.EventAccess:
		return s.accessChanged(ctx, d, e)
	case host.EventRepo:
		return s.repositoryChanged(ctx, d, e)
	case host.EventPull:
		return s.pullChanged(ctx, d, e)
	case host.EventReview:
		return s.reviewed(ctx, d, e)
	case host.EventCheckRun, host.EventCheckSuite:
		return s.rerun(ctx, d, e)
	case host.EventPing, host.EventOther:
	}
	return s.finishDelivery(ctx, d, DeliveryIgnored, nothingToDo)
}

// finishDelivery records the end of a delivery with a sentence for people.
func (s *Service) finishDelivery(ctx context.Context, d Delivery, status DeliveryStatus, detail string) error {
	at := store.Now()
	d.Status, d.Detail, d.FinishedAt = status, detail, &at
	return updateDelivery(ctx, s.DB, d)
}

// queuePush queues an attempt for every pushed ref that some connection publishes. The
// delivery is finished when they are (see closeDelivery).
func (s *Service) queuePush(ctx context.Context, d Delivery, e host.Event) error {
	// Gitea has no event for a rename or a new default branch, GitLab only for those who
	// ask for it, but every push reports both.
	if _, err := s.followRepository(ctx, e); err != nil {
		return err
	}
	connections, err := connectionsOfEvent(ctx, s.DB, e, "")
	if err != nil {
		return err
	}
	var attempts []publication.Attempt
	for _, c := range connections {
		for _, p := range e.Pushes {
			a, ok, err := s.attemptForPush(ctx, c, p)
			if err != nil {
				// All or nothing: attempts are queued only once every ref is resolved.
				if number, last := jobs.Attempt(ctx); number < last {
					return retryAfter(err, s.backoffAfter(number))
				}
				return s.finishDelivery(ctx, d, DeliveryFailed, userMessage(err))
			}
			if ok {
				a.DeliveryID = &d.ID
				attempts = append(attempts, a)
			}
		}
	}
	if len(attempts) == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection publishes what was pushed")
	}
	d.Detail = fmt.Sprintf("%d to publish", len(attempts))
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := updateDelivery(ctx, tx, d); err != nil {
			return err
		}
		return s.queueAttempts(ctx, tx, attempts)
	})
}

// attemptForPush returns the attempt that a push causes for a connection; ok is false if
// it causes none. Deleting a ref doesn't unpublish anything.
func (s *Service) attemptForPush(ctx context.Context, c Connection, p host.Push) (a publication.Attempt, ok bool, err error) {
	r, cause := publication.Ref{Kind: publication.Branch, Name: p.Branch()}, publication.ByPush
	if name := p.Tag(); name != "" {
		r, cause = publication.Ref{Kind: publication.Tag, Name: name}, publication.ByTag
	}
	if p.After == "" || r.Name == "" || !c.publishes(r) {
		return a, false, nil
	}
	a = newAttempt(c, r, p.Commit, cause)
	if a.Commit != "" {
		return a, true, nil
	}
	// For an annotated tag the push may have the tag object's SHA instead of the
	// commit's.
	repo, err := s.repoOf(ctx, c)
	if err != nil {
		return a, false, err
	}
	commit, err := s.Host.Resolve(ctx, repo, r.Full())
	if fault.Is(err, fault.NotFound) {
		return a, false, nil // deleted in the meantime
	}
	a.Commit = commit.SHA
	return a, err == nil, err
}

// queueAttempts queues attempts in order, and a publish job for each connection.
func (s *Service) queueAttempts(ctx context.Context, tx *store.Tx, attempts []publication.Attempt) error {
	for _, a := range attempts {
		if _, err := s.queueAttempt(ctx, tx, a); err != nil {
			return err
		}
		if err := s.enqueuePublish(ctx, tx, a.ConnectionID, a.OrgID); err != nil {
			return err
		}
	}
	return nil
}

// queueAttempt queues an attempt and returns its id. An attempt belongs to one delivery:
// if it was queued for another, that one may be finished by losing it.
func (s *Service) queueAttempt(ctx context.Context, tx *store.Tx, a publication.Attempt) (string, error) {
	before, err := publication.DeliveryWaitingFor(ctx, tx, a)
	if err != nil {
		return "", err
	}
	id, err := publication.Upsert(ctx, tx, a)
	if err != nil || before == "" || a.DeliveryID != nil && *a.DeliveryID == before {
		return id, err
	}
	return id, closeDelivery(ctx, tx, before)
}
