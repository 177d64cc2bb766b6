// Package notify sends notices about alerts to Slack, Discord, mail addresses
// and webhooks. It formats a notice for its channel, makes one delivery attempt
// and reports whether to retry. Storing deliveries and retrying them with
// backoff is up to the caller. It owns no tables.
package notify

import (
	"context"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// A Channel is a way to reach people.
type Channel string

// The channels.
const (
	ChatA   Channel = "chat_a" // Slack
	ChatB   Channel = "chat_b" // Discord
	Email   Channel = "email"
	Webhook Channel = "webhook"
)

// A Status is what a notice reports.
type Status string

// The statuses. To a webhook a reminder is one more firing notice with a
// higher sequence.
const (
	Firing   Status = "firing"
	Resolved Status = "resolved"
	Reminder Status = "reminder"
	Test     Status = "test"
)

// A Type is the condition of an alert.
type Type string

// The types.
const (
	PassRateBelow     Type = "pass_rate_below"
	NoData            Type = "no_data"
	WorseThanPrevious Type = "worse_than_previous"
	CostAbove         Type = "cost_above"
	SilentFall        Type = "silent_fall"
)

// A Notice is the content of a message. It must not contain prompts or names of
// users: it is sent to third parties.
type Notice struct {
	// ID is the same for each attempt to send this notice, so that a receiver
	// can deduplicate: 1 to 100 letters, digits, hyphens and underscores.
	ID string
	// EpisodeID is the ID of the first notice of the same incident, or empty.
	// Mails of one episode form a thread.
	EpisodeID string

	Status  Status
	Type    Type
	AlertID string
	SkillID string
	Skill   string // name; empty means all skills

	Threshold  float64     // in the unit of the type
	PassRate   *float64    // for PassRateBelow
	DaysSilent *float64    // for NoData
	SampleSize int         // graded sessions behind PassRate
	Interval   *[2]float64 // 95 % confidence interval of PassRate

	// Measured is compared with Reference: pass rates of versions, shares of offers,
	// dollars for a use.
	Measured, Reference *float64
	ReferenceVersion    string

	// The evaluated window; left out of the message when WindowTo is zero.
	WindowFrom, WindowTo time.Time
	WindowSessions       int

	TriggeredAt   time.Time  // when the state changed
	Since         *time.Time // when the incident began; nil means TriggeredAt while it lasts
	LastSessionAt *time.Time
	Sequence      int
	Version       *string // current in the registry at that time
	URL           string  // page of the skill
	Note          string  // what else happened, e.g. "Rolled back to 1.2.0"
}

// A Target is where a notice is sent. Its secrets are redacted when it is
// printed or logged.
type Target struct {
	Channel Channel
	Address string // a URL, or a mail address for Email
	// Secrets sign the body for a Webhook, each with a signature of its own:
	// the current one first, then one that is being rotated out.
	Secrets []string
}

// An Outcome tells the caller whether to retry.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	Retry     Outcome = "retry"  // a temporary failure
	Failed    Outcome = "failed" // a permanent failure: the settings must change first
	Gone      Outcome = "gone"   // HTTP 410: the receiver wants no more notices of the alert
)

// A Result is the result of an attempt.
type Result struct {
	Outcome Outcome
	// Status is the HTTP or SMTP status code; 0 without a response.
	Status int
	// Detail describes in one line what happened. It may be shown: it contains
	// neither the target's address nor a secret.
	Detail string
	// RetryAfter is the wait that the receiver asked for, or 0.
	RetryAfter time.Duration
	// Throttled reports that nothing was sent because of a rate limit: the
	// target is busy or has asked for a pause. Outcome is Retry then, and
	// RetryAfter is set. It should not count as an attempt.
	Throttled bool
	// Latency is how long the attempt took, without the wait for the rate limit.
	Latency time.Duration
}

// Options configure a Sender.
type Options struct {
	// HTTP sends to chats and webhooks. The sender sets its own limits on it.
	HTTP *outbound.Client
	// SMTPURL is smtp://user:password@host:port, or smtps:// for TLS from the
	// start, and MailFrom is the sender of mails. Without both, mails fail.
	SMTPURL  string
	MailFrom string
	// MailRoots are trusted for the mail server's certificate instead of the
	// system's, if not nil.
	MailRoots *x509.CertPool
	// MailDial connects to the mail server instead of a net.Dialer, if not
	// nil. There is no SSRF guard: the operator chose that server, and it may
	// have a private address.
	MailDial func(ctx context.Context, network, address string) (net.Conn, error)
}

// The limits of an attempt.
const (
	connectTimeout = 5 * time.Second
	attemptTimeout = 15 * time.Second
	maxResponse    = 4 << 10 // bytes of a response that are read
)

// A Sender delivers notices. It is safe for concurrent use.
type Sender struct {
	http    *outbound.Client
	mail    *mailServer
	limiter *rateLimiter
}

// New returns a sender. Its error is Malformed and names the invalid setting of
// the mail server, but not its value.
func New(o Options) (*Sender, error) {
	server, err := newMailServer(o)
	if err != nil {
		return nil, err
	}
	s := &Sender{mail: server, limiter: newRateLimiter()}
	s.Use(o.HTTP)
	return s, nil
}

// Use replaces the client that sends to chats and webhooks. It may not be called once something
// is sent.
func (s *Sender) Use(client *outbound.Client) {
	s.http = client.With(outbound.Limits{Timeout: attemptTimeout, MaxBody: maxResponse, MaxRedirects: -1})
}

// MailConfigured reports whether the settings for mail are there.
func (s *Sender) MailConfigured() bool { return s.mail.configured() }

// Send makes one attempt to deliver a notice. It first waits for the rate
// limits, up to ten seconds. Only a Test ignores the pause that a receiver has
// asked for. The attempt itself takes up to 15 seconds, or 30 with a chat that
// refuses rich formatting. When the context ends early the outcome is Retry,
// although the receiver may have got the notice.
func (s *Sender) Send(ctx context.Context, t Target, n Notice) Result {
	if problem := n.problem(); problem != "" {
		return failed(problem)
	}
	switch t.Channel {
	case ChatA, ChatB, Webhook:
		bodies, err := httpBodies(t.Channel, n)
		if err != nil {
			return failed(publicMessage(err))
		}
		return s.send(ctx, t, Message{ID: n.ID, Body: bodies[0], Immediate: n.Status == Test}, bodies[1:]...)

	case Email:
		if !s.mail.configured() {
			return failed(noMailServer)
		}
		to, err := parseMailAddress(t.Address)
		if err != nil {
			return failed("the address of the alert " + publicMessage(err))
		}
		return s.deliverMail(ctx, to, newMail(n, s.mail.from, to), t.Address)

	default:
		return failed("the channel is not known")
	}
}

// problem returns why a notice cannot be sent by any channel, or "".
func (n *Notice) problem() string {
	if !isID(n.ID) || n.EpisodeID != "" && !isID(n.EpisodeID) {
		return "the notice has no usable id"
	}
	switch n.Status {
	case Firing, Resolved, Reminder, Test:
	default:
		return "the status of the notice is not known"
	}
	switch n.Type {
	case PassRateBelow, NoData, WorseThanPrevious, CostAbove, SilentFall:
		return ""
	default:
		return "the type of the notice is not known"
	}
}

// isID accepts IDs that need no escaping in a header, in a Message-ID and in
// the text that a webhook's signature covers.
func isID(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func failed(detail string) Result { return Result{Outcome: Failed, Detail: detail} }
