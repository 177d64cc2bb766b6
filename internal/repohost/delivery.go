package repohost

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Delivery is what the code host sent, kept before anything is done with it.
type Delivery struct {
	ID             string
	Provider       host.Provider
	DeliveryID     string
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

// A DeliveryStatus is how far a delivery has come.
type DeliveryStatus string

// The statuses of a delivery.
const (
	Received        DeliveryStatus = "received"
	Processing      DeliveryStatus = "processing"
	DeliveryDone    DeliveryStatus = "done"
	DeliveryFailed  DeliveryStatus = "failed"
	DeliveryIgnored DeliveryStatus = "ignored"
)

func (d Delivery) finished() bool { return d.Status != Received && d.Status != Processing }

// header is what the parser wants to know of the request.
func (d Delivery) header() http.Header {
	h := http.Header{}
	h.Set(host.EventHeader, d.Event)
	h.Set("Content-Type", d.ContentType)
	return h
}

// Incoming is a delivery as it arrives.
type Incoming struct {
	Signature, Event, DeliveryID, ContentType string
	Body                                      []byte
}

// Receive checks a delivery's signature and keeps it; a job does the rest. One
// that was done is not done again, one that failed is.
func (s *Service) Receive(ctx context.Context, in Incoming) (d Delivery, err error) {
	defer fault.Wrap(&err, "receive delivery")
	header := http.Header{}
	header.Set(host.SignatureHeader, in.Signature)
	if err := host.Verify(s.Secrets, header, in.Body); err != nil {
		return d, err
	}
	if in.Event == "" || len(in.Event) > 100 || in.DeliveryID == "" || len(in.DeliveryID) > 100 {
		return d, fault.New(fault.Malformed, "The delivery needs the headers %s and %s", host.EventHeader, host.DeliveryHeader)
	}
	d = Delivery{
		ID: store.NewID(), Provider: s.Host.Provider(), DeliveryID: in.DeliveryID, Event: in.Event, ContentType: in.ContentType,
		Body: in.Body, Status: Received, ReceivedAt: store.Now(),
	}
	e, err := host.ParseEvent(d.header(), d.Body)
	if err != nil {
		return d, err
	}
	d.Action, d.InstallationID, d.RepoFullName = e.Action, e.Installation, e.Repository.FullName
	if e.Kind == host.EventPing || e.Kind == host.EventOther {
		d.Status, d.Detail, d.FinishedAt = DeliveryIgnored, "Nothing is done for this event", &d.ReceivedAt
	}
	return s.keep(ctx, d)
}

// keep stores a delivery with the job that handles it, unless it is known.
func (s *Service) keep(ctx context.Context, d Delivery) (kept Delivery, err error) {
	err = s.DB.InGroup(ctx, func(tx *store.Tx) error {
		kept = d
		fresh, err := insertDelivery(ctx, tx, d)
		if err != nil {
			return err
		}
		if !fresh {
			if kept, err = deliveryOfHost(ctx, tx, d.Provider, d.DeliveryID); err != nil || kept.Status != DeliveryFailed {
				return err
			}
			return s.again(ctx, tx, &kept)
		}
		if kept.finished() {
			return nil
		}
		return s.enqueueProcess(ctx, tx, kept.ID)
	})
	return kept, err
}

func (s *Service) enqueueProcess(ctx context.Context, tx *store.Tx, id string) error {
	return s.Jobs.Enqueue(ctx, tx, process{DeliveryID: id}, jobs.Unique(id))
}

// again makes a delivery be handled once more.
func (s *Service) again(ctx context.Context, tx *store.Tx, d *Delivery) error {
	d.Status, d.Detail, d.FinishedAt = Received, "", nil
	if err := updateDelivery(ctx, tx, *d); err != nil {
		return err
	}
	return s.enqueueProcess(ctx, tx, d.ID)
}

// Redeliver handles a delivery of the organisation once more, whatever came of
// it before.
func (s *Service) Redeliver(ctx context.Context, orgID, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "redeliver %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if d, err = deliveryOfOrg(ctx, tx, orgID, id); err != nil {
			return err
		}
		if err := s.again(ctx, tx, &d); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "repohost.delivery.redeliver", Target: audit.Target{Kind: "delivery", ID: d.ID, Name: d.RepoFullName},
			Detail: audit.Detail{"event": d.Event},
		})
	})
	return d, err
}

// Deliveries lists a page of the deliveries that concern the organisation,
// newest first, and their number.
func (s *Service) Deliveries(ctx context.Context, orgID string, limit, offset int) ([]Delivery, int, error) {
	return deliveriesOfOrg(ctx, s.DB, orgID, limit, offset)
}

// process handles a delivery: it queues what is to be published, or changes
// what is known of installations and repositories.
func (s *Service) process(ctx context.Context, id string) (err error) {
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
		return s.finish(ctx, d, DeliveryIgnored, "The delivery is not understood")
	}
	d.Status, d.Attempts = Processing, d.Attempts+1
	if err := updateDelivery(ctx, s.DB, d); err != nil {
		return err
	}
	switch e.Kind {
	case host.EventPush:
		return s.pushed(ctx, d, e)
	case host.EventInstallation:
		return s.installationChanged(ctx, d, e)
	case host.EventAccess:
		return s.accessChanged(ctx, d, e)
	case host.EventRepo:
		return s.repositoryChanged(ctx, d, e)
	case host.EventPing, host.EventOther:
	}
	return s.finish(ctx, d, DeliveryIgnored, "Nothing is done for this event")
}

func (s *Service) finish(ctx context.Context, d Delivery, status DeliveryStatus, detail string) error {
	at := store.Now()
	d.Status, d.Detail, d.FinishedAt = status, detail, &at
	return updateDelivery(ctx, s.DB, d)
}

// pushed queues every ref of a push that a connection wants.
func (s *Service) pushed(ctx context.Context, d Delivery, e host.Event) error {
	connections, err := connectionsOfEvent(ctx, s.DB, e)
	if err != nil {
		return err
	}
	var attempts []Attempt
	for _, c := range connections {
		for _, p := range e.Pushes {
			a, ok, err := s.wanted(ctx, c, p)
			if err != nil {
				return s.unprocessed(ctx, d, err)
			}
			if ok {
				a.DeliveryID = &d.ID
				attempts = append(attempts, a)
			}
		}
	}
	if len(attempts) == 0 {
		return s.finish(ctx, d, DeliveryIgnored, "No connection publishes what was pushed")
	}
	d.Detail = fmt.Sprintf("%d to publish", len(attempts))
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := updateDelivery(ctx, tx, d); err != nil {
			return err
		}
		return s.queue(ctx, tx, attempts)
	})
}

// wanted is what a connection is to publish of a push, if anything. A deleted
// ref unpublishes nothing.
func (s *Service) wanted(ctx context.Context, c Connection, p host.Push) (a Attempt, ok bool, err error) {
	r, cause := ref{branch, p.Branch()}, ByPush
	if name := p.Tag(); name != "" {
		r, cause = ref{tag, name}, ByTag
	}
	if p.After == "" || r.name == "" || !c.wants(r) {
		return a, false, nil
	}
	a = Attempt{OrgID: c.OrgID, ConnectionID: c.ID, RefKind: r.kind, RefName: r.name, Commit: p.Commit, Cause: cause}
	if a.Commit != "" {
		return a, true, nil
	}
	repo, err := s.repo(ctx, c)
	if err != nil {
		return a, false, err
	}
	commit, err := s.Host.Resolve(ctx, repo, r.full())
	if fault.Is(err, fault.NotFound) {
		return a, false, nil // deleted since
	}
	a.Commit = commit.SHA
	return a, err == nil, err
}

// repo is a connection's repository as its installation sees it.
func (s *Service) repo(ctx context.Context, c Connection) (host.Repo, error) {
	i, err := s.installation(ctx, c.OrgID, c.InstallationID)
	return host.Repo{Installation: i.host(), FullName: c.RepoFullName}, err
}

// unprocessed lets a delivery be handled again later, or fail when that has
// been tried often enough.
func (s *Service) unprocessed(ctx context.Context, d Delivery, cause error) error {
	if number, last := jobs.Attempt(ctx); number < last {
		return retryLater(cause, s.pause(number))
	}
	return s.finish(ctx, d, DeliveryFailed, shown(cause))
}

// queue makes attempts wait, in their order, with a job for each connection.
func (s *Service) queue(ctx context.Context, tx *store.Tx, attempts []Attempt) error {
	for _, a := range attempts {
		if _, err := s.queueOne(ctx, tx, a); err != nil {
			return err
		}
		if err := s.Jobs.Enqueue(ctx, tx, publish{ConnectionID: a.ConnectionID}, jobs.Unique(a.ConnectionID), jobs.Attempts(maxRuns)); err != nil {
			return err
		}
	}
	return nil
}

// queueOne makes an attempt wait and returns its id. If it was waiting for
// another delivery, that one is over.
func (s *Service) queueOne(ctx context.Context, tx *store.Tx, a Attempt) (string, error) {
	before, err := deliveryOfAttempt(ctx, tx, a)
	if err != nil {
		return "", err
	}
	id, err := queueAttempt(ctx, tx, a)
	if err != nil || before == "" || a.DeliveryID != nil && *a.DeliveryID == before {
		return id, err
	}
	return id, settleDelivery(ctx, tx, before)
}
