package members

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Mailer sends mails, if a mail server is configured.
type Mailer interface {
	MailConfigured() bool
	SendMail(ctx context.Context, m notify.Mail) notify.Result
}

// The most mails in a day. Invitations beyond them are made, but not sent: nobody should
// be able to fill a stranger's mailbox with the operator's mail server.
const (
	maxToAddress = 3
	maxOfOrg     = 500
)

// lease is how long one attempt can take, the wait for the rate limit included. A second
// run of the job waits for its end. It is longer than the job's timeout, so it only matters after a
// crash.
const lease = 2 * time.Minute

// mailJob is the job that sends the link of an invitation.
type mailJob struct {
	OrgID        string `json:"org_id"`
	InvitationID string `json:"invitation_id"`
}

// Kind names the job.
func (mailJob) Kind() string { return "members.mail" }

// Register makes the queue run the jobs of invitations.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args mailJob) error { return s.sendMail(ctx, args.OrgID, args.InvitationID) },
		jobs.Timeout(time.Minute))
}

// tokenOf is the token of an invitation that is sent by mail: the job makes it anew, so
// that it need not be stored. It is derived from the id by a keyed hash, so nobody without the
// secret can compute it, and the link in a repeated mail is the same.
func (s *Service) tokenOf(id string) string {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte("whetstone invitation " + id))
	digits := new(big.Int).SetBytes(mac.Sum(nil)).Text(62) // at most 43
	return prefix + strings.Repeat("0", tokenLength-len(digits)) + digits
}

// SendsMail reports whether the links of invitations that have an address are sent.
func (s *Service) SendsMail() bool { return s.Mailer != nil && s.Mailer.MailConfigured() }

// enqueueMail enqueues the mail of a new invitation, unless there were too many today. The limits
// count mails and not invitations.
func (s *Service) enqueueMail(ctx context.Context, tx *store.Tx, i Invitation) (*delivery.Progress, error) {
	all, toAddress, err := countLetters(ctx, tx, i.OrgID, *i.Email, i.CreatedAt.Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	l := letter{invitationID: i.ID, orgID: i.OrgID, createdAt: i.CreatedAt, Progress: delivery.Progress{Status: delivery.Pending}}
	if all >= maxOfOrg || toAddress >= maxToAddress {
		l.Progress = l.Abandoned("not sent: there were too many invitations by mail today; send the link yourself")
		return &l.Progress, insertLetter(ctx, tx, l)
	}
	if err := insertLetter(ctx, tx, l); err != nil {
		return nil, err
	}
	return &l.Progress, s.Jobs.Enqueue(ctx, tx, mailJob{i.OrgID, i.ID}, jobs.Attempts(delivery.MaxRuns), jobs.For(i.OrgID))
}

// sendMail makes one attempt to send the link when it is due. A crash between sending and
// recording repeats the attempt, with the same Message-ID. Many mail programs show two mails with
// one Message-ID once.
func (s *Service) sendMail(ctx context.Context, orgID, id string) error {
	l, err := s.leaseLetter(ctx, orgID, id)
	if fault.Is(err, fault.NotFound) || err == nil && !l.Open() {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := postOf(ctx, s.DB, orgID, id)
	if err != nil {
		return err
	}
	token := s.tokenOf(id)
	l.leasedUntil = nil
	// The world may have changed since the job was enqueued.
	switch {
	case p.State() != Pending:
		l.Progress = l.Abandoned("not sent: the invitation was " + p.State())
		return updateLetter(ctx, s.DB, l)
	case hash(token) != p.hash: // a restored database with another secret
		l.Progress = l.Abandoned("not sent: the link is not known any more; make a new invitation")
		return updateLetter(ctx, s.DB, l)
	}
	result := s.Mailer.SendMail(ctx, notify.Mail{
		ID: id, To: *p.Email, Subject: "Invitation to " + p.OrgName + " on Whetstone", Text: p.text(s.Link(token)),
		Secrets: []string{token},
	})
	ctx = context.WithoutCancel(ctx) // what was sent is recorded
	// The rate limit of the mail server is everyone's, so waiting for it doesn't use up an attempt.
	if result.Throttled { // not an attempt
		if err := updateLetter(ctx, s.DB, l); err != nil {
			return err
		}
		return jobs.Snooze(result.RetryAfter)
	}
	l.Progress = l.After(result, s.backoff())
	if err := updateLetter(ctx, s.DB, l); err != nil {
		return err
	}
	return l.Again()
}

// leaseLetter takes the mail for this run of the job; another run sends nothing until the
// lease ends. The lease is in the row and not in memory, as the run may be on another replica.
func (s *Service) leaseLetter(ctx context.Context, orgID, id string) (l letter, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if l, err = letterOf(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil || !l.Open() {
			return err
		}
		if early := l.Early(); early > 0 {
			return jobs.Snooze(early)
		}
		now := store.Now()
		if l.leasedUntil != nil && l.leasedUntil.After(now) {
			return jobs.Snooze(l.leasedUntil.Sub(now))
		}
		until := now.Add(lease)
		l.leasedUntil = &until
		return updateLetter(ctx, tx, l)
	})
	return l, err
}

func (s *Service) backoff() delivery.Backoff {
	if s.testBackoff != nil {
		return s.testBackoff
	}
	return delivery.DefaultBackoff()
}

// text is the mail. It has no name that somebody chose for themselves, which could say
// anything to a stranger.
func (p post) text(link string) string {
	by := "You are invited"
	if p.inviter != "" {
		by = p.inviter + " invites you"
	}
	return fmt.Sprintf(`%s to join %s on Whetstone with the role %s.

Open this link to accept:

%s

It works once, until %s. If you did not expect this mail, ignore it: nothing happens unless you accept.
`, by, p.OrgName, p.Role, link, p.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
}
